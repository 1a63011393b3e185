//! A heap under a lock, with the green thread that fires its timers: Go's `timerproc` until 1.13.
//!
//! ```text
//! timerproc                                        adding a timer
//!   1 lock                                           1 lock
//!   2 call the due callbacks (unlocked meanwhile)    2 insert
//!   3 record how the timerproc will wait: in the     3 is the timer earlier than the time until which the
//!     note until the first timer's time, or            timerproc waits? record that the timerproc is awake
//!     parked if there is no timer                    4 unlock
//!   4 unlock, wait so                                5 after that record: wake the note, or unpark the timerproc
//! ```
//!
//! In its note the timerproc blocks its OS thread, inside [`runtime::blocking`]. Its P goes to another OS
//! thread as soon as other work needs the P, and the timerproc must find a P when it returns. Go's
//! `notetsleepg` hands the P off at once, even if no work needs the P. In this one step the baseline is
//! cheaper than Go's design.

use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use runtime::thread::{self, Thread};

use super::Clock;
use super::heap::{Heap, Id};
use super::note::Note;

/// A heap with its timerproc, aligned to cache lines of its own, as Go's buckets are.
#[repr(align(128))]
pub(super) struct Bucket {
    clock: Clock,
    state: Mutex<BucketState>,
    note: Note,
}

struct BucketState {
    heap: Heap<Waker>,
    timerproc: Timerproc,
    ends: bool,
}

/// The state of the timerproc.
enum Timerproc {
    NotStarted,
    Awake,
    /// The timerproc sleeps in the note until this time (Go: `sleeping`, `sleepUntil`).
    InNote(u64),
    /// The timerproc is parked, because there is no timer (Go: `rescheduling`).
    Parked(Thread),
}

/// The timerproc's next step after it has fired the due timers.
enum Next {
    SleepUntil(u64),
    Park,
    End,
}

impl Bucket {
    pub(super) fn new(clock: Clock) -> Arc<Bucket> {
        let state = BucketState { heap: Heap::new(), timerproc: Timerproc::NotStarted, ends: false };
        Arc::new(Bucket { clock, state: Mutex::new(state), note: Note::default() })
    }

    pub(super) fn add(self: &Arc<Self>, after: Duration, callback: &Waker) -> Id {
        let when = self.clock.after(after);
        let callback = callback.clone();
        let mut state = self.state.lock();
        let id = state.heap.push(when, callback);
        self.unlock_and_wake(state, when);
        id
    }

    pub(super) fn cancel(&self, id: Id) {
        let callback = self.state.lock().heap.remove(id);
        // Dropped without the lock: the callback may be the last reference to a green thread.
        drop(callback);
    }

    pub(super) fn reset(self: &Arc<Self>, id: &mut Id, after: Duration, callback: &Waker) {
        let when = self.clock.after(after);
        let mut state = self.state.lock();
        if !state.heap.change(*id, when) {
            *id = state.heap.push(when, callback.clone());
        }
        self.unlock_and_wake(state, when);
    }

    /// Wakes the timerproc if the timerproc waits for a time later than `when`. The wake comes after the
    /// unlock, because a green thread may lose its P in any call of the runtime. That green thread would keep
    /// the lock until it has a P again.
    fn unlock_and_wake(self: &Arc<Self>, mut state: MutexGuard<'_, BucketState>, when: u64) {
        match state.timerproc {
            Timerproc::Awake => return,
            Timerproc::InNote(until) if until <= when => return,
            _ => {}
        }
        let before = mem::replace(&mut state.timerproc, Timerproc::Awake);
        drop(state);
        match before {
            Timerproc::NotStarted => {
                let bucket = Arc::clone(self);
                drop(runtime::spawn(move || bucket.timerproc()));
            }
            Timerproc::InNote(_) => self.note.wake(),
            Timerproc::Parked(thread) => thread.unpark(),
            Timerproc::Awake => {}
        }
    }

    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ends = true;
        let before = mem::replace(&mut state.timerproc, Timerproc::Awake);
        drop(state);
        self.note.wake();
        if let Timerproc::Parked(thread) = before {
            thread.unpark();
        }
    }

    fn timerproc(&self) {
        let me = thread::current();
        loop {
            match self.fire_due(&me) {
                Next::SleepUntil(when) => runtime::blocking(|| self.note.sleep_until(self.clock, when)),
                Next::Park => thread::park(),
                Next::End => return,
            }
        }
    }

    fn fire_due(&self, me: &Thread) -> Next {
        let mut state = self.state.lock();
        state.timerproc = Timerproc::Awake;
        // The time is read once a round, as in Go. Timers that become due during a round fire in the next
        // one.
        let now = self.clock.now();
        loop {
            if state.ends {
                return Next::End;
            }
            match state.heap.first() {
                None => {
                    state.timerproc = Timerproc::Parked(me.clone());
                    return Next::Park;
                }
                Some(when) if when > now => {
                    state.timerproc = Timerproc::InNote(when);
                    self.note.clear();
                    return Next::SleepUntil(when);
                }
                Some(_) => {
                    let callback = state.heap.pop().expect("the heap has a first entry");
                    MutexGuard::unlocked(&mut state, || callback.wake());
                }
            }
        }
    }
}
