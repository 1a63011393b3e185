//! The record of a green thread, which its `pthread_t` leads to.
//!
//! A `pthread_t` of glibc leads to a record that begins with its own address. Here the record begins with a
//! mark, which is the address of nothing. So each function knows which kind of thread is meant.
//!
//! ```text
//!   the green thread                     a joiner                       references
//!   begin                                                               2: the thread's, the handle's
//!   run, leave the result
//!   destructors of thread-locals         RUNNING -> AWAITED, wait
//!   state = ENDED, wake the waiters
//!   drop the thread's reference          sees ENDED, takes the result
//!                                        drop the handle's reference    0: freed
//! ```
//!
//! One thread uses the handle: it joins or detaches. `claim` says which, so that a second join or detach of a
//! live thread is refused. The order of the result and the end: the thread writes the result before its
//! `ENDED` (Release), and a joiner reads it after it has seen `ENDED` (Acquire).

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

use libc::{pid_t, pthread_t};
use sched::GHandle;
use sched::sync::Mutex;

use super::signals::Signals;
use crate::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
use crate::sync::{broken, thread_static};
use crate::{futex, is_cancelled};

#[cfg(all(test, loom))]
pub(crate) mod models;

/// Begins each record. No address: it is not canonical.
const MARK: usize = 0x6772_6565_6e74_6872;

/// The values of `state`.
const RUNNING: u32 = 0;
/// Runs, and a joiner waits.
const AWAITED: u32 = 1;
const ENDED: u32 = 2;

/// The values of `claim`.
const FREE: u32 = 0;
const JOINING: u32 = 1;
const DETACHED: u32 = 2;

/// The bits of `cancel`. `pthread_cancel` was called.
const REQUESTED: u8 = 1;
/// The thread may not be cancelled now.
const DISABLED: u8 = 2;
/// The thread ends.
const UNWINDING: u8 = 4;
/// The thread has begun. One that is cancelled before that runs to its first cancellation point.
const BEGUN: u8 = 8;

/// The bytes of a name, with the zero at its end, as the kernel has it.
pub(super) const NAME: usize = 16;

thread_static! {
    /// The record of the green thread with these thread-locals; null on OS threads and in other closures.
    static OWN: Cell<*const Record> = const { Cell::new(ptr::null()) };
}

/// Sets the record of the calling thread. Never inlined, as `own`: the caller may be on another OS thread at
/// each call.
#[inline(never)]
pub(super) fn set_own(record: *const Record) {
    OWN.with(|own| own.set(record));
}

/// Returns the record of the calling thread, if that is a green thread of pthread.
pub(super) fn own<'r>() -> Option<&'r Record> {
    // SAFETY: the record is that of the running thread, which has a reference until its end. Its
    // thread-locals are made anew after it.
    unsafe { own_pointer().as_ref() }
}

#[inline(never)]
fn own_pointer() -> *const Record {
    OWN.with(Cell::get)
}

/// The record of one green thread.
#[repr(C)]
pub(super) struct Record {
    mark: usize,
    references: AtomicUsize,
    state: AtomicU32,
    claim: AtomicU32,
    /// The thread has called `pthread_exit`.
    exited: AtomicBool,
    result: AtomicPtr<c_void>,
    /// The lowest address and the size of its stack, once it has begun.
    stack: OnceLock<(usize, usize)>,
    about: Mutex<About>,
    signals: Mutex<Signals>,
    /// The signals that the thread blocks.
    mask: AtomicU64,
    /// A set of `REQUESTED`, `DISABLED`, `UNWINDING` and `BEGUN`.
    cancel: AtomicU8,
    /// The innermost handler of `pthread_cleanup_push` (`cancel.rs`). Only the thread uses it.
    handler: AtomicPtr<c_void>,
}

/// What a thread may change of another one.
struct About {
    name: [u8; NAME],
    /// The name was set, and is not that of the thread that has started this one.
    is_named: bool,
    /// Shows the name in dumps, and ends waits. Missing until the green thread has begun.
    handle: Option<GHandle>,
    /// The OS thread that it keeps.
    kept: Option<Kept>,
}

