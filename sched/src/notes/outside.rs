//! The flight recorder's events of threads without a P: a list of their runtime, under a lock.
//!
//! Such threads are about to sleep, or have lost their P, or belong to another runtime, so the lock costs
//! them little.

use std::collections::VecDeque;
use std::panic::Location;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::g::wait::Outcome;
use crate::g::{G, Runtime};
use crate::m::M;
use crate::m::current::on_m;
use crate::p::event::{By, Kind, Stopped};
use crate::p::recorder::keep_name;
use crate::sync::Mutex;
use crate::sys::{fork, stamp};

/// One event that was recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    /// When, in ns since the start of the recording. Processors' counters may differ by some ten ns.
    pub at_ns: u64,
    /// What has happened.
    pub kind: Kind,
    /// The green thread, or the number, of the kind.
    pub id: u64,
    /// The argument of the kind.
    pub argument: u16,
    /// Of an event outside of a P: the M, if the thread was one.
    pub m: Option<usize>,
    /// Of an event outside of a P: the green thread that ran there.
    pub by: Option<u64>,
    /// Of `Spawn`: where.
    pub place: Option<&'static Location<'static>>,
}

/// What threads without a P have recorded from a position on.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) events: Vec<Recorded>,
    /// How many events before these were dropped.
    pub(crate) lost: u64,
    /// The position of the next event.
    pub(crate) end: u64,
}

/// The events of threads without a P, of one runtime.
#[derive(Debug)]
pub(crate) struct Outside {
    /// The address of the runtime, by which its Ms are known here.
    runtime: usize,
    /// How many events are kept; 0 while the recorder is off.
    places: AtomicUsize,
    events: Mutex<(VecDeque<Recorded>, u64)>,
}

impl Outside {
    pub(crate) fn new(runtime: *const Runtime) -> Self {
        Outside { runtime: runtime.addr(), places: AtomicUsize::new(0), events: Mutex::default() }
    }

    /// Starts a recording that keeps the newest `places` events.
    pub(crate) fn start(&self, places: usize) {
        let mut events = self.events.lock();
        events.0.clear();
        events.1 = 0;
        self.places.store(places, Ordering::Relaxed);
    }

    /// Stops the recording.
    pub(crate) fn stop(&self) {
        self.places.store(0, Ordering::Relaxed);
    }

    /// Returns the events from the position `from` on, with stamps in the place of times. `from` is 0 or the
    /// end of an earlier part.
    pub(crate) fn read(&self, from: u64) -> Part {
        let all = self.events.lock();
        let (kept, dropped) = (&all.0, all.1);
        let known = from.saturating_sub(dropped) as usize;
        Part {
            events: kept.iter().skip(known).copied().collect(),
            lost: dropped.saturating_sub(from),
            end: dropped + kept.len() as u64,
        }
    }

    /// Records an event of a thread without a P. *Runs on: any thread.*
    #[inline]
    pub(crate) fn notes(&self, kind: Kind, id: u64, argument: u16) {
        // Relaxed: the events are ordered by the lock.
        if self.places.load(Ordering::Relaxed) != 0 {
            self.write(kind, id, argument, None);
        }
    }

    /// Records that `g` has stopped, which its M does without a P. *Runs on: that M, before a waker may make
    /// `g` ready.*
    pub(crate) fn stops(&self, g: &G, stopped: Stopped) {
        self.notes(Kind::Stop, g.id(), stopped.argument());
    }

    /// Records that `g` was made ready. *Runs on: any thread, before an M can see `g` in a queue.*
    pub(crate) fn readies(&self, g: &G, by: By) {
        self.notes(Kind::Ready, g.id(), by as u16);
    }

    /// Records that `g` is ready again, because its wait was decided before it had parked. *Runs on: its M.*
    pub(crate) fn goes_on(&self, g: &G) {
        // Only a timer lets a wait time out. Who else has decided it is not known.
        self.readies(g, if g.wait.outcome() == Outcome::TimedOut { By::Timer } else { By::Scheduler });
    }

    /// Records that `g` was spawned. *Runs on: as `readies`.*
    pub(crate) fn spawns(&self, g: &G) {
        if self.places.load(Ordering::Relaxed) != 0 {
            self.write(Kind::Spawn, g.id(), u16::from(g.polls()), g.place());
            keep_name(g);
        }
    }

    #[cold]
    fn write(&self, kind: Kind, id: u64, argument: u16, place: Option<&'static Location<'static>>) {
        if fork::is_forked() {
            return;
        }
        let (m, by) =
            on_m(|m| (self.is_of(m.shared()).then_some(m.number), m.running().map(|g| g.id()))).unzip();
        let mut events = self.events.lock();
        let places = self.places.load(Ordering::Relaxed);
        if places == 0 {
            // The recording has stopped since the caller looked.
            return;
        }
        // Stamped under the lock, so that the list is in the order of its stamps.
        let at_ns = stamp();
        while events.0.len() >= places {
            events.0.pop_front();
            events.1 += 1;
        }
        events.0.push_back(Recorded { at_ns, kind, id, argument, m: m.flatten(), by: by.flatten(), place });
    }

    /// Returns `true` if `m` is an M of this runtime. A green thread of another one may make events here,
    /// too.
    pub(super) fn is_of(&self, m: &M) -> bool {
        m.runtime.addr() == self.runtime
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no counter of the processor")]
    fn a_stop_keeps_the_events_and_a_start_forgets_them() {
        let outside = Outside::new(std::ptr::null());
        let note = || (0..3).for_each(|id| outside.notes(Kind::TimerArmed, id, 0));
        let seen = |from| {
            let Part { events, lost, end } = outside.read(from);
            (events.iter().map(|event| event.id).collect::<Vec<_>>(), lost, end)
        };
        note();
        assert_eq!(seen(0), (vec![], 0, 0));
        outside.start(2);
        note();
        outside.stop();
        note();
        assert_eq!(seen(0), (vec![1, 2], 1, 3));
        assert_eq!((seen(2), seen(3)), ((vec![2], 0, 3), (vec![], 0, 3)));
        outside.start(4);
        note();
        assert_eq!(seen(0), (vec![0, 1, 2], 0, 3));
    }
}
