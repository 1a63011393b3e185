//! What a signal does without a handler, for a handler that has no user any more.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ptr;

use libc::c_int;

/// Gives the signal the effect that it has without a handler. If the process goes on afterwards, the handler
/// is back. *Runs on: a thread in the handler of that signal. Calls async-signal-safe functions only.*
pub fn perform(signal: c_int) {
    let (mut handler, mut one, mut before) =
        (MaybeUninit::uninit(), MaybeUninit::uninit(), MaybeUninit::uninit());
    let default = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: each call reads and writes places of the right types. A zeroed action is one: `SIG_DFL`, no
    // flags, no signal blocked. What the calls before have written is read only if they succeeded:
    // `sigemptyset` cannot fail.
    unsafe {
        if libc::sigaction(signal, default.as_ptr(), handler.as_mut_ptr()) != 0 {
            return;
        }
        libc::sigemptyset(one.as_mut_ptr());
        libc::sigaddset(one.as_mut_ptr(), signal);
        libc::raise(signal);
        // The signal is blocked while its handler runs, and comes here.
        if libc::pthread_sigmask(libc::SIG_UNBLOCK, one.as_ptr(), before.as_mut_ptr()) == 0 {
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        }
        libc::sigaction(signal, handler.as_ptr(), ptr::null_mut());
    }
}
