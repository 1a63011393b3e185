//! What a design of timers is to the workloads, and the four there are.

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

/// Timers: each calls its callback once, after its time and never before, unless it is cancelled.
///
/// A callback runs wherever the design fires its timers, and does not block. One that has been taken to run does run, if
/// the timer is cancelled or reset at that very moment.
pub(crate) trait Timers: Send + Sync + 'static {
    /// What is needed to cancel or reset a timer, and kept for as long as it is to fire.
    type Timer: Send;

    /// Arms a timer. *Runs on: a green thread, as all of these.*
    fn add(&self, after: Duration, callback: &Waker) -> Self::Timer;

    /// Takes a timer away. Nothing happens if it has fired.
    fn cancel(&self, timer: Self::Timer);

    /// Gives a timer another time, counted from now; one that has fired is armed again, with that callback.
    fn reset(&self, timer: &mut Self::Timer, after: Duration, callback: &Waker);

    /// Parks the calling green thread for `time` at least.
    fn sleep(&self, time: Duration) {
        let sleeper = Arc::new(Sleeper { thread: thread::current(), woken: AtomicBool::new(false) });
        let _timer = self.add(time, &Waker::from(Arc::clone(&sleeper)));
        // Acquire: pairs with the Release of the thread that fires the timer.
        while !sleeper.woken.load(Ordering::Acquire) {
            thread::park();
        }
    }

    /// Ends the green threads that fire the timers. No timer is added afterwards.
    fn end(&self) {}
}

/// A green thread that sleeps: its timer's callback.
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

/// Time in ns since a design was made.
#[derive(Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Clock {
        Clock(Instant::now())
    }

    fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    /// The time `after` from now; one beyond the clock's range never comes.
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

    /// As on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Design::OneHeap => "one-heap",
            Design::ManyHeaps => "64-heaps",
            Design::Wheel => "wheel",
            Design::PerP => "per-p",
        }
    }

    /// As in the tables.
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
