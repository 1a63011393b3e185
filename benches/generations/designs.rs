//! The trait of a design of timers, which the workloads use, and the list of the four designs.

mod bucket;
mod heap;
mod many_heaps;
mod note;
mod one_heap;
mod per_p;
mod wheel;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use runtime::thread::{self, Thread};

pub(crate) use many_heaps::ManyHeaps;
pub(crate) use one_heap::OneHeap;
pub(crate) use per_p::PerP;
pub(crate) use wheel::Wheel;

/// A design of timers. A timer calls its callback once, never before its time, unless the timer is cancelled.
///
/// A callback runs on the thread on which the design fires its timers, and does not block. A cancel or reset
/// may come after the design has removed the timer to fire. Then the callback still runs.
pub(crate) trait Timers: Send + Sync + 'static {
    /// The handle that cancels or resets a timer. The handle must be kept until the timer has fired.
    type Timer: Send;

    /// Arms a timer. *Runs on: a green thread, as all methods of this trait.*
    fn add(&self, after: Duration, callback: &Waker) -> Self::Timer;

    /// Cancels a timer. Has no effect if the timer has fired.
    fn cancel(&self, timer: Self::Timer);

    /// Sets a timer to fire `after` from now. If the timer has fired, arms the timer again, with `callback`.
    fn reset(&self, timer: &mut Self::Timer, after: Duration, callback: &Waker);

    /// Parks the calling green thread for `time` at least.
    fn sleep(&self, time: Duration) {
        let sleeper = Arc::new(Sleeper { thread: thread::current(), woken: AtomicBool::new(false) });
        let _timer = self.add(time, &Waker::from(Arc::clone(&sleeper)));
        // Acquire: pairs with the Release in `Sleeper::wake`.
        while !sleeper.woken.load(Ordering::Acquire) {
            thread::park();
        }
    }

    /// Ends the green threads that fire the timers. No timer is added afterwards.
    fn end(&self) {}
}

/// The callback of a sleep's timer: wakes the sleeping green thread.
struct Sleeper {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// A clock that counts ns since the design was created.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Clock {
        Clock(Instant::now())
    }

    fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    /// Returns the time `after` from now. A time beyond the clock's range becomes `u64::MAX`, which never
    /// comes.
    fn after(self, after: Duration) -> u64 {
        self.now().saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// A design by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Design {
    OneHeap,
    ManyHeaps,
    Wheel,
    PerP,
}

impl Design {
    pub(crate) const ALL: [Design; 4] = [Design::OneHeap, Design::ManyHeaps, Design::Wheel, Design::PerP];

    /// Returns the design's name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Design::OneHeap => "one-heap",
            Design::ManyHeaps => "64-heaps",
            Design::Wheel => "wheel",
            Design::PerP => "per-p",
        }
    }

    /// Returns the design's name in the tables.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Design::OneHeap => "one heap, a timerproc (Go ≤ 1.9)",
            Design::ManyHeaps => "64 heaps, a timerproc each (Go 1.10–1.13)",
            Design::Wheel => "hashed wheel, 1 ms ticks",
            Design::PerP => "a heap in each P (this runtime)",
        }
    }
}

#[cfg(test)]
mod tests;
