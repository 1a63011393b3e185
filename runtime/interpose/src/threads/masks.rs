//! `pthread_sigmask` and its kin: the mask of signals belongs to the green thread.
//!
//! A signal to the process goes to any OS thread that does not block it. So the kernel's masks cannot follow
//! each green thread at no cost. They are these:
//!
//! ```text
//!                                     the signals of `ROUTED`                 the others
//!   an OS thread of the runtime       blocked                                 not blocked
//!   with a green thread on it         blocked                                 as the green thread has it
//!   the process's first OS thread     blocked if all green threads do         as to the left
//! ```
//!
//! - *A signal to the process* reaches the first OS thread, and its handler runs there. If all green threads
//!   block the signal, it stays pending, for `sigwait`, a `signalfd`, or the thread that unblocks it. The
//!   kernel has preferred this OS thread before, too. `masks/common.rs` keeps its mask.
//! - *A signal that a thread sends to itself* runs its handler there: `as_own` lets the OS thread have the
//!   mask of the green thread for one call.
//! - *A signal outside of `ROUTED`* comes from what the thread itself does, such as `SIGPIPE`. A green thread
//!   that blocks one has a slot (`sched::contexts`): its OS thread gets and loses the mask at each switch.
//!   All other green threads pay nothing.
//!
//! Handlers and children of `vfork` change the mask of their OS thread, as ever. They are recognised by a
//! mask that is not the one above, and by the number of the process.
//!
//! Rejected: *to set the kernel's mask at each switch where it differs*. While a thread is parked, signals of
//! the process come to OS threads that do not have its mask.

pub(super) mod common;
pub(super) mod kernel;

use std::ffi::c_int;

use libc::{pthread_attr_t, sigset_t};
use netpoll::raw::fail;
use sched::contexts::{self, Carrier, Slot};
use sched::{Real, foreign};

use self::kernel::{
    CAUSED, NEVER, OF_THREAD, ROUTED, SET_BYTES, UNBLOCKABLE, base, bit, change_kernel, of_kernel,
    send_all_here, set_kernel, take_pending,
};
use super::record::{self, Record};
use crate::raw::call;
use crate::{error, finish, process};

/// Returns what the OS thread of a green thread with `mask` blocks besides `base`.
fn of_thread(mask: u64) -> u64 {
    let kept = mask & OF_THREAD;
    let of_runtime = if kept & bit(libc::SIGURG) == 0 { None } else { foreign::signal_of_runtime() };
    kept & !of_runtime.map_or(0, bit)
}

/// Runs `start`, which starts OS threads of the runtime's own: these inherit their mask. What the caller has
/// caused and blocks stays pending: it would come to its handler under the mask of the start.
pub(super) fn for_own_threads<T>(start: impl FnOnce() -> T) -> T {
    let blocked = change_kernel(libc::SIG_BLOCK, None).unwrap_or_default();
    let caused = if blocked & CAUSED == 0 { 0 } else { take_pending(blocked & CAUSED) };
    let before = set_kernel(ROUTED);
    let result = start();
    set_kernel(before);
    send_all_here(caused);
    result
}

/// Runs `call` while this OS thread has the mask of `own`, the caller. It is for signals that `own` sends to
/// itself, and for programs that it starts. `call` does not park.
pub(super) fn as_own<T>(own: &Record, call: impl FnOnce() -> T) -> T {
    let before = set_kernel(of_program(own.mask()));
    let result = call();
    set_kernel(before);
    result
}

/// Returns what of a mask the kernel may have.
pub(super) fn of_program(mask: u64) -> u64 {
    mask & !NEVER & (!OF_THREAD | of_thread(mask))
}

/// Returns the calling thread if that is a green thread of pthread, outside of signal handlers and of
/// children that have its memory.
pub(super) fn own_here<'r>() -> Option<&'r Record> {
    let own = record::own()?;
    let expected = base() | of_thread(own.mask());
    (change_kernel(libc::SIG_BLOCK, None) == Ok(expected) && process::is_own()).then_some(own)
}

