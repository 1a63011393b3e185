//! `sem_wait`, `sem_timedwait`, `sem_clockwait` and `sem_post`: a green thread that waits for a semaphore of
//! C parks.
//!
//! The words are glibc's, and have its meaning: the value and the number of waiters in one word of 64 bits.
//! So `sem_init`, `sem_trywait`, `sem_getvalue` and `sem_destroy` are glibc's, which do not wait. A plain OS
//! thread waits by glibc's function, for the same word in the kernel.
//!
//! ```text
//!   the waiter                                    the poster
//!   takes 1 of the value? leave                   the value + 1, and read the number of waiters, in one step
//!   listen for the bell                           any? wake one, of the table or of the kernel
//!   the number of waiters + 1
//!   the value is not 0? take 1, the number - 1,   the poster in a signal handler: wake one of the kernel;
//!     in one step, and leave                        there was none? ring the bell (`bell.rs`)
//!   wait in the table while the value is 0
//!   try again
//! ```
//!
//! - *No wake-up is lost.* The waiter compares the value under the table's lock. If it is 0 there, the post
//!   comes later, sees the number of waiters, and finds the waiter in the table. A waiter of which the time
//!   is up is not woken: the wake-up goes to the next one.
//! - *A waiter that is cancelled* may have been woken, too. If there is a value, it wakes the next one.
//! - *The semaphore may be gone* once the value is raised, because a waiter takes it and returns. So the
//!   poster then uses the address alone.
//! - *A poster in a signal handler* may have interrupted a thread that has a lock of the table, or is in the
//!   scheduler. So it uses atomics and one system call. `may_interrupt` says how a handler is recognised.
//!
//! Semaphores that processes share are waited for by glibc's functions. So are those of `sem_open`, which are
//! shared. `sem_post` is whole for all, also in a process of OS threads: to look glibc's function up is
//! nothing for a signal handler.

use std::ffi::c_int;
use std::ptr;

use libc::{clockid_t, sem_t, timespec};
use netpoll::raw::fail;
use sched::foreign;
use timers::clock;

use super::super::masks::kernel;
use super::super::real;
use super::bell::{self, Listener};
use super::{are_ours, is_supported, until};
use crate::futex::{self, Wait};
use crate::poll::duration;
use crate::raw::call;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use crate::sync::broken;
use crate::{cancellation_point, error, is_cancelled};

#[cfg(all(test, loom))]
pub(super) mod models;

real! {
    sem_wait: unsafe extern "C" fn(*mut sem_t) -> c_int;
    sem_timedwait: unsafe extern "C" fn(*mut sem_t, *const timespec) -> c_int;
    sem_clockwait: unsafe extern "C" fn(*mut sem_t, clockid_t, *const timespec) -> c_int;
}

/// The words of a semaphore.
#[repr(C)]
struct Words {
    /// The value in the lower half, the number of waiters in the upper one.
    data: AtomicU64,
    /// 0 if the semaphore belongs to this process.
    shared: AtomicU32,
}

/// One waiter.
const WAITER: u64 = 1 << 32;
/// `SEM_VALUE_MAX`.
const MOST: u32 = i32::MAX as u32;

impl Words {
    /// Returns the words, if the semaphore is not glibc's whole.
    ///
    /// # Safety
    /// The semaphore is one, and is used only as long as it is.
    unsafe fn of<'s>(semaphore: *mut sem_t) -> Option<&'s Words> {
        // SAFETY: glibc's semaphore begins with these words, which change by atomic operations only.
        let words = unsafe { &*semaphore.cast::<Words>() };
        (are_ours() && words.shared.load(SeqCst) == 0).then_some(words)
    }

    /// Takes 1 of the value, and `more` of the word with it. Returns `false` if the value is 0.
    fn take(&self, more: u64) -> bool {
        let taken = |data: u64| (data as u32 > 0).then(|| data - 1 - more);
        self.data.fetch_update(SeqCst, SeqCst, taken).is_ok()
    }

    /// Returns the value as the word that waiters wait for.
    fn value(&self) -> &AtomicU32 {
        // SAFETY: the lower half comes first on the processors where these functions are used. It lives as
        // long as the whole, and is read only. The kernel reads it in the same way for glibc's waiters.
        unsafe { AtomicU32::from_ptr(self.data.as_ptr().cast()) }
    }
}

/// libc's `sem_wait`. A signal does not end the wait of a green thread.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn wait_semaphore(semaphore: *mut sem_t) -> c_int {
    // SAFETY: the caller's semaphore.
    unsafe { take_or(semaphore, || clock::NEVER, || sem_wait()(semaphore)) }
}

