//! The sleep of a note on Windows: an event of the system, and for a limit a waitable timer of high
//! resolution.
//! One wait is for both.
//!
//! Rejected: a condition variable. Its time-outs are whole milliseconds, and end with a tick of the system's
//! clock, each 1 to 16 ms. An M that watches a lone G looks each 20 us, and sysmon looks after 100 us.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::process;
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use crate::sys::message::write_message;

/// For Windows 10 of 2018 (version 1803) and later. Older ones refuse the timer.
const HIGH_RESOLUTION: u32 = 2;
/// The timer stays expired until it is set anew, which resets it. Wine does not reset another kind.
const MANUAL_RESET: u32 = 1;
const ALL_ACCESS: u32 = 0x001F_0003;
const NO: i32 = 0;
const FOR_EVER: u32 = u32::MAX;
const FAILED: u32 = u32::MAX;

#[link(name = "kernel32")]
unsafe extern "system" {
    fn CreateEventW(security: *const c_void, manual: i32, set: i32, name: *const u16) -> RawHandle;
    fn SetEvent(event: RawHandle) -> i32;
    fn CreateWaitableTimerExW(
        security: *const c_void,
        name: *const u16,
        flags: u32,
        access: u32,
    ) -> RawHandle;
    fn SetWaitableTimer(
        timer: RawHandle,
        due: *const i64,
        period: i32,
        routine: *const c_void,
        argument: *const c_void,
        resume: i32,
    ) -> i32;
    fn WaitForMultipleObjects(count: u32, handles: *const RawHandle, all: i32, milliseconds: u32) -> u32;
}

/// The thread that sleeps, or its waker, makes the objects at the first use.
#[derive(Debug)]
pub(super) struct Sleeper(OnceLock<Objects>);

/// What the thread waits for.
#[derive(Debug)]
struct Objects {
    /// Set by a wake-up. The wait that sees it resets it.
    woken: OwnedHandle,
    /// `None` if the system refused it: then a limit is a time-out of the wait.
    timer: Option<OwnedHandle>,
}

impl Sleeper {
    pub(super) const fn new() -> Self {
        Sleeper(OnceLock::new())
    }

    /// Sleeps until `wake`.
    pub(super) fn sleep(&self) {
        wait(&[self.objects().woken.as_raw_handle()], FOR_EVER);
    }

    /// Sleeps as `sleep` does, for `time` at most. May return without a cause.
    pub(super) fn sleep_for(&self, time: Duration) {
        let objects = self.objects();
        let woken = objects.woken.as_raw_handle();
        match &objects.timer {
            Some(timer) if set(timer, time).is_ok() => wait(&[woken, timer.as_raw_handle()], FOR_EVER),
            _ => wait(&[woken], whole_milliseconds(time)),
        }
    }

    /// Wakes the thread, or keeps the wake-up for its next sleep.
    pub(super) fn wake(&self) {
        // SAFETY: `objects` keeps the handle open.
        unsafe { SetEvent(self.objects().woken.as_raw_handle()) };
    }

    fn objects(&self) -> &Objects {
        self.0.get_or_init(|| Objects {
            woken: event().unwrap_or_else(|error| give_up(&error)),
            timer: timer().ok(),
        })
    }
}

/// Ends the process: a thread that can neither sleep nor be woken would hang, or lose a wake-up.
fn give_up(error: &io::Error) -> ! {
    write_message(format_args!(
        "runtime: the system refused an event, for which an OS thread sleeps: {error}"
    ));
    process::abort()
}

/// Returns the time as the system counts a timer's: in units of 100 ns, less than zero, and rounded up.
fn relative(time: Duration) -> i64 {
    -i64::try_from(time.as_nanos().div_ceil(100)).unwrap_or(i64::MAX)
}

/// Returns the time as the system counts a time-out, rounded up. A time that is too long ends early.
fn whole_milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(FOR_EVER).min(FOR_EVER - 1)
}

#[inline(never)]
fn event() -> io::Result<OwnedHandle> {
    // SAFETY: the null pointers mean no attributes and no name.
    owned(unsafe { CreateEventW(ptr::null(), NO, NO, ptr::null()) })
}

#[inline(never)]
fn timer() -> io::Result<OwnedHandle> {
    // SAFETY: the null pointers mean no attributes and no name.
    owned(unsafe {
        CreateWaitableTimerExW(ptr::null(), ptr::null(), HIGH_RESOLUTION | MANUAL_RESET, ALL_ACCESS)
    })
}

/// Returns the handle that the call just before has returned, or that call's error.
#[inline(always)]
fn owned(handle: RawHandle) -> io::Result<OwnedHandle> {
    if handle.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a call has just returned this handle, so no other code owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle) })
}

/// Sets the timer. That also resets a timer that has expired in an earlier sleep.
#[inline(never)]
fn set(timer: &OwnedHandle, time: Duration) -> io::Result<()> {
    let due = relative(time);
    // SAFETY: `due` outlives the call, which only reads it. There is no routine. `timer` keeps the handle
    // open.
    let done =
        unsafe { SetWaitableTimer(timer.as_raw_handle(), &raw const due, 0, ptr::null(), ptr::null(), NO) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Waits until an object is signalled, at most for the time-out.
#[inline(never)]
fn wait(handles: &[RawHandle], milliseconds: u32) {
    let count = u32::try_from(handles.len()).expect("two objects at most");
    // SAFETY: `handles` outlives the call, which only reads it. The objects of the sleeper keep them open.
    let done = unsafe { WaitForMultipleObjects(count, handles.as_ptr(), NO, milliseconds) };
    assert_ne!(done, FAILED, "the system waits for open handles: {}", io::Error::last_os_error());
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn times_are_rounded_up_and_bounded() {
        assert_eq!(relative(Duration::from_nanos(101)), -2);
        assert_eq!(relative(Duration::MAX), -i64::MAX);
        assert_eq!(whole_milliseconds(Duration::from_nanos(1)), 1);
        assert_eq!(whole_milliseconds(Duration::from_millis(7)), 7);
        assert_eq!(whole_milliseconds(Duration::MAX), FOR_EVER - 1);
    }

    #[test]
    fn a_refused_timer_leaves_the_limit_to_the_wait() {
        let sleeper = Sleeper(OnceLock::from(Objects { woken: event().unwrap(), timer: None }));
        let start = Instant::now();
        sleeper.sleep_for(Duration::from_millis(20));
        // The clock of the time-out has ticks, too, so the sleep may end a tick early.
        assert!(start.elapsed() >= Duration::from_millis(4), "{:?}", start.elapsed());
        sleeper.wake();
        sleeper.sleep_for(Duration::MAX);
    }

    #[test]
    fn a_timer_that_has_expired_does_not_end_the_next_sleep() {
        let sleeper = Sleeper::new();
        let timer = sleeper.objects().timer.as_ref().unwrap();
        set(timer, Duration::ZERO).unwrap();
        std::thread::sleep(Duration::from_millis(5));
        let start = Instant::now();
        sleeper.sleep_for(Duration::from_millis(50));
        assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
    }
}