/// Begins with masks of green threads. Children of `fork` get the mask of the thread that has forked. *Runs
/// on: the first OS thread, before `main`.*
pub(super) fn turn_on() {
    extern "C" fn in_child() {
        become_child();
    }
    kernel::turn_on();
    // SAFETY: the function makes one system call, and reads thread-locals without a destructor. If the system
    // has no memory for it, children have the mask of the OS thread.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

/// Makes a call by which a program starts, which inherits the mask of this OS thread: here that of `own`, the
/// caller, or of the parent that shares its memory with this child. A child that has set its mask keeps that.
pub(super) fn as_inherited<T>(own: &Record, call: impl FnOnce() -> T) -> T {
    if change_kernel(libc::SIG_BLOCK, None) == Ok(base() | of_thread(own.mask())) {
        as_own(own, call)
    } else {
        call()
    }
}

/// Gives this OS thread the mask of its green thread. *Runs on: the only thread of a child of `fork`.*
fn become_child() {
    if let Some(own) = record::own() {
        set_kernel(of_program(own.mask()));
    }
}

/// Lets the OS thread have what `own` has inherited. *Runs on: `own`, at its begin.*
pub(super) fn begin(own: &Record) {
    let kept = of_thread(own.mask());
    if kept != 0 {
        contexts::attach(&FOLLOWS);
        set_kernel(base() | kept);
    }
}

/// Gives `own`, the caller, a mask. When this returns, no signal that it blocks comes to it.
fn change(own: &Record, mask: u64) {
    let before = own.set_mask(mask);
    match (of_thread(before), of_thread(mask)) {
        (0, 0) => {}
        (_, kept) => {
            if kept == 0 {
                contexts::detach(&FOLLOWS);
            } else {
                contexts::attach(&FOLLOWS);
            }
            set_kernel(base() | kept);
        }
    }
    let unblocked = before & !mask;
    if unblocked != 0 {
        // Signals that are pending come here, before the first OS thread can have them.
        let sent = own.with_signals(|signals| signals.take(unblocked));
        as_own(own, || send_all_here(sent));
    }
    common::changed(before, mask);
}

/// Keeps the mask of a green thread that blocks signals of `OF_THREAD`.
struct Kept(Option<u64>);

impl Carrier for Kept {
    fn save(&mut self) {
        if let Some(own) = record::own().filter(|own| own.mask() & CAUSED != 0) {
            own.with_signals(|signals| signals.keep(take_pending(own.mask() & CAUSED)));
        }
        self.0 = Some(set_kernel(base()));
    }

    fn restore(&mut self) {
        if let Some(mask) = self.0.take() {
            set_kernel(mask);
        }
    }

    fn inherit(&self) -> Option<Box<dyn Carrier>> {
        // `begin` does.
        None
    }
}

/// The slot. Not of size zero, so that its address is its own.
struct Follows {
    _not_empty: u8,
}

impl Slot for Follows {
    fn carrier(&'static self) -> Box<dyn Carrier> {
        Box::new(Kept(None))
    }
}

static FOLLOWS: Follows = Follows { _not_empty: 0 };

/// libc's `pthread_sigmask`: the mask of a green thread is its own.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn thread_mask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    let set = (!set.is_null()).then(|| unsafe { of_kernel(set) } & !UNBLOCKABLE);
    let changed = match own_here() {
        Some(own) => change_own(own, how, set),
        None => change_kernel(how, set.as_ref()),
    };
    match changed {
        Ok(mask) => {
            if !before.is_null() {
                // SAFETY: the caller's place. The set of libc begins with that of the kernel.
                unsafe { before.cast::<u64>().write(mask) };
            }
            0
        }
        Err(error) => -error as c_int,
    }
}

