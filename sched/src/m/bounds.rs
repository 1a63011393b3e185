//! What libraries learn of the stack on which they run: `pthread_getattr_np`.
//!
//! Code that recurses deeply asks libc for the bounds of its thread's stack: `stacker`, and with it parsers.
//! In a closure with thread-locals of its own that thread is the green thread, of which libc knows no stack.
//! So this file has the function in the place of libc's, and passes all other questions on. (Linux with glibc
//! on x86-64 and 64-bit Arm, where such closures exist.)
//!
//! Rejected: *to write the bounds into libc's record of the thread*. libc also asks the kernel for the
//! thread's processors, by a number that no thread has.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::current::on_m;
use crate::stack::coro::Coro;
use crate::tls;

type Getattr = unsafe extern "C" fn(libc::pthread_t, *mut libc::pthread_attr_t) -> c_int;

/// libc's function: 0 before the first question.
static OF_LIBC: AtomicUsize = AtomicUsize::new(0);

/// Returns the stack of a green thread that is not the caller, by the name that pthread functions have for
/// it. Returns `None` for the name of an OS thread.
pub(crate) type OfOther = fn(libc::pthread_t) -> Option<Answer>;

/// What is known of the stack of a green thread: its lowest address and its size, or an error number.
pub(crate) type Answer = Result<(usize, usize), c_int>;

/// The function of `set_of_other`.
static OF_OTHER: OnceLock<OfOther> = OnceLock::new();

/// Sets the function that is asked for the stacks of other green threads: only a program of which all threads
/// are green has names for these.
#[allow(dead_code, unreachable_pub, reason = "exported for interposition")]
pub fn set_of_other(ask: OfOther) {
    // The first function stays.
    let _set = OF_OTHER.set(ask);
}

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
        // SAFETY: the caller's attributes.
        return unsafe { answer(attr, lowest, bytes) };
    }
    match OF_OTHER.get().and_then(|ask| ask(thread)) {
        // SAFETY: as above.
        Some(Ok((lowest, bytes))) => return unsafe { answer(attr, lowest, bytes) },
        Some(Err(error)) => return error,
        None => {}
    }
    match of_libc() {
        // SAFETY: the caller's arguments.
        Some(getattr) => unsafe { getattr(thread, attr) },
        None => libc::ENOSYS,
    }
}

/// Makes the attributes of a stack.
///
/// # Safety
/// `attr` is a place for attributes.
unsafe fn answer(attr: *mut libc::pthread_attr_t, lowest: usize, bytes: usize) -> c_int {
    // SAFETY: this contract. The first call makes the attributes; the second only notes the addresses.
    unsafe {
        libc::pthread_attr_init(attr);
        libc::pthread_attr_setstack(attr, std::ptr::with_exposed_provenance_mut(lowest), bytes)
    }
}

/// Returns the lowest address and the size of the stack of the running closure, if it has thread-locals of
/// its own.
#[inline(never)]
#[allow(unreachable_pub, reason = "exported for interposition")]
pub fn own_stack() -> Option<(usize, usize)> {
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
