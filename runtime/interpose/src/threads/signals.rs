//! `sigwait`, `sigwaitinfo`, `sigtimedwait`: a thread that waits for signals, and what
//! others send it by `pthread_kill`.
//!
//! ```text
//!   the waiter                                       pthread_kill of it
//!   block the set on this OS thread
//!   waits_on = this OS thread             <──lock──> pending |= signal
//!   rt_sigtimedwait                                  tgkill waits_on, if it waits
//!   waits_on = none, take back what was sent
//!   pending &= !signal
//! ```
//!
//! The green thread stays on its OS thread during the system call, so a signal to that OS thread is its. A
//! signal that comes after the call has returned is taken back from the OS thread, which has it blocked until
//! then. It stays in `pending` for the next wait, which may run elsewhere. Between two waits `pthread_kill`
//! leaves it there, too.

use std::ffi::c_int;
use std::ptr;

use libc::{siginfo_t, sigset_t, timespec};

use super::masks::kernel::{SET_BYTES, bit, block_kernel, of_kernel, set_kernel};
use super::record::Record;
use super::{real, record};
use crate::raw::call;
use crate::{cancellation_point, error, finish, process};

real! {
    sigwait: unsafe extern "C" fn(*const sigset_t, *mut c_int) -> c_int;
    sigtimedwait: unsafe extern "C" fn(*const sigset_t, *mut siginfo_t, *const timespec) -> c_int;
}

/// What a green thread waits for by these functions, and what was sent to it.
#[derive(Default)]
pub(super) struct Signals {
    /// All signals for which the thread has waited so far.
    awaited: u64,
    /// Signals that were sent to the thread, and that it has not got.
    pending: u64,
    /// Of these, the signals that the kernel has, too, for the OS thread of this wait.
    sent: u64,
    /// The OS thread that waits in the kernel.
    waits_on: Option<c_int>,
}

impl Signals {
    /// Sends a signal to the thread, which blocks those of `mask`. Returns `false` if the thread neither
    /// blocks the signal nor has ever waited for it, and so may expect a handler to run.
    pub(super) fn send(&mut self, signal: c_int, mask: u64) -> bool {
        if !(1..=64).contains(&signal) || (self.awaited | mask) & bit(signal) == 0 {
            return false;
        }
        self.pending |= bit(signal);
        if let Some(os_thread) = self.waits_on.filter(|_| self.awaited & bit(signal) != 0) {
            self.sent |= bit(signal);
            // SAFETY: the call has no pointers. The OS thread lives: it has not left its wait.
            let _sent = unsafe { call!(libc::SYS_tgkill, process::id(), os_thread, signal) };
        }
        true
    }

    /// Takes the signals of `set` that were sent, and that the thread has not got.
    pub(super) fn take(&mut self, set: u64) -> u64 {
        let taken = self.pending & set;
        self.pending &= !set;
        taken
    }

    /// Keeps signals that the thread has not got.
    pub(super) fn keep(&mut self, set: u64) {
        self.pending |= set;
    }

    /// Returns what was sent to the thread, and it has not got.
    pub(super) fn pending(&self) -> u64 {
        self.pending
    }

    /// Takes a signal of `set` that was sent before, or notes that this OS thread waits for the set.
    fn begin(&mut self, set: u64) -> Option<c_int> {
        self.awaited |= set;
        match self.pending & set {
            0 => {
                // SAFETY: the call has no arguments.
                self.waits_on = Some(unsafe { call!(libc::SYS_gettid) as c_int });
                None
            }
            ready => {
                let signal = ready.trailing_zeros() as c_int + 1;
                self.pending &= !bit(signal);
                Some(signal)
            }
        }
    }

    /// Ends a wait with the kernel's result. *Runs on: the OS thread that has waited.*
    fn end(&mut self, result: isize) {
        self.waits_on = None;
        let mut left = std::mem::take(&mut self.sent);
        if let Ok(signal @ 1..=64) = c_int::try_from(result) {
            self.pending &= !bit(signal);
        }
        // What has come after the result: this OS thread may not keep it.
        while left != 0 {
            let none = timespec { tv_sec: 0, tv_nsec: 0 };
            // SAFETY: the set and the time are this function's.
            let late = unsafe {
                call!(
                    libc::SYS_rt_sigtimedwait,
                    &raw const left,
                    ptr::null::<()>(),
                    &raw const none,
                    SET_BYTES
                )
            };
            let Ok(signal @ 1..=64) = c_int::try_from(late) else { return };
            self.pending |= bit(signal);
            left &= !bit(signal);
        }
    }
}

/// Waits for a signal of `set` as `own`. Returns the signal, or an error below zero.
///
/// # Safety
/// The pointers are null, or places of the caller's.
unsafe fn wait(own: &Record, set: u64, info: *mut siginfo_t, time: *const timespec) -> isize {
    cancellation_point();
    let mut before = 0;
    // With the lock, so that no signal is sent to this OS thread before it has blocked the set.
    let ready = own.with_signals(|signals| {
        let ready = signals.begin(set);
        if ready.is_none() {
            before = block_kernel(set);
        }
        ready
    });
    if let Some(signal) = ready {
        // SAFETY: this contract.
        unsafe { write_info(info, signal) };
        return signal as isize;
    }
    // SAFETY: this contract.
    let result = unsafe { call!(libc::SYS_rt_sigtimedwait, &raw const set, info, time, SET_BYTES) };
    own.with_signals(|signals| signals.end(result));
    set_kernel(before);
    result
}

/// Writes what the kernel would, of a signal by `pthread_kill`.
///
/// # Safety
/// `info` is null or a place of the caller's.
unsafe fn write_info(info: *mut siginfo_t, signal: c_int) {
    if !info.is_null() {
        // SAFETY: this contract. All zeroes are a `siginfo_t`, which has the code `SI_USER`.
        unsafe {
            info.write_bytes(0, 1);
            (*info).si_signo = signal;
        }
    }
}

/// libc's `sigwait`. A green thread gets what was sent to it by `pthread_kill`, too.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn wait_signal(set: *const sigset_t, signal: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        let Some(own) = record::own() else { return sigwait()(set, signal) };
        loop {
            match wait(own, of_kernel(set), ptr::null_mut(), ptr::null()) {
                // A handler of another signal has run.
                result if result == error(libc::EINTR) => {}
                result if result < 0 => return -result as c_int,
                got => {
                    signal.write(got as c_int);
                    return 0;
                }
            }
        }
    }
}

/// libc's `sigtimedwait`, as `wait_signal`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn timed_wait_signal(
    set: *const sigset_t,
    info: *mut siginfo_t,
    time: *const timespec,
) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        match record::own() {
            Some(own) => finish(wait(own, of_kernel(set), info, time)) as c_int,
            None => sigtimedwait()(set, info, time),
        }
    }
}

/// libc's `sigwaitinfo`, as `wait_signal`.
///
/// # Safety
/// As libc's.
pub unsafe extern "C-unwind" fn wait_signal_info(set: *const sigset_t, info: *mut siginfo_t) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe { timed_wait_signal(set, info, ptr::null()) }
}