fn change_own(own: &Record, how: c_int, set: Option<u64>) -> Result<u64, isize> {
    let before = own.mask();
    let Some(set) = set else { return Ok(before) };
    let mask = match how {
        libc::SIG_BLOCK => before | set,
        libc::SIG_UNBLOCK => before & !set,
        libc::SIG_SETMASK => set,
        _ => return Err(error(libc::EINVAL)),
    };
    if mask != before {
        change(own, mask);
    }
    Ok(before)
}

/// libc's `sigprocmask`, as `thread_mask`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn process_mask(
    how: c_int,
    set: *const sigset_t,
    before: *mut sigset_t,
) -> c_int {
    // SAFETY: the caller's arguments.
    match unsafe { thread_mask(how, set, before) } {
        0 => 0,
        errno => fail(error(errno)) as c_int,
    }
}

/// libc's `sigpending`: what is pending for the process, and what `pthread_kill` has sent to a green thread
/// that blocks it.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn pending(set: *mut sigset_t) -> c_int {
    // SAFETY: the caller's place.
    let result = unsafe { call!(libc::SYS_rt_sigpending, set, SET_BYTES) };
    if let Some(own) = record::own().filter(|_| result >= 0) {
        let set = set.cast::<u64>();
        // SAFETY: as above; the call has filled it. What the kernel has pending for a mask that is not the
        // green thread's is not pending for the green thread.
        unsafe { *set = (*set & own.mask()) | own.with_signals(|signals| signals.pending()) };
    }
    finish(result) as c_int
}

/// libc's `sigsuspend`. Holds the OS thread, which has this mask in that time.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn suspend(set: *const sigset_t) -> c_int {
    // SAFETY: the caller's set.
    let mask = unsafe { of_kernel(set) };
    suspend_with(mask)
}

/// libc's `pause`: as `suspend`, with the mask of the thread.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C-unwind" fn pause() -> c_int {
    match own_here() {
        Some(own) => suspend_with(own.mask()),
        None => suspend_with(change_kernel(libc::SIG_BLOCK, None).unwrap_or_default()),
    }
}

/// Waits for a signal that is not in `mask`. Its handler runs here. Returns -1 and `EINTR`.
fn suspend_with(mask: u64) -> c_int {
    let Some(own) = own_here() else { return finish(wait_for_any(mask)) as c_int };
    let sent = own.with_signals(|signals| signals.take(!mask));
    if sent != 0 {
        as_own(own, || send_all_here(sent));
        return fail(error(libc::EINTR)) as c_int;
    }
    let ours = foreign::signal_of_runtime().map_or(0, bit);
    let _first = common::Suspended::begin(!mask & ROUTED);
    finish(process::blocking(|| wait_for_any(of_program(mask) | ours))) as c_int
}

fn wait_for_any(mask: u64) -> isize {
    // SAFETY: the set is this function's.
    unsafe { call!(libc::SYS_rt_sigsuspend, &raw const mask, SET_BYTES) }
}

/// The type of `pthread_attr_getsigmask_np`, which older glibcs do not have.
type GetMask = unsafe extern "C" fn(*const pthread_attr_t, *mut sigset_t) -> c_int;

/// Returns the mask with which a thread begins: that of its attributes, or else of the caller.
///
/// # Safety
/// `attr` is null or leads to attributes.
pub(super) unsafe fn of_new_thread(attr: *const pthread_attr_t) -> u64 {
    let inherited = record::own().map_or(0, Record::mask);
    if attr.is_null() {
        return inherited;
    }
    static GET: Real = Real::new(c"pthread_attr_getsigmask_np");
    let Some(get) = GET.find() else { return inherited };
    // SAFETY: libc's function of this name has this type, and the place is this function's.
    unsafe {
        let get = std::mem::transmute::<*mut std::ffi::c_void, GetMask>(get);
        let mut set = std::mem::zeroed();
        // Another result says that the attributes have none.
        if get(attr, &raw mut set) == 0 { of_kernel(&set) & !UNBLOCKABLE } else { inherited }
    }
}