/// libc's `sem_timedwait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn timed_wait_semaphore(semaphore: *mut sem_t, time: *const timespec) -> c_int {
    // SAFETY: the caller's semaphore and time.
    unsafe {
        let whole = || sem_timedwait()(semaphore, time);
        if duration(&*time).is_none() {
            return whole();
        }
        take_or(semaphore, || until(libc::CLOCK_REALTIME, time).unwrap_or(clock::NEVER), whole)
    }
}

/// libc's `sem_clockwait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn clock_wait_semaphore(
    semaphore: *mut sem_t,
    clock: clockid_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's semaphore and time.
    unsafe {
        let whole = || sem_clockwait()(semaphore, clock, time);
        if !is_supported(clock) || duration(&*time).is_none() {
            return whole();
        }
        take_or(semaphore, || until(clock, time).unwrap_or(clock::NEVER), whole)
    }
}

/// libc's `sem_post`. A signal handler may call it.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn post(semaphore: *mut sem_t) -> c_int {
    // SAFETY: as in `Words::of`.
    let words = unsafe { &*semaphore.cast::<Words>() };
    let (address, shared) = (words.data.as_ptr().expose_provenance(), words.shared.load(SeqCst));
    let raised = |data: u64| ((data as u32) < MOST).then(|| data + 1);
    let raised = words.data.fetch_update(SeqCst, SeqCst, raised);
    if broken!("semaphore_looks_at_the_freed") {
        words.shared.load(SeqCst);
    }
    match raised {
        Ok(before) if before < WAITER => {}
        Ok(_) if shared != 0 => futex::wake_shared(address),
        Ok(_) => wake(address),
        Err(_) => return fail(error(libc::EOVERFLOW)) as c_int,
    }
    0
}

/// Wakes one waiter for the semaphore at `address`, which may be gone. *Runs on: any thread, also in a signal
/// handler.*
fn wake(address: usize) {
    let may_interrupt = || may_interrupt() && !broken!("semaphore_handler_uses_the_table");
    if bell::has_listeners() && !may_interrupt() {
        futex::wake_at(address, 1);
    } else if futex::wake_in_kernel(address, 1) < 1 && !broken!("semaphore_handler_rings_no_bell") {
        bell::ring();
    }
}

/// Returns `true` if a signal handler may run here: its signal is blocked in it. A thread that blocks signals
/// otherwise is taken for one, and only loses time. The OS threads of the runtime block some, but in a
/// handler they block another set.
///
/// A handler with `SA_NODEFER` and an empty mask blocks none: it must not post.
fn may_interrupt() -> bool {
    let mut mask = 0_u64;
    // SAFETY: the call writes the mask of signals, which has these bytes.
    unsafe {
        call!(libc::SYS_rt_sigprocmask, libc::SIG_BLOCK, ptr::null::<u64>(), &raw mut mask, size_of::<u64>())
    };
    mask != 0 && mask != kernel::base()
}

/// Takes 1 of the value, and parks where a green thread must wait. `whole` is libc's whole call.
///
/// # Safety
/// The semaphore is one.
unsafe fn take_or(
    semaphore: *mut sem_t,
    until: impl FnOnce() -> u64,
    whole: impl FnOnce() -> c_int,
) -> c_int {
    // SAFETY: this contract.
    let Some(words) = (unsafe { Words::of(semaphore) }) else { return whole() };
    cancellation_point();
    if words.take(0) {
        return 0;
    }
    if !foreign::is_thread_of_its_own() {
        return whole();
    }
    match wait_for(words, until()) {
        Some(Wait::Over) => 0,
        Some(Wait::TimedOut) => {
            cancellation_point();
            fail(error(libc::ETIMEDOUT)) as c_int
        }
        None => whole(),
    }
}

/// Waits for the value and takes 1 of it. Returns `None` where the caller cannot park. *Runs on: a green
/// thread, in user code.*
#[cold]
fn wait_for(words: &Words, until: u64) -> Option<Wait> {
    let value = words.value();
    // SAFETY: the listener ends in this function, and the caller keeps the semaphore.
    let _listener = unsafe { Listener::begin(value)? };
    let own = if broken!("semaphore_waiter_is_uncounted") { 0 } else { WAITER };
    words.data.fetch_add(own, SeqCst);
    loop {
        if words.take(own) {
            return Some(Wait::Over);
        }
        match futex::park_while_or_cancel(value, 0, until) {
            Some(Wait::Over) if !is_cancelled() => {}
            // The caller unwinds.
            Some(Wait::Over) => {
                let address = value.as_ptr().expose_provenance();
                let before = words.data.fetch_sub(own, SeqCst);
                // A post may have ended this wait. Its wake-up is for the next waiter.
                let is_raised = before as u32 > 0 && !broken!("semaphore_cancelled_takes_the_wake_up");
                if is_raised && before >= 2 * WAITER {
                    futex::wake_at(address, 1);
                }
                return Some(Wait::TimedOut);
            }
            ended => {
                words.data.fetch_sub(own, SeqCst);
                return ended;
            }
        }
    }
}
