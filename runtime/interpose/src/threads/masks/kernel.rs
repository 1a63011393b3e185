//! The kernel's sets of signals, and the mask of an OS thread.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{sigset_t, timespec};

use crate::process;
use crate::raw::call;

/// The size of the kernel's sets: one bit for each of 64 signals.
pub(in super::super) const SET_BYTES: usize = 8;

/// Returns the bit of a signal.
pub(in super::super) const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Signals that cannot be blocked, and those by which glibc stops its threads.
pub(super) const UNBLOCKABLE: u64 = bit(libc::SIGKILL) | bit(libc::SIGSTOP) | bit(32) | bit(33);
/// Signals that no OS thread blocks, whatever the program says. A fault ends the process if its signal is
/// blocked, and no overflow would be reported. CPU profiles need `SIGPROF`.
pub(super) const NEVER: u64 = UNBLOCKABLE
    | bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS)
    | bit(libc::SIGPROF);
/// Signals that the kernel sends to the thread that has caused them, and those of terminals: a call fails
/// there if the signal is blocked. `SIGURG` is the runtime's own, or the program's.
pub(super) const OF_THREAD: u64 = bit(libc::SIGPIPE)
    | bit(libc::SIGXFSZ)
    | bit(libc::SIGABRT)
    | bit(libc::SIGVTALRM)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU)
    | bit(libc::SIGURG);
/// Of these, the signals that are caused by what a thread writes, and stay with it if it blocks them.
pub(super) const CAUSED: u64 = bit(libc::SIGPIPE) | bit(libc::SIGXFSZ);
/// Signals that go to the first OS thread.
pub(in super::super) const ROUTED: u64 = !(NEVER | OF_THREAD);

/// True if the threads of this process are green threads.
static ON: AtomicBool = AtomicBool::new(false);

/// Says that the threads of this process are green threads. *Runs on: the first OS thread, before `main`.*
pub(in super::super) fn turn_on() {
    // Relaxed, here and below: set before the first green thread, which the scheduler publishes.
    ON.store(true, Ordering::Relaxed);
}

/// Returns the mask of an OS thread that runs a green thread without signals of its own; 0 if the threads of
/// this process are OS threads.
pub(in super::super) fn base() -> u64 {
    if ON.load(Ordering::Relaxed) { ROUTED } else { 0 }
}

/// Changes the mask of this OS thread, or only returns it. `how` is that of `sigprocmask`.
pub(super) fn change_kernel(how: c_int, set: Option<&u64>) -> Result<u64, isize> {
    let mut before = 0_u64;
    let set = set.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the places are this function's, or null, and have the size of a set.
    let result = unsafe { call!(libc::SYS_rt_sigprocmask, how, set, &raw mut before, SET_BYTES) };
    if result < 0 { Err(result) } else { Ok(before) }
}

/// Sets the mask of this OS thread, and returns the one before.
pub(in super::super) fn set_kernel(mask: u64) -> u64 {
    // The arguments are right, so the call does not fail.
    change_kernel(libc::SIG_SETMASK, Some(&mask)).unwrap_or_default()
}

/// Blocks signals for this OS thread, and returns the mask of before.
pub(in super::super) fn block_kernel(set: u64) -> u64 {
    change_kernel(libc::SIG_BLOCK, Some(&set)).unwrap_or_default()
}

/// Takes the signals of `set` that are pending for this OS thread: otherwise their handlers would run when it
/// lets them in.
pub(super) fn take_pending(set: u64) -> u64 {
    let (mut taken, none) = (0, timespec { tv_sec: 0, tv_nsec: 0 });
    loop {
        let left = set & !taken;
        let (left, none) = (&raw const left, &raw const none);
        // SAFETY: the set and the time are this function's.
        match unsafe { call!(libc::SYS_rt_sigtimedwait, left, ptr::null::<()>(), none, SET_BYTES) } {
            signal @ 1..=64 => taken |= bit(signal as c_int),
            _ => return taken,
        }
    }
}

/// Returns the kernel's set.
///
/// # Safety
/// `set` is a set of the caller's.
pub(in super::super) unsafe fn of_kernel(set: *const sigset_t) -> u64 {
    // SAFETY: this contract; the set of libc begins with that of the kernel.
    unsafe { set.cast::<u64>().read() }
}

/// Sends a signal to this OS thread. Returns the result of the call.
pub(in super::super) fn send_here(signal: c_int) -> isize {
    // SAFETY: the calls have no pointers.
    unsafe { call!(libc::SYS_tgkill, process::id(), call!(libc::SYS_gettid), signal) }
}

/// Sends each signal of a set to this OS thread.
pub(super) fn send_all_here(set: u64) {
    (1..=64).filter(|&signal| set & bit(signal) != 0).for_each(|signal| _ = send_here(signal));
}
