//! Windows: a waitable timer of high resolution. A completion port ends its own time-outs with a tick of the
//! system's clock, each 1 to 16 ms.
//!
//! The port cannot wait for the timer. A thread of the system's pool does, and breaks the poller's wait:
//!
//! ```text
//!   the poller                             the pool's thread
//!   1  forget an alarm that has rung       1  the timer expires
//!   2  set the timer                       2  note that the alarm has rung
//!   3  wait at the port, for ever          3  wake the port, which keeps that for the next wait
//! ```
//!
//! A note that comes late, after the timer was set anew, makes the poller set it once more than necessary.
//!
//! Rejected: *a wait completion packet*, by which the port itself gets the expiry. It needs the port's
//! handle, which mio keeps to itself.

#![allow(unsafe_code)]

pub(crate) mod exit;
pub(crate) mod pipe;
mod reporter;

use std::ffi::c_void;
use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mio::{Registry, Token, Waker};

use super::due::Due;

pub use reporter::Reporter;

/// For Windows 10 of 2018 (version 1803) and later. Older ones refuse the timer.
const HIGH_RESOLUTION: u32 = 2;
const ALL_ACCESS: u32 = 0x001F_0003;
const FOR_EVER: u32 = u32::MAX;
/// The callback runs on the thread that waits: it blocks nowhere.
const IN_WAITING_THREAD: u32 = 4;
/// In the place of an event: the call returns when no callback runs any more.
const UNTIL_CALLBACKS_END: RawHandle = ptr::without_provenance_mut(usize::MAX);

type Callback = extern "system" fn(context: *mut c_void, timed_out: u8);

#[link(name = "kernel32")]
unsafe extern "system" {
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
    fn RegisterWaitForSingleObject(
        wait: *mut RawHandle,
        object: RawHandle,
        callback: Callback,
        context: *const c_void,
        milliseconds: u32,
        flags: u32,
    ) -> i32;
    fn UnregisterWaitEx(wait: RawHandle, event: RawHandle) -> i32;
}

/// An alarm that ends a wait at a given time, to a fraction of a millisecond.
pub(crate) struct Alarm {
    /// `None` if the system refused a timer: then waits have the port's time-outs.
    clock: Option<Clock>,
    due: Due,
}

impl Alarm {
    /// Makes an alarm that rings by `waker`.
    pub(crate) fn new(_registry: &Registry, _token: Token, waker: &Arc<Waker>) -> Alarm {
        Alarm { clock: Clock::new(waker).ok(), due: Due::unset() }
    }

    /// Makes the wait end by `until`, which is `timeout` from now. Returns the time-out that the wait itself
    /// needs.
    pub(crate) fn set(&mut self, until: u64, timeout: Duration) -> Option<Duration> {
        let Some(clock) = &self.clock else { return Some(timeout) };
        if clock.take_rung() {
            self.due.clear();
        }
        if self.due.serves(until, timeout) {
            return None;
        }
        match set(&clock.timer, timeout) {
            Ok(()) => {
                self.due.set(until);
                None
            }
            Err(_) => {
                self.due.clear();
                Some(timeout)
            }
        }
    }

    /// Does nothing: the alarm has no event of its own.
    pub(crate) fn rang(&mut self) {}
}

/// A timer, and the wait of the system's pool for it.
struct Clock {
    timer: OwnedHandle,
    wait: RawHandle,
    bell: Box<Bell>,
}

/// What the callback uses.
struct Bell {
    rung: AtomicBool,
    waker: Arc<Waker>,
}

// SAFETY: only `drop` uses `wait`, once, and any thread may end a wait. The other parts are `Send`.
unsafe impl Send for Clock {}

impl Clock {
    fn new(waker: &Arc<Waker>) -> io::Result<Clock> {
        let timer = create()?;
        let bell = Box::new(Bell { rung: AtomicBool::new(false), waker: Arc::clone(waker) });
        let wait = register(&timer, &bell)?;
        Ok(Clock { timer, wait, bell })
    }

