//! `getaddrinfo`: libc asks name servers by calls of its own, which cannot be hooked. A green thread lets other green threads have
//! its P meanwhile.

use std::ffi::{c_char, c_int};
use std::sync::OnceLock;

use libc::addrinfo;

type Getaddrinfo =
    unsafe extern "C" fn(*const c_char, *const c_char, *const addrinfo, *mut *mut addrinfo) -> c_int;

/// libc's `getaddrinfo`, in `blocking` on a green thread.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const addrinfo,
    found: *mut *mut addrinfo,
) -> c_int {
    let Some(real) = real() else { return libc::EAI_FAIL };
    // SAFETY: the caller's arguments.
    let ask = || unsafe { real(node, service, hints, found) };
    if sched::foreign::is_user_code() { sched::park::blocking(ask) } else { ask() }
}

/// Returns libc's own function.
fn real() -> Option<Getaddrinfo> {
    static REAL: OnceLock<Option<Getaddrinfo>> = OnceLock::new();
    *REAL.get_or_init(|| {
        // SAFETY: the name ends with a zero byte. The next definition after this one is libc's, which has this type.
        unsafe {
            let real = libc::dlsym(libc::RTLD_NEXT, c"getaddrinfo".as_ptr());
            (!real.is_null()).then(|| std::mem::transmute::<*mut libc::c_void, Getaddrinfo>(real))
        }
    })
}
