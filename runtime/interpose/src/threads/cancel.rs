//! `pthread_cancel` and its kin, and C's handlers of `pthread_cleanup_push`.
//!
//! ```text
//!   the canceller                            the green thread
//!   REQUESTED                                a cancellation point, or a wait in one that is ended
//!   it may be cancelled? end its wait ────>  REQUESTED, and it may be cancelled? unwind
//! ```
//!
//! - *Waits* are ended by the cancellation of the scheduler, which is there for good. So a thread that may
//!   not be cancelled is masked there, and a thread that unwinds is, too: its handlers may wait.
//! - *Unwinding* goes from handler to handler. C's macros leave the places to which the unwinder jumps, in a
//!   list that begins in the record. Between them, frames with destructors are unwound. After the last one
//!   the thread unwinds to its first function, as `pthread_exit` does.
//!
//! Cancellation points are the functions that park, but for mutexes, read-write locks and barriers, as POSIX
//! says. A wait that holds the OS thread is not ended.
//!
//! Rejected: *`PTHREAD_CANCEL_ASYNCHRONOUS`*. The code of a green thread may be anywhere, also in a call of
//! the runtime.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::ptr;

use libc::pthread_t;

use super::real;
use super::record::{self, Exit, Record};
use crate::{cancellation_point, set_cancellation_point};

real! {
    pthread_cancel: unsafe extern "C" fn(pthread_t) -> c_int;
    pthread_setcancelstate: unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    pthread_setcanceltype: unsafe extern "C" fn(c_int, *mut c_int) -> c_int;
    pthread_testcancel: unsafe extern "C-unwind" fn();
    __pthread_register_cancel: unsafe extern "C" fn(*mut Handler);
    __pthread_unregister_cancel: unsafe extern "C" fn(*mut Handler);
    __pthread_unwind_next: unsafe extern "C-unwind" fn(*mut Handler) -> !;
}

/// The values of `pthread_setcancelstate` and `pthread_setcanceltype`.
const ENABLE: c_int = 0;
const DISABLE: c_int = 1;
const DEFERRED: c_int = 0;
const ASYNCHRONOUS: c_int = 1;

/// The result of a thread that was cancelled.
const CANCELED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// What a cancellation point does: unwinds if the caller was cancelled. Only returns `true` if not `unwinds`.
/// *Runs on: any thread.*
#[cold]
fn at_point(unwinds: bool) -> bool {
    match record::own().filter(|own| own.is_to_unwind()) {
        Some(own) if unwinds => unwind(own, CANCELED),
        own => own.is_some(),
    }
}

/// Ends the calling thread with a result: runs the handlers, and unwinds. *Runs on: `own`.*
pub(super) fn unwind(own: &Record, result: *mut c_void) -> ! {
    own.begin_unwinding(result);
    // What ends the waits of a cancelled thread may not end those of its handlers.
    sched::set_uncancellable(true);
    unwind_further(own)
}

/// Goes on to the next handler, or to the first function of the thread.
fn unwind_further(own: &Record) -> ! {
    if own.handler().is_null() {
        resume_unwind(Box::new(Exit(own.result())))
    }
    let exception = EXCEPTION.with(UnsafeCell::get);
    // SAFETY: the exception is this thread's, as long as it lives. All zeroes is one without a class and
    // without a destructor. The function returns only if it cannot unwind.
    unsafe {
        (*exception).write(Exception([0; 8]));
        _Unwind_ForcedUnwind(exception.cast(), stop, ptr::null_mut());
    }
    eprintln!("runtime: a thread with handlers of pthread_cleanup_push cannot be unwound");
    std::process::abort()
}

/// What C's macro `pthread_cleanup_push` leaves in its frame: a place for `longjmp`, and words for libc.
#[repr(C)]
#[derive(Debug)]
pub struct Handler {
    /// Registers, and whether a mask of signals was saved: not so.
    place: [usize; 9],
    /// The handler around this one.
    outer: *mut Handler,
    _words: [usize; 3],
}

/// `struct _Unwind_Exception`, or what is at least as large.
#[repr(C, align(16))]
struct Exception([usize; 8]);

thread_local! {
    static EXCEPTION: UnsafeCell<MaybeUninit<Exception>> = const { UnsafeCell::new(MaybeUninit::uninit()) };
}

type Stop = extern "C" fn(c_int, c_int, u64, *mut c_void, *mut c_void, *mut c_void) -> c_int;

