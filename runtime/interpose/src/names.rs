//! `getaddrinfo`: libc asks name servers by calls of its own, which cannot be hooked. A green thread lets
//! other green threads have its P meanwhile, and waits in line if too many look-ups run. An address as text
//! is converted at once.

use std::ffi::{CStr, c_char, c_int};
use std::net::IpAddr;

use libc::addrinfo;
use sched::foreign::{interruption, is_blocking, is_user_code};
use sched::{Real, Sched};

use super::fail;
use super::wait::of_interruption;
use crate::host::host;

type Getaddrinfo =
    unsafe extern "C" fn(*const c_char, *const c_char, *const addrinfo, *mut *mut addrinfo) -> c_int;

/// libc's `getaddrinfo`, in `blocking` on a green thread, with the bound of this crate's own look-ups. If the
/// wait in line is interrupted, the call returns `EAI_SYSTEM`, and `errno` says why.
///
/// # Safety
/// As libc's.
pub unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    let Some(real) = real() else { return libc::EAI_FAIL };
    // SAFETY: the caller's arguments.
    let ask = || unsafe { real(node, service, hints, found) };
    // A caller in `blocking` may have a place already: this crate's own look-up does.
    // SAFETY: the caller's arguments.
    if !is_user_code() || is_blocking() || unsafe { is_address(node, service, hints) } {
        return ask();
    }
    Sched::with_current(|sched| sched.map_or_else(ask, |sched| ask_in_line(sched, ask)))
}

/// Calls `ask` without the P, when the green thread has a place among the look-ups of its runtime.
fn ask_in_line(sched: &Sched, ask: impl Fn() -> c_int) -> c_int {
    let mut done = None;
    // The way back into the runtime may write `errno`.
    if (host().in_line)(sched, &mut || done = Some((ask(), errno()))) {
        let (result, errno) = done.expect("it was called");
        fail(-(errno as isize));
        return result;
    }
    fail(of_interruption(interruption()));
    libc::EAI_SYSTEM
}

#[inline(never)]
fn errno() -> c_int {
    // SAFETY: the address is that of this thread's `errno`.
    unsafe { *libc::__errno_location() }
}

/// Returns `true` if libc need not ask for anything: the host is an address or missing, and the service is a
/// number or missing.
///
/// # Safety
/// As for `getaddrinfo`.
unsafe fn is_address(node: *const c_char, service: *const c_char, hints: *const addrinfo) -> bool {
    // SAFETY: the caller's promise: each pointer is null, or leads to a structure, or to text that ends with
    // a zero byte.
    let (flags, text) = unsafe {
        let text = |text: *const c_char| {
            (!text.is_null()).then(|| CStr::from_ptr(text).to_str().unwrap_or_default())
        };
        (hints.as_ref().map_or(0, |hints| hints.ai_flags), (text(node), text(service)))
    };
    let host = flags & libc::AI_NUMERICHOST != 0 || text.0.is_none_or(|host| host.parse::<IpAddr>().is_ok());
    host && text.1.is_none_or(|service| service.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns libc's own function.
fn real() -> Option<Getaddrinfo> {
    static REAL: Real = Real::new(c"getaddrinfo");
    // SAFETY: libc's function of this name has this type.
    REAL.find().map(|real| unsafe { std::mem::transmute::<*mut libc::c_void, Getaddrinfo>(real) })
}
