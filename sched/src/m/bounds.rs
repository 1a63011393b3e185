//! What libraries are told of the stack on which they run: `pthread_getattr_np`.
//!
//! Code that recurses deeply asks libc for the bounds of its thread's stack: `stacker`, and with it parsers.
//! In a closure with thread-locals of its own that thread is the green thread, of which libc knows no stack.
//! So this file has the function in the place of libc's, and passes all other questions on. (Linux with glibc
//! on x86-64, where such closures exist.)
//!
//! Rejected: *to write the bounds into libc's record of the thread*. libc also asks the kernel for the
//! thread's processors, by a number that no thread has.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::current::on_m;
use crate::stack::coro::Coro;
use crate::tls;

type Getattr = unsafe extern "C" fn(libc::pthread_t, *mut libc::pthread_attr_t) -> c_int;

/// libc's function: 0 before the first question.
static OF_LIBC: AtomicUsize = AtomicUsize::new(0);

/// libc's `pthread_getattr_np`. Of a green thread that asks for itself, and has thread-locals of its own, it
/// tells the stack of the green thread, without its guard.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_getattr_np(
    thread: libc::pthread_t,
    attr: *mut libc::pthread_attr_t,
) -> c_int {
    // SAFETY: the call has no requirements.
    if thread == unsafe { libc::pthread_self() }
        && tls::is_own()
        && let Some((lowest, bytes)) = own_stack()
    {
        // SAFETY: the caller's attributes, which the first call makes; the second only notes the addresses.
        return unsafe {
            libc::pthread_attr_init(attr);
            libc::pthread_attr_setstack(attr, std::ptr::with_exposed_provenance_mut(lowest), bytes)
        };
    }
    match of_libc() {
        // SAFETY: the caller's arguments.
        Some(getattr) => unsafe { getattr(thread, attr) },
        None => libc::ENOSYS,
    }
}

/// Returns the lowest address and the size of the stack of the running closure, if it has thread-locals of
/// its own.
#[inline(never)]
fn own_stack() -> Option<(usize, usize)> {
    let g = on_m(|m| m.running_or_hooked()).flatten()?;
    // SAFETY: a running G has its coroutine, which this thread alone uses.
    unsafe { Coro::block_of(g).is_some() }.then(|| unsafe { (*g.coro()).stack() })
}

fn of_libc() -> Option<Getattr> {
    // Relaxed: each thread that finds 0 finds the same function.
    let mut found = OF_LIBC.load(Ordering::Relaxed);
    if found == 0 {
        // SAFETY: the call reads the name.
        found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"pthread_getattr_np".as_ptr()) }.expose_provenance();
        OF_LIBC.store(found, Ordering::Relaxed);
    }
    // SAFETY: the word is 0 or libc's function, which has this signature.
    unsafe { std::mem::transmute::<*const c_void, Option<Getattr>>(std::ptr::with_exposed_provenance(found)) }
}

/// Makes the linker take the function.
pub(crate) fn link() {
    std::hint::black_box(pthread_getattr_np as *const ());
}