unsafe extern "C-unwind" {
    fn _Unwind_ForcedUnwind(exception: *mut Exception, stop: Stop, argument: *mut c_void) -> c_int;
}

unsafe extern "C" {
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _longjmp(place: *mut c_void, value: c_int) -> !;
}

/// The unwinder calls this before it unwinds a frame.
extern "C" fn stop(
    _version: c_int,
    actions: c_int,
    _class: u64,
    _exception: *mut c_void,
    context: *mut c_void,
    _argument: *mut c_void,
) -> c_int {
    const END_OF_STACK: c_int = 16;
    const GO_ON: c_int = 0;
    let Some(own) = record::own() else { return GO_ON };
    let handler = own.handler().cast::<Handler>();
    // SAFETY: the unwinder's context.
    let is_past = unsafe { _Unwind_GetCFA(context) } > handler.addr() || actions & END_OF_STACK != 0;
    if !is_past {
        return GO_ON;
    }
    // SAFETY: the handler lies in a frame that has not returned: the macro takes it out of the list before.
    // All frames below are unwound.
    unsafe {
        own.set_handler((*handler).outer.cast());
        _longjmp(handler.cast(), 1)
    }
}

/// libc's `pthread_cancel`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn cancel(thread: pthread_t) -> c_int {
    // SAFETY: the caller's argument.
    match unsafe { Record::of(thread) } {
        Some(record) if record.is_over() => libc::ESRCH,
        Some(record) => {
            set_cancellation_point(at_point);
            record.cancel();
            0
        }
        // SAFETY: as above.
        None => unsafe { pthread_cancel()(thread) },
    }
}

/// libc's `pthread_setcancelstate`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn set_cancel_state(state: c_int, before: *mut c_int) -> c_int {
    let Some(own) = record::own() else {
        // SAFETY: the caller's arguments.
        return unsafe { pthread_setcancelstate()(state, before) };
    };
    if ![ENABLE, DISABLE].contains(&state) {
        return libc::EINVAL;
    }
    let was_disabled = own.set_uncancellable(state == DISABLE);
    // SAFETY: the caller's place, or null.
    if let Some(before) = unsafe { before.as_mut() } {
        *before = if was_disabled { DISABLE } else { ENABLE };
    }
    0
}

/// libc's `pthread_setcanceltype`: a green thread is cancelled at cancellation points only.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn set_cancel_type(kind: c_int, before: *mut c_int) -> c_int {
    if record::own().is_none() {
        // SAFETY: the caller's arguments.
        return unsafe { pthread_setcanceltype()(kind, before) };
    }
    match kind {
        DEFERRED => {}
        ASYNCHRONOUS => return libc::ENOTSUP,
        _ => return libc::EINVAL,
    }
    // SAFETY: the caller's place, or null.
    if let Some(before) = unsafe { before.as_mut() } {
        *before = DEFERRED;
    }
    0
}

/// libc's `pthread_testcancel`.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C-unwind" fn test_cancel() {
    if record::own().is_some() {
        cancellation_point();
    } else {
        // SAFETY: the function has no requirements.
        unsafe { pthread_testcancel()() }
    }
}

/// What C's macro `pthread_cleanup_push` calls.
///
/// # Safety
/// The macro calls it.
pub unsafe extern "C" fn register(handler: *mut Handler) {
    match record::own() {
        Some(own) => {
            // SAFETY: the macro's words.
            unsafe { (*handler).outer = own.handler().cast() };
            own.set_handler(handler.cast());
        }
        // SAFETY: as above.
        None => unsafe { __pthread_register_cancel()(handler) },
    }
}

/// What C's macro `pthread_cleanup_pop` calls.
///
/// # Safety
/// The macro calls it.
pub unsafe extern "C" fn unregister(handler: *mut Handler) {
    match record::own() {
        // SAFETY: the macro's words.
        Some(own) => own.set_handler(unsafe { (*handler).outer.cast() }),
        // SAFETY: as above.
        None => unsafe { __pthread_unregister_cancel()(handler) },
    }
}

/// What C's macro `pthread_cleanup_push` calls after its handler has run.
///
/// # Safety
/// The macro calls it.
pub unsafe extern "C-unwind" fn unwind_next(handler: *mut Handler) -> ! {
    match record::own() {
        Some(own) => unwind_further(own),
        // SAFETY: the macro's words.
        None => unsafe { __pthread_unwind_next()(handler) },
    }
}
