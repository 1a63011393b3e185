//! Which thread is meant: `pthread_self`, `pthread_setname_np`, `pthread_getname_np`, and the stack that
//! `pthread_getattr_np` asks for.

use std::ffi::{CStr, c_char, c_int};
use std::ptr;

use libc::pthread_t;

use super::record::{self, NAME, Record};
use super::{os_thread, real};

real! {
    pthread_self: unsafe extern "C" fn() -> pthread_t;
    pthread_setname_np: unsafe extern "C" fn(pthread_t, *const c_char) -> c_int;
    pthread_getname_np: unsafe extern "C" fn(pthread_t, *mut c_char, usize) -> c_int;
}

/// libc's `pthread_self`: that of a green thread leads to its record.
///
/// # Safety
/// As libc's, which has no requirements.
pub unsafe extern "C" fn current() -> pthread_t {
    // SAFETY: libc's function has no requirements.
    record::own().map_or_else(|| unsafe { pthread_self()() }, Record::thread)
}

/// libc's `pthread_setname_np`. Dumps show the name of a green thread; its OS thread has another one, unless
/// the thread keeps it.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn set_name(thread: pthread_t, name: *const c_char) -> c_int {
    // SAFETY: the caller's arguments.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: as above.
        return unsafe { pthread_setname_np()(thread, name) };
    };
    // SAFETY: as above.
    let bytes = unsafe { CStr::from_ptr(name) }.to_bytes();
    if bytes.len() >= NAME {
        return libc::ERANGE;
    }
    let mut name = [0; NAME];
    name[..bytes.len()].copy_from_slice(bytes);
    let own = record::own().filter(|own| ptr::eq(*own, record));
    // The handle, because the starter may not have noted it yet, and an overflow is reported by name.
    record.set_name(name);
    if let Some(own) = own {
        os_thread::look_at_name(own, &name);
    }
    0
}

/// libc's `pthread_getname_np`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn get_name(thread: pthread_t, place: *mut c_char, bytes: usize) -> c_int {
    // SAFETY: the caller's arguments.
    let Some(record) = (unsafe { Record::of(thread) }) else {
        // SAFETY: as above.
        return unsafe { pthread_getname_np()(thread, place, bytes) };
    };
    if bytes < NAME {
        return libc::ERANGE;
    }
    // SAFETY: the caller's place has room for a name.
    unsafe { place.cast::<[u8; NAME]>().write(record.name()) };
    0
}

/// Returns the name that a new thread has from the caller, as the kernel gives it.
pub(super) fn inherited() -> [u8; NAME] {
    record::own().map_or_else(os_thread::name, Record::name)
}

/// Returns the stack of a green thread, for `pthread_getattr_np`.
pub(super) fn stack_of(thread: pthread_t) -> Option<Result<(usize, usize), c_int>> {
    // SAFETY: `pthread_getattr_np` has the requirement for its thread.
    let record = unsafe { Record::of(thread) }?;
    // A thread that has not begun has no stack yet.
    Some(record.stack().ok_or(libc::EAGAIN))
}
