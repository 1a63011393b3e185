//! Threads, mutexes and condition variables of C11: `thrd_create`, `mtx_lock`, `cnd_wait` and their kin.
//!
//! The types are those of pthread under other names, and glibc's functions call pthread's inside of libc. So
//! these call the hooks of pthread instead, and convert what they return. These functions of glibc are used
//! as they are, because they do not wait: `thrd_equal`, `mtx_init`, `mtx_trylock`, `mtx_destroy`, `cnd_init`,
//! and all of `tss_t`. (`thrd_sleep` is in `crate::sleep`, `call_once` in `locks/once.rs`.)

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{pthread_cond_t, pthread_mutex_t, pthread_t, timespec};

use super::locks::{condition, mutex};
use super::{create, join, names, real, yields};

/// The function of a thread. `thrd_exit` unwinds through it.
type Start = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

real! {
    thrd_create: unsafe extern "C" fn(*mut pthread_t, Start, *mut c_void) -> c_int;
}

/// Returns the result of C11 for an error number.
fn result_of(error: c_int) -> c_int {
    const SUCCESS: c_int = 0;
    const BUSY: c_int = 1;
    const ERROR: c_int = 2;
    const NO_MEMORY: c_int = 3;
    const TIMED_OUT: c_int = 4;
    match error {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// libc's `thrd_create`: starts a green thread in user code.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn create_c11(
    thread: *mut pthread_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if !create::is_green() {
        // SAFETY: the caller's arguments.
        return unsafe { thrd_create()(thread, start, argument) };
    }
    let run = move |argument| {
        // SAFETY: the caller's function and argument.
        let result = unsafe { start(argument) };
        ptr::without_provenance_mut(result as usize)
    };
    // SAFETY: the caller's place; no attributes are asked for.
    result_of(unsafe { create::start_thread(thread, ptr::null(), argument, start as *const c_void, run) })
}

/// libc's `thrd_join`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn join_c11(thread: pthread_t, result: *mut c_int) -> c_int {
    let mut left = ptr::null_mut();
    // SAFETY: the caller's thread.
    let joined = unsafe { join::join(thread, &mut left) };
    // SAFETY: the caller's place, or null.
    if let Some(result) = unsafe { result.as_mut() }.filter(|_| joined == 0) {
        *result = left.addr() as c_int;
    }
    result_of(joined)
}

/// libc's `thrd_detach`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn detach_c11(thread: pthread_t) -> c_int {
    // SAFETY: the caller's thread.
    result_of(unsafe { join::detach(thread) })
}

/// libc's `thrd_exit`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn exit_c11(result: c_int) -> ! {
    // SAFETY: the caller ends its thread.
    unsafe { create::exit(ptr::without_provenance_mut(result as usize)) }
}

/// libc's `thrd_current`.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C-unwind" fn current_c11() -> pthread_t {
    // SAFETY: the function has no requirements.
    unsafe { names::current() }
}

/// libc's `thrd_yield`.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C-unwind" fn yield_c11() {
    // SAFETY: the function has no requirements.
    unsafe { yields::sched_yield() };
}

/// libc's `mtx_lock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn lock_c11(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    result_of(unsafe { mutex::lock(mutex) })
}

/// libc's `mtx_timedlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn timed_lock_c11(mutex: *mut pthread_mutex_t, time: *const timespec) -> c_int {
    // SAFETY: the caller's mutex and time.
    result_of(unsafe { mutex::timed_lock(mutex, time) })
}

/// libc's `mtx_unlock`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn unlock_c11(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the caller's mutex.
    result_of(unsafe { mutex::unlock(mutex) })
}

/// libc's `cnd_wait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn wait_c11(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
) -> c_int {
    // SAFETY: the caller's condition variable and mutex.
    result_of(unsafe { condition::wait(condition, mutex) })
}

/// libc's `cnd_timedwait`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn timed_wait_c11(
    condition: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's condition variable, mutex and time.
    result_of(unsafe { condition::timed_wait(condition, mutex, time) })
}

/// libc's `cnd_signal`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn signal_c11(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's condition variable.
    result_of(unsafe { condition::signal(condition) })
}

/// libc's `cnd_broadcast`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn broadcast_c11(condition: *mut pthread_cond_t) -> c_int {
    // SAFETY: the caller's condition variable.
    result_of(unsafe { condition::broadcast(condition) })
}

/// libc's `cnd_destroy`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn destroy_c11(condition: *mut pthread_cond_t) {
    // SAFETY: the caller's condition variable.
    unsafe { condition::destroy(condition) };
}
