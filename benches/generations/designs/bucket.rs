//! A heap under a lock, with the green thread that fires its timers: Go's `timerproc` until 1.13.
//!
//! ```text
//! timerproc                                        adding a timer
//!   1 lock                                           1 lock
//!   2 call what is due (unlocked meanwhile)          2 insert
//!   3 say how it will wait: in the note until        3 is it the first, and earlier than the timerproc
//!     the first timer's time, or parked if there       waits for? say that it is awake
//!     is none                                        4 unlock
//!   4 unlock, wait so                                5 wake its note, or ready it
//! ```
//!
//! While it is in its note the timerproc blocks its OS thread, inside [`runtime::blocking`]: its P goes to another OS thread
//! as soon as other work needs it, and it must find a P when it returns. Go's `notetsleepg` hands the P off at once, needed
//! or not; that is the one step in which this baseline is better off than its model.

use std::mem;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use runtime::thread::{self, Thread};

use super::Clock;
use super::heap::{Heap, Id};
use super::note::Note;

/// On cache lines of its own, as Go's are.
#[repr(align(128))]
pub(super) struct Bucket {
    clock: Clock,
    state: Mutex<State>,
    note: Note,
}

struct State {
    heap: Heap<Waker>,
    timerproc: Timerproc,
    ends: bool,
}

/// What the timerproc does.
enum Timerproc {
    NotStarted,
    Awake,
    /// It is in the note until then (Go: `sleeping`, `sleepUntil`).
    InNote(u64),
    /// There is nothing to wait for (Go: `rescheduling`).
    Parked(Thread),
}

/// How the timerproc goes on after it has fired what was due.
enum Next {
    SleepUntil(u64),
    Park,
    End,
}

impl Bucket {
    pub(super) fn new(clock: Clock) -> Arc<Bucket> {
        let state = State { heap: Heap::new(), timerproc: Timerproc::NotStarted, ends: false };
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
        // Without the lock: it may be the last one of a green thread.
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

    /// Wakes the timerproc if it waits for longer than the timer that now is at `when`. It is woken without the lock, for a
    /// green thread may lose its P in any call of the runtime, and would keep the lock until it has another.
    fn unlock_and_wake(self: &Arc<Self>, mut state: MutexGuard<'_, State>, when: u64) {
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
        // Once a round, as in Go: what becomes due meanwhile is the next round's.
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
                    let callback = state.heap.pop().expect("there is a first");
                    MutexGuard::unlocked(&mut state, || callback.wake());
                }
            }
        }
    }
}
