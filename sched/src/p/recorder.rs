//! The flight recorder's part of one P: hooks and the writer of the P's ring. While the recorder is off, a
//! hook costs a load and a branch at most.
//!
//! One time stamp serves a switch. A G that stops leaves the stamp and the reason with its P. If the
//! scheduler finds the next G at once, one event has both: the new G runs, and the last one has stopped.
//! Every other event, and a longer search, first writes the stop as an event of its own.
//!
//! Reading the counter costs more than writing an event. So two groups of events share one time stamp. The
//! first group is the wake-ups of one poll of the network or the timers, and the first run after them. The
//! second is the arming of a G's timer, and the park that follows. The P keeps the stamp as its *moment*. A
//! moment begins after all its wake-ups are decided, because a G must not be made ready before it has
//! stopped. Any other event ends the moment. So does anything that takes time, or that finds a G of another
//! thread, because a G must not run before it was made ready.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::g::G;
use crate::p::Held;
use crate::p::event::{By, Kind, POLLS, Stopped, pack, pack_place};
use crate::p::ring::{Ring, Words};
use crate::sync::Mutex;
use crate::sys;

/// The recorder of one P.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Null while the recorder is off. Points into `writers`.
    writer: AtomicPtr<RingWriter>,
    /// All writers that the P ever had, one of each length. A holder of the P may still write to one that was
    /// taken out.
    writers: Mutex<Vec<Arc<RingWriter>>>,
}

/// A ring and the state of its writer. Only the holder of the P writes, but for `since`.
#[derive(Debug)]
pub(crate) struct RingWriter {
    ring: Ring,
    /// When this recording began.
    since: AtomicU64,
    /// How many events the ring has of earlier recordings, overwritten events included.
    older: AtomicU64,
    /// The stamp that the events of one moment share; 0 if the next event is to read the counter.
    // Relaxed, always: only the holder of the P uses it.
    moment: AtomicU64,
}

impl Recorder {
    pub(crate) fn new() -> Recorder {
        Recorder { writer: AtomicPtr::new(ptr::null_mut()), writers: Mutex::new(Vec::new()) }
    }

    /// Begins to record into a ring of `events` places. Returns the writer. *Runs on: any thread.*
    pub(crate) fn start(&self, events: usize, since: u64) -> Arc<RingWriter> {
        let mut writers = self.writers.lock();
        let known = writers.iter().find(|writer| writer.ring.places() == events).cloned();
        let writer = known.unwrap_or_else(|| {
            let writer = Arc::new(RingWriter {
                ring: Ring::new(events),
                since: AtomicU64::new(0),
                older: AtomicU64::new(0),
                moment: AtomicU64::new(0),
            });
            writers.push(writer.clone());
            writer
        });
        writer.since.store(since, Ordering::Relaxed);
        // Relaxed: the lock of the recording orders this store before the reads of this recording.
        writer.older.store(writer.ring.written(), Ordering::Relaxed);
        // Release: pairs with the Acquire in `on`; the holder sees the ring.
        self.writer.store(Arc::as_ptr(&writer).cast_mut(), Ordering::Release);
        writer
    }