    /// Returns `true` if the timer has expired since the last call.
    fn take_rung(&self) -> bool {
        // Relaxed: the partner is `ring`, and the port's message orders both. The wait that this message has
        // ended comes before, or the message ends the next wait.
        self.bell.rung.swap(false, Ordering::Relaxed)
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // SAFETY: `register` returned this wait, and it ends here alone. No callback uses `bell` afterwards.
        unsafe { UnregisterWaitEx(self.wait, UNTIL_CALLBACKS_END) };
    }
}

/// The callback. *Runs on: a thread of the system's pool.*
extern "system" fn ring(bell: *mut c_void, _timed_out: u8) {
    // SAFETY: `register` passed a `Bell`, which `Clock::drop` frees only after the last callback.
    let bell = unsafe { &*bell.cast::<Bell>() };
    // Relaxed, before the message: the partner is `take_rung`.
    bell.rung.store(true, Ordering::Relaxed);
    // It fails only without memory for a message, as a break does.
    let _ = bell.waker.wake();
}

#[inline(never)]
fn create() -> io::Result<OwnedHandle> {
    // SAFETY: the null pointers mean no attributes and no name.
    let timer = unsafe { CreateWaitableTimerExW(ptr::null(), ptr::null(), HIGH_RESOLUTION, ALL_ACCESS) };
    if timer.is_null() {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just returned this handle, so no other code owns it.
    Ok(unsafe { OwnedHandle::from_raw_handle(timer) })
}

#[inline(never)]
fn register(timer: &OwnedHandle, bell: &Bell) -> io::Result<RawHandle> {
    let (mut wait, context) = (ptr::null_mut(), ptr::from_ref(bell).cast());
    // SAFETY: `wait` outlives the call, which writes it. The timer and the bell outlive the wait: they are in
    // one `Clock`, and its `drop` ends the wait first.
    let done = unsafe {
        RegisterWaitForSingleObject(
            &raw mut wait,
            timer.as_raw_handle(),
            ring,
            context,
            FOR_EVER,
            IN_WAITING_THREAD,
        )
    };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(wait) }
}

#[inline(never)]
fn set(timer: &OwnedHandle, timeout: Duration) -> io::Result<()> {
    let due = relative(timeout);
    // SAFETY: `due` outlives the call, which only reads it. There is no routine. `timer` keeps the handle
    // open.
    let done =
        unsafe { SetWaitableTimer(timer.as_raw_handle(), &raw const due, 0, ptr::null(), ptr::null(), 0) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the time-out as the system counts it: in units of 100 ns, less than zero, and rounded up.
fn relative(timeout: Duration) -> i64 {
    -i64::try_from(timeout.as_nanos().div_ceil(100)).unwrap_or(i64::MAX)
}

/// Explains why the system refused a source, and what to do, where that is known.
pub(crate) fn explain(refusal: io::Error) -> io::Error {
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    use mio::{Events, Poll};

    #[test]
    fn a_time_out_is_rounded_up_and_bounded() {
        assert_eq!(relative(Duration::from_nanos(1)), -1);
        assert_eq!(relative(Duration::from_nanos(100)), -1);
        assert_eq!(relative(Duration::from_nanos(101)), -2);
        assert_eq!(relative(Duration::from_secs(3600)), -36_000_000_000);
        assert_eq!(relative(Duration::MAX), -i64::MAX);
    }

    #[test]
    fn a_refused_timer_leaves_the_time_out_to_the_wait() {
        let mut alarm = Alarm { clock: None, due: Due::unset() };
        assert_eq!(alarm.set(7, Duration::from_millis(3)), Some(Duration::from_millis(3)));
    }

    #[test]
    fn the_alarm_ends_a_wait_without_a_time_out_each_time() {
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mut alarm = Alarm::new(poll.registry(), Token(1), &waker);
        let mut events = Events::with_capacity(4);
        for round in 1..=3 {
            assert_eq!(alarm.set(round, Duration::from_millis(2)), None);
            while events.is_empty() {
                poll.poll(&mut events, None).unwrap();
            }
            events.clear();
        }
        drop(alarm);
        assert_eq!(Arc::strong_count(&waker), 1);
    }
}