/// The OS thread that a thread keeps (`os_thread.rs`).
#[derive(Clone, Copy)]
pub(super) struct Kept {
    /// The kernel's number of it.
    pub(super) id: pid_t,
    /// The pin that keeps it.
    pub(super) pin: u64,
    /// Its name and its policy, which it has again after the thread.
    pub(super) os_name: [u8; NAME],
    pub(super) policy: c_int,
}

impl Record {
    /// Returns the record that `thread` leads to; `None` if that is an OS thread.
    ///
    /// # Safety
    /// `thread` is null, or a thread that has not ended, or was neither joined nor detached. The record is
    /// used only as long as that holds.
    pub(super) unsafe fn of<'r>(thread: pthread_t) -> Option<&'r Record> {
        let record = ptr::with_exposed_provenance::<Record>(thread as usize);
        // SAFETY: this contract. The first word of either kind of record never changes.
        let is_green = !record.is_null() && unsafe { (*record).mark } == MARK;
        // SAFETY: the mark says that this is a record, and the contract that it is alive.
        is_green.then(|| unsafe { &*record })
    }

    /// Returns the name by which pthread functions know the thread.
    pub(super) fn thread(&self) -> pthread_t {
        ptr::from_ref(self).expose_provenance() as pthread_t
    }

    /// Returns `true` if the thread has ended.
    pub(super) fn is_over(&self) -> bool {
        // Acquire: pairs with the Release in `end`.
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// Waits until the thread has ended, or until `until` on the runtime's clock. Returns `false` if the time
    /// was up first, or if the caller was cancelled. *Runs on: any thread.*
    pub(super) fn wait(&self, until: u64) -> bool {
        loop {
            // Acquire, both: pair with the Release in `end`.
            let acquire = if broken!("record_wait_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
            match self.state.compare_exchange(RUNNING, AWAITED, acquire, acquire) {
                Err(ENDED) => return true,
                _ if timers::clock::now() >= until || is_cancelled() => return false,
                _ => _ = futex::wait_while_or_cancel(&self.state, AWAITED, until),
            }
        }
    }

    /// Records the end, after the destructors of the thread-locals. *Runs on: the thread.*
    pub(super) fn end(&self) {
        if broken!("record_wakes_before_its_end") {
            futex::wake_at(self.state.as_ptr().expose_provenance(), c_int::MAX);
            self.state.swap(ENDED, Ordering::Release);
            return;
        }
        // Release: pairs with the Acquire of `is_over` and `wait`.
        let release = if broken!("record_end_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        if self.state.swap(ENDED, release) == AWAITED {
            // One thread at a time has the claim of a join, and waits.
            futex::wake_at(self.state.as_ptr().expose_provenance(), 1);
        }
    }

    /// Leaves the result. *Runs on: the thread, before its end.*
    pub(super) fn set_result(&self, result: *mut c_void) {
        // Relaxed: `end` publishes it.
        self.result.store(result, Ordering::Relaxed);
    }

    /// Returns the result. *Runs on: a thread that has seen the end.*
    pub(super) fn result(&self) -> *mut c_void {
        // Relaxed: the caller has seen the end.
        self.result.load(Ordering::Relaxed)
    }

    /// Notes that the thread has called `pthread_exit`. *Runs on: the thread.*
    pub(super) fn exits(&self) {
        // Relaxed: `end` publishes it.
        self.exited.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if the thread has called `pthread_exit`. *Runs on: a thread that has seen the end.*
    pub(super) fn has_exited(&self) -> bool {
        // Relaxed: the caller has seen the end.
        self.exited.load(Ordering::Relaxed)
    }

    /// Claims the handle for a join. Returns `false` if the thread is detached or being joined.
    pub(super) fn begin_join(&self) -> bool {
        if broken!("record_is_claimed_in_two_steps") {
            let is_free = self.claim.load(Ordering::Relaxed) == FREE;
            self.claim.swap(JOINING, Ordering::Relaxed);
            return is_free;
        }
        // Relaxed, here and in the next two: the word alone decides, and publishes nothing.
        self.claim.compare_exchange(FREE, JOINING, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Gives the claim of a join up, in which the time was up.
    pub(super) fn give_up_join(&self) {
        self.claim.store(FREE, Ordering::Relaxed);
    }

    /// Claims the handle for a detach. Returns `false` if the thread is detached or being joined.
    pub(super) fn begin_detach(&self) -> bool {
        self.claim.compare_exchange(FREE, DETACHED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Notes the stack. *Runs on: the thread, at its begin.*
    pub(super) fn set_stack(&self, stack: (usize, usize)) {
        // The one place that sets it.
        let _first = self.stack.set(stack);
    }

    /// Returns the lowest address and the size of the stack, if the thread has begun.
    pub(super) fn stack(&self) -> Option<(usize, usize)> {
        self.stack.get().copied()
    }

    /// Runs `change` with what the thread waits for. The caller stays on its OS thread, so it never parks.
    pub(super) fn with_signals<T>(&self, change: impl FnOnce(&mut Signals) -> T) -> T {
        loop {
            if let Some(mut signals) = self.signals.try_lock() {
                return change(&mut signals);
            }
            // The lock is held during a few system calls that do not block.
            std::hint::spin_loop();
        }
    }

    /// Asks the thread to end, and ends its wait if it may be cancelled.
    pub(super) fn cancel(&self) {
        let about = self.about.lock();
        // SeqCst, here and below: the thread itself looks without the lock.
        self.cancel.fetch_or(REQUESTED, Ordering::SeqCst);
        // Without a handle the thread sees the request when it begins.
        if let Some(handle) = &about.handle {
            handle.cancel();
        }
    }

    /// Notes the green thread, so that dumps show the name of its record, and cancellations end its waits.
    /// *Runs on: the thread, at its begin.*
    pub(super) fn begin(&self, handle: GHandle) {
        let looks_early = broken!("record_looks_before_the_lock").then(|| self.cancel.load(Ordering::SeqCst));
        let mut about = self.about.lock();
        let before = self.cancel.fetch_or(BEGUN, Ordering::SeqCst);
        if looks_early.unwrap_or(before) & REQUESTED != 0 {
            handle.cancel();
        }
        // Another thread may have set the name before.
        about.handle = Some(handle);
        about.show();
    }

    /// Returns `true` if the thread was cancelled, may be cancelled, and does not end yet. *Runs on: the
    /// thread.*
    pub(super) fn is_to_unwind(&self) -> bool {
        self.cancel.load(Ordering::SeqCst) == REQUESTED | BEGUN
    }

    /// Says whether the thread may be cancelled, here and in the scheduler: a cancellation there is for good,
    /// so it may not end the waits before this one lets it. Returns `true` if the thread could not be
    /// cancelled before. *Runs on: the thread.*
    pub(super) fn set_uncancellable(&self, on: bool) -> bool {
        let before = match on {
            true => self.cancel.fetch_or(DISABLED, Ordering::SeqCst),
            false => self.cancel.fetch_and(!DISABLED, Ordering::SeqCst),
        };
        // A thread that unwinds stays masked.
        if on || !broken!("record_keeps_its_mask") {
            sched::set_uncancellable(on || before & UNWINDING != 0);
        }
        before & DISABLED != 0
    }

    /// Notes that the thread ends with a result. *Runs on: the thread.*
    pub(super) fn begin_unwinding(&self, result: *mut c_void) {
        self.cancel.fetch_or(UNWINDING, Ordering::SeqCst);
        self.set_result(result);
        self.exits();
    }

    /// Returns the innermost handler. *Runs on: the thread, as `set_handler`.*
    pub(super) fn handler(&self) -> *mut c_void {
        // Relaxed, here and below: only the thread uses it.
        self.handler.load(Ordering::Relaxed)
    }

    pub(super) fn set_handler(&self, handler: *mut c_void) {
        self.handler.store(handler, Ordering::Relaxed);
    }

    /// Returns the signals that the thread blocks.
    pub(super) fn mask(&self) -> u64 {
        // Relaxed, here and below: only the thread writes. A sender that reads the word under the lock of the
        // signals is ordered by that lock: the thread takes what is pending after it has changed the mask.
        self.mask.load(Ordering::Relaxed)
    }

    /// Sets the signals that the thread blocks, and returns those of before. *Runs on: the thread.*
    pub(super) fn set_mask(&self, mask: u64) -> u64 {
        self.mask.swap(mask, Ordering::Relaxed)
    }

    /// Returns the name, with zeroes at its end.
    pub(super) fn name(&self) -> [u8; NAME] {
        self.about.lock().name
    }

    /// Sets the name, also in dumps.
    pub(super) fn set_name(&self, name: [u8; NAME]) {
        let mut about = self.about.lock();
        (about.name, about.is_named) = (name, true);
        about.show();
    }

    /// Returns the OS thread that the thread keeps.
    pub(super) fn kept(&self) -> Option<Kept> {
        self.about.lock().kept
    }

    /// Notes whether the thread keeps its OS thread. *Runs on: the thread.*
    pub(super) fn set_kept(&self, kept: Option<Kept>) {
        self.about.lock().kept = kept;
    }

    /// Runs `call` with the OS thread that the thread keeps. During `call` the thread does not end.
    pub(super) fn with_kept<T>(&self, call: impl FnOnce(&Kept) -> T) -> Option<T> {
        self.about.lock().kept.as_ref().map(call)
    }
}

/// What a thread unwinds with in `pthread_exit`: its result.
pub(super) struct Exit(pub(super) *mut c_void);

// SAFETY: the pointer means nothing here. The joiner has it.
unsafe impl Send for Exit {}

impl About {
    fn show(&self) {
        if let Some(thread) = self.handle.as_ref().filter(|_| self.is_named && self.name[0] != 0) {
            let length = self.name.iter().position(|&byte| byte == 0).unwrap_or(NAME);
            // The lock lets one thread in at a time.
            thread.rename(&String::from_utf8_lossy(&self.name[..length]));
        }
    }
}

/// A counted reference to a record.
pub(super) struct Reference(NonNull<Record>);

// SAFETY: the record is made of atomics and locks. `GHandle` and pointers to results belong to no thread.
unsafe impl Send for Reference {}

impl Reference {
    /// Makes a record of a joinable or detached thread, with the name of the thread that starts it.
    pub(super) fn new(detached: bool, name: [u8; NAME], mask: u64) -> Reference {
        let record = Box::new(Record {
            mark: MARK,
            references: AtomicUsize::new(1),
            state: AtomicU32::new(RUNNING),
            claim: AtomicU32::new(if detached { DETACHED } else { FREE }),
            exited: AtomicBool::new(false),
            result: AtomicPtr::default(),
            stack: OnceLock::new(),
            about: Mutex::new(About { name, is_named: false, handle: None, kept: None }),
            signals: Mutex::default(),
            mask: AtomicU64::new(mask),
            cancel: AtomicU8::new(0),
            handler: AtomicPtr::default(),
        });
        Reference(NonNull::from(Box::leak(record)))
    }

    /// Turns the reference into the handle of a joinable thread.
    pub(super) fn into_handle(self) {
        std::mem::forget(self);
    }

    /// Returns the handle's reference.
    ///
    /// # Safety
    /// The caller has claimed the handle.
    pub(super) unsafe fn of_handle(record: &Record) -> Reference {
        Reference(NonNull::from(record))
    }
}

impl Clone for Reference {
    fn clone(&self) -> Reference {
        // Relaxed: the caller has a reference.
        self.references.fetch_add(1, Ordering::Relaxed);
        Reference(self.0)
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // Release: pairs with the fence, so that the last one sees what the others have done.
        let release = if broken!("record_reference_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        if self.references.fetch_sub(1, release) == 1 {
            if !broken!("record_goes_without_a_fence") {
                fence(Ordering::Acquire);
            }
            // SAFETY: `new` has leaked the box, and this was the last reference.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}

impl Deref for Reference {
    type Target = Record;

    fn deref(&self) -> &Record {
        // SAFETY: the reference is counted.
        unsafe { self.0.as_ref() }
    }
}