    /// Ends the recording. A holder of the P that is in the middle of an event still writes it. *Runs on: any
    /// thread.*
    pub(crate) fn stop(&self) {
        self.writer.store(ptr::null_mut(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn on(&self) -> Option<&RingWriter> {
        // Acquire: pairs with `start`.
        // SAFETY: `writer` is null or points into an `Arc` in `writers`, which keeps each writer as long as
        // this recorder.
        unsafe { self.writer.load(Ordering::Acquire).as_ref() }
    }

    /// Records an event, without a [`Held`]. *Runs on: the holder of the P.*
    #[inline]
    pub(crate) fn notes(&self, kind: Kind, id: u64, argument: usize) {
        if let Some(writer) = self.on() {
            writer.write(kind, id, argument_of(argument));
        }
    }
}

/// The hooks. Those of a switch look only at the alerts of the P, which the holder has at hand. Those of a
/// wake-up and of a spawn are called when the sampler of the P says so. The other hooks look whether a
/// recording has begun or ended.
impl Held<'_> {
    /// Records that `g` begins to run.
    #[inline(always)]
    pub(crate) fn runs(self, g: &G) {
        if self.own().records() {
            self.records_here(|writer| writer.runs(g));
        }
    }

    /// Records that the running G has stopped. *Runs on: its M, before a waker may make that G ready.*
    #[inline(always)]
    pub(crate) fn stops(self, stopped: Stopped) {
        if self.own().records() {
            self.records_here(|writer| writer.stops(stopped.argument()));
        }
    }

    /// Records that the G that has just stopped is ready again, because its wait was decided before the
    /// commit.
    #[inline(always)]
    pub(crate) fn goes_on(self) {
        if self.own().records() {
            self.records(RingWriter::goes_on);
        }
    }

    /// Writes a stop that is still to be written, and ends the moment. Called if the search for the next G
    /// takes long, or finds a G that another thread has put there. Its run must not have the stamp of an
    /// earlier stop. A P that runs Gs without a stop calls this every so many rounds, and so notices that a
    /// recording has begun.
    #[inline(always)]
    pub(crate) fn searches(self) {
        if self.recorder.on().is_some() {
            self.records(|writer| {
                writer.write_stop();
                writer.end_moment();
            });
        }
    }

    /// Records that `g` was made ready. *Runs on: the waker, before a thief can see `g` in a queue, and after
    /// the look's `ends_at_sample`.*
    pub(crate) fn readies(self, g: &G, by: By) {
        self.records_here(|writer| writer.write(Kind::Ready, g.id(), by as u16));
    }

    /// As `readies`, in the moment of the poll that has woken `g`.
    pub(crate) fn readies_in_moment(self, g: &G, by: By) {
        self.records_here(|writer| writer.write_in_moment(Kind::Ready, g.id(), by as u16));
    }

    /// Records an event that wake-ups or a stop follow at once: a new moment. *Runs on: the holder, after all
    /// these waits are decided.*
    #[inline(always)]
    pub(crate) fn notes_moment(self, kind: Kind, id: u64, argument: usize) {
        if self.recorder.on().is_some() {
            self.records(|writer| {
                writer.end_moment();
                writer.write_in_moment(kind, id, argument_of(argument));
            });
        }
    }

    /// Records that the M of this number is about to give this P up. Returns the stamp of this event; 0 if it
    /// is not recorded. *Runs on: that M.*
    pub(crate) fn idles(self, m: usize) -> u64 {
        let mut at = 0;
        if self.recorder.on().is_some() {
            self.records(|writer| {
                at = sys::stamp();
                writer.write_at(at, Kind::Idle, 0, argument_of(m));
            });
        }
        at
    }

    /// Records that `g` was spawned. *Runs on: as `readies`.*
    pub(crate) fn spawns(self, g: &G) {
        self.records(|writer| writer.spawns(g));
    }

    /// Records any other event.
    #[inline(always)]
    pub(crate) fn notes(self, kind: Kind, id: u64, argument: usize) {
        if self.recorder.on().is_some() {
            self.records(|_| self.recorder.notes(kind, id, argument));
        }
    }

    /// Calls `write` with the writer, and notes in the alerts whether there is one.
    #[inline(never)]
    fn records(self, write: impl FnOnce(&RingWriter)) {
        self.records_here(write);
    }

    /// As `records`, inlined: for the hooks of each switch and wake-up, which have callers that are functions
    /// of their own.
    #[inline(always)]
    fn records_here(self, write: impl FnOnce(&RingWriter)) {
        let writer = self.recorder.on();
        self.own().set_records(writer.is_some());
        writer.map(write);
    }
}

fn argument_of(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}

impl RingWriter {
    #[inline]
    fn runs(&self, g: &G) {
        let polls = if g.polls() { POLLS } else { 0 };
        // An older stop belongs to an earlier recording.
        let stop = self.ring.noted_stop().filter(|&(at, _)| at >= self.since.load(Ordering::Relaxed));
        let (at, stopped) = stop.unwrap_or_else(|| (self.last_stamp(), 0));
        self.ring.push(pack(Kind::Run, at, g.id(), stopped | polls));
    }

    #[inline]
    fn stops(&self, stopped: u16) {
        self.ring.note_stop(self.last_stamp(), stopped);
    }

    #[inline]
    fn write(&self, kind: Kind, id: u64, argument: u16) {
        self.write_at(sys::stamp(), kind, id, argument);
    }

    #[inline]
    fn write_at(&self, at: u64, kind: Kind, id: u64, argument: u16) {
        self.write_stop();
        self.end_moment();
        self.ring.push(pack(kind, at, id, argument));
    }

    /// Writes an event of the moment. Begins one if there is none.
    #[inline]
    fn write_in_moment(&self, kind: Kind, id: u64, argument: u16) {
        self.write_stop();
        let at = self.moment().unwrap_or_else(sys::stamp);
        self.moment.store(at, Ordering::Relaxed);
        self.ring.push(pack(kind, at, id, argument));
    }

    #[inline]
    fn moment(&self) -> Option<u64> {
        let at = self.moment.load(Ordering::Relaxed);
        // An older one belongs to an earlier recording.
        (at >= self.since.load(Ordering::Relaxed)).then_some(at)
    }

    /// Returns the stamp of the moment, and ends it. Without one, reads the counter.
    #[inline]
    fn last_stamp(&self) -> u64 {
        match self.moment() {
            Some(at) => {
                self.end_moment();
                at
            }
            None => sys::stamp(),
        }
    }

    #[inline]
    fn end_moment(&self) {
        self.moment.store(0, Ordering::Relaxed);
    }

    fn goes_on(&self) {
        self.ring.correct_stop(Stopped::Yield.argument());
    }

    #[inline]
    fn write_stop(&self) {
        if let Some((at, stopped)) = self.ring.noted_stop() {
            self.ring.push(pack(Kind::Stop, at, 0, stopped));
        }
    }

    fn spawns(&self, g: &G) {
        self.write(Kind::Spawn, g.id(), u16::from(g.polls()));
        if let Some(place) = g.place() {
            self.ring.push(pack_place(ptr::from_ref(place).expose_provenance()));
        }
        keep_name(g);
    }

    /// Returns the events of this recording, the oldest first, from the position `from` on, which is 0 or the
    /// end of an earlier part. *Runs on: any thread. A lock orders the reads of one reader.*
    pub(crate) fn read(&self, from: u64) -> Part {
        let from = from.max(self.older.load(Ordering::Relaxed));
        let read = self.ring.read(from);
        let (lost, end) = (read.first - from, read.end());
        let stop = read.stop.map(|(at, stopped)| pack(Kind::Stop, at, 0, stopped));
        Part { events: read.events, lost, end, stop }
    }
}

/// The events of a recording from a position on.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) events: Vec<Words>,
    /// How many events before these were overwritten.
    pub(crate) lost: u64,
    /// The position of the next event.
    pub(crate) end: u64,
    /// The stop that follows the last event, and that a later event will have.
    pub(crate) stop: Option<Words>,
}

/// How many names of green threads that were spawned while the recorder was on are kept.
const KEPT_NAMES: usize = 4096;

static NAMES: Mutex<Names> = Mutex::new(Names { dropped: 0, kept: VecDeque::new() });

struct Names {
    /// How many older names were dropped.
    dropped: u64,
    kept: VecDeque<(u64, Box<str>)>,
}

/// Keeps the name of `g`, if it has one: `g` may have ended when the events are read.
pub(crate) fn keep_name(g: &G) {
    if let Some(name) = g.name() {
        let mut names = NAMES.lock();
        if names.kept.len() == KEPT_NAMES {
            names.kept.pop_front();
            names.dropped += 1;
        }
        names.kept.push_back((g.id(), name.into()));
    }
}

/// Calls `tell` with each id and name that `keep_name` has kept, from the position `from` on: 0, or what an
/// earlier call has returned. Returns the position of the next name.
pub fn kept_names(from: u64, mut tell: impl FnMut(u64, &str)) -> u64 {
    let names = NAMES.lock();
    let known = from.saturating_sub(names.dropped) as usize;
    names.kept.iter().skip(known).for_each(|(id, name)| tell(*id, name));
    names.dropped + names.kept.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no counter of the processor")]
    fn a_ring_that_is_used_again_has_lost_nothing() {
        let recorder = Recorder::new();
        let note = |n| (0..n).for_each(|id| recorder.notes(Kind::Blocking, id, 0));
        let writer = recorder.start(64, 1);
        note(100);
        let Part { events, lost, end, .. } = writer.read(0);
        assert_eq!((events.len() as u64 + lost, lost >= 36), (100, true));
        note(10);
        let Part { events, lost, .. } = writer.read(end);
        assert_eq!((events.len(), lost), (10, 0));
        recorder.stop();
        let again = recorder.start(64, sys::stamp());
        assert!(ptr::eq(&*writer, &*again));
        note(10);
        let Part { events, lost, .. } = again.read(0);
        assert_eq!((events.len(), lost), (10, 0));
        note(100);
        let Part { events, lost, .. } = again.read(0);
        assert_eq!(events.len() as u64 + lost, 110);
    }
}
