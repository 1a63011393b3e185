//! The ring of events of one P: the holder of the P writes, and any thread may read at the same time. New
//! events replace the oldest.
//!
//! An event is two words, which the writer stores one after the other. A reader never shows a torn event. It
//! takes the positions that were written before it began. Then it drops the positions that the writer may
//! have reached during the read.
//!
//! ```text
//!            the writer                               the reader
//!   push     fence            (Release)      read     load the head           (Acquire)
//!            store both words (Relaxed)               load all words          (Relaxed)
//!            store the head+1 (Release)               fence                   (Acquire)
//!                                                     load the head once more (Relaxed)
//!                                                     drop each position that lies a whole ring or more behind it
//! ```
//!
//! The reader may have loaded a word of a later lap. The writer stored the head before that lap. The two
//! fences order that store before the reader's second load. So the second load shows that the writer has come
//! to this position.
//!
//! Rejected: a sequence number in each event, because a third word costs the writer more than a second look
//! costs the reader.
//!
//! A stop is noted beside the ring until the next event, which contains it or follows it. A reader sees a
//! noted stop too: the M that noted it may have been off its processor ever since. The note has the position
//! of that next event. So the push of the event ends the note, and a reader finds a stop either there or
//! there.
//!
//! ```text
//!            the writer                               the reader
//!   note     store the stamp               (Release)  load reason and position (Acquire)
//!            store the reason and the head (Release)  load the stamp           (Acquire)
//!   next     push                                     read; the head is the position? then the stop is the last event
//! ```
//!
//! If the reader has loaded the stamp of a later stop, it sees the push before that stop. It then finds
//! another head.
//!
//! Rejected: to clear the note before the push. The M may be off its processor in between, and a reader then
//! misses the stop.

use crate::sync::{
    atomic::{AtomicU64, Ordering, fence},
    broken,
};

/// One event, as the ring sees it.
pub(crate) type Words = [u64; 2];

/// The ring of one P.
#[derive(Debug)]
pub(crate) struct Ring {
    /// How many events were ever written.
    head: AtomicU64,
    /// The number of places less one. The number is a power of two.
    mask: u64,
    places: Box<[[AtomicU64; 2]]>,
    /// Why the last G has stopped, and above [`REASON_BITS`] the position of the event that is to have it.
    stop: AtomicU64,
    /// When it has stopped.
    stop_at: AtomicU64,
}

/// The bits of a noted stop that have its reason. A position has the other 48: no ring has so many events.
const REASON_BITS: u32 = u16::BITS;

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Read {
    /// The newest events, in their order.
    pub(crate) events: Vec<Words>,
    /// The position of the first of them: those before were overwritten, or not asked for.
    pub(crate) first: u64,
    /// The stop that follows the last event, with its stamp.
    pub(crate) stop: Option<(u64, u16)>,
}

impl Read {
    /// Returns the position at which the next read goes on.
    pub(crate) fn end(&self) -> u64 {
        self.first + self.events.len() as u64
    }
}

impl Ring {
    /// Makes a ring with `places` places. `places` is a power of two.
    pub(crate) fn new(places: usize) -> Ring {
        assert!(places.is_power_of_two(), "a position must be masked");
        let empty = || [AtomicU64::new(0), AtomicU64::new(0)];
        Ring {
            head: AtomicU64::new(0),
            mask: places as u64 - 1,
            places: (0..places).map(|_| empty()).collect(),
            stop: AtomicU64::new(0),
            stop_at: AtomicU64::new(0),
        }
    }

    /// Returns the number of places.
    pub(crate) fn places(&self) -> usize {
        self.places.len()
    }

    /// Returns how many events were ever written. *Runs on: any thread.*
    pub(crate) fn written(&self) -> u64 {
        // Relaxed: a count. The caller reads no event by it.
        self.head.load(Ordering::Relaxed)
    }

    /// Writes one event. *Runs on: the holder of the P. The lease orders one holder after the other.*
    #[inline]
    pub(crate) fn push(&self, words: Words) {
        // Relaxed: only the writer stores the head.
        let head = self.head.load(Ordering::Relaxed);
        let place = &self.places[(head & self.mask) as usize];
        if !broken!("ring_writer_no_fence") {
            // Pairs with the fence in `read`: a reader that sees one of the words sees the head from before
            // them.
            fence(Ordering::Release);
        }
        // Relaxed: the fence and the head order them.
        place[0].store(words[0], Ordering::Relaxed);
        place[1].store(words[1], Ordering::Relaxed);
        // Release: pairs with the Acquire in `read`, which then sees both words.
        let order = if broken!("ring_head_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        self.head.store(head + 1, order);
    }

    /// Notes why and when the running G has stopped. The next event is to have it. *Runs on: the holder of
    /// the P.*
    #[inline]
    pub(crate) fn note_stop(&self, at: u64, why: u16) {
        let order = if broken!("ring_stamp_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        // Release: pairs with the Acquire in `noted`, which then sees the push of the stop before.
        self.stop_at.store(at, order);
        self.store_stop(why);
    }

    /// Changes why the G has stopped, if that is noted. *Runs on: the holder of the P.*
    pub(crate) fn correct_stop(&self, why: u16) {
        if self.noted_stop().is_some() {
            self.store_stop(why);
        }
    }

    fn store_stop(&self, why: u16) {
        // Relaxed: only the writer stores the head.
        let head = self.head.load(Ordering::Relaxed);
        // Release: pairs with the Acquire in `noted`, which then sees the stamp.
        self.stop.store(head << REASON_BITS | u64::from(why), Ordering::Release);
    }

    /// Returns the noted stop, which the caller writes with the next `push`. *Runs on: the holder of the P.*
    #[inline]
    pub(crate) fn noted_stop(&self) -> Option<(u64, u16)> {
        // Relaxed: only the writer stores all three.
        let (word, head) = (self.stop.load(Ordering::Relaxed), self.head.load(Ordering::Relaxed));
        if broken!("ring_note_cleared_before_its_event") {
            self.stop.store(0, Ordering::Relaxed);
        }
        let why = word as u16;
        (why != 0 && word >> REASON_BITS == head).then(|| (self.stop_at.load(Ordering::Relaxed), why))
    }

    /// Returns a stop and the position of the event that has it.
    fn noted(&self) -> Option<(u64, u16, u64)> {
        // Acquire: both pair with the Release stores in `note_stop`.
        let word = self.stop.load(Ordering::Acquire);
        let why = word as u16;
        (why != 0).then(|| (self.stop_at.load(Ordering::Acquire), why, word >> REASON_BITS))
    }

    /// Returns what was written at the position `from` and later. `from` is at most [`Read::end`] of an
    /// earlier read, which comes before this one. *Runs on: any thread.*
    pub(crate) fn read(&self, from: u64) -> Read {
        let noted = self.noted();
        let (events, first) = self.read_events(from);
        let now = first + events.len() as u64;
        let is_next = |position| position == now || broken!("ring_stop_of_another_event");
        let stop = noted.filter(|&(_, _, position)| is_next(position)).map(|(at, why, _)| (at, why));
        Read { events, first, stop }
    }

    fn read_events(&self, from: u64) -> (Vec<Words>, u64) {
        // Acquire: pairs with the Release in `push`.
        let head = self.head.load(Ordering::Acquire);
        let from = if broken!("ring_part_begins_late") { from + 1 } else { from };
        // A later load of one atomic never sees an older head, so `from` is no later than it.
        let first = head.saturating_sub(self.mask + 1).max(from);
        let word =
            |position: u64, i: usize| self.places[(position & self.mask) as usize][i].load(Ordering::Relaxed);
        let mut events: Vec<Words> =
            (first..head).map(|position| [word(position, 0), word(position, 1)]).collect();
        if !broken!("ring_reader_no_fence") {
            // Pairs with the fence in `push`.
            fence(Ordering::Acquire);
        }
        let now = self.head.load(Ordering::Relaxed);
        // The writer may be writing position `now`, in the place of the position a whole ring before.
        let reached = if broken!("ring_reader_forgets_the_open_place") { now } else { now + 1 };
        let kept = reached.saturating_sub(self.mask + 1).clamp(first, head);
        if broken!("ring_no_second_look") {
            return (events, first);
        }
        events.drain(..(kept - first) as usize);
        (events, kept)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::models::{Reached, Turns};
    use loom::sync::Arc;
    use loom::thread;

    struct World {
        ring: Ring,
        turns: Turns,
        /// How many stops were noted.
        noted: AtomicU64,
    }

    impl World {
        fn new(places: usize) -> Arc<World> {
            Arc::new(World { ring: Ring::new(places), turns: Turns::default(), noted: AtomicU64::new(0) })
        }

        /// Writes the events from `first` to below `end`. Event `n` has two words that belong together.
        fn write(&self, first: u64, end: u64) {
            for n in first..end {
                self.turns.take();
                self.ring.push(event(n));
            }
        }

        /// Reads, and returns how many events it has seen.
        fn check(&self) -> u64 {
            self.turns.take();
            self.check_from(0).end()
        }

        /// As `check`, from this position on.
        fn check_from(&self, from: u64) -> Read {
            let read = self.ring.read(from);
            assert!(read.events.len() <= self.ring.places());
            for (i, words) in read.events.iter().enumerate() {
                assert_eq!(*words, event(read.first + i as u64), "a torn event, or one out of order");
            }
            read
        }
    }

    fn event(n: u64) -> Words {
        [n + 1, 100 + n]
    }

    #[test]
    fn a_reader_never_sees_a_torn_event() {
        static BETWEEN: Reached = Reached::new();
        loom::model(|| {
            let world = World::new(2);
            world.write(0, 2);
            let writer = world.clone();
            let writer = thread::spawn(move || writer.write(2, 4));
            BETWEEN.note(world.check() == 3);
            writer.join().unwrap();
            assert_eq!(world.check(), 4);
        });
        BETWEEN.assert();
    }

    #[test]
    fn what_is_published_is_whole() {
        static BETWEEN: Reached = Reached::new();
        loom::model(|| {
            let world = World::new(4);
            let writer = world.clone();
            let writer = thread::spawn(move || writer.write(0, 2));
            BETWEEN.note(world.check() == 1);
            writer.join().unwrap();
            assert_eq!(world.check(), 2);
        });
        BETWEEN.assert();
    }

    /// The parts that a reader gets follow each other. Where there is a gap, the events in it were
    /// overwritten: they are a whole ring or more behind the writer, or in the place that it may be writing.
    #[test]
    fn a_reader_that_goes_on_misses_no_event() {
        static BETWEEN: Reached = Reached::new();
        static GAP: Reached = Reached::new();
        loom::model(|| {
            let world = World::new(2);
            world.write(0, 1);
            let mut next = world.check_from(0).end();
            assert_eq!(next, 1);
            let writer = world.clone();
            let writer = thread::spawn(move || writer.write(1, 4));
            let mut read_on = || {
                let read = world.check_from(next);
                let overwritten = (world.ring.written() + 1).saturating_sub(world.ring.places() as u64);
                assert!(read.first >= next, "an event twice");
                assert!(
                    read.first == next || read.first <= overwritten,
                    "a gap that nothing has overwritten"
                );
                GAP.note(read.first > next);
                next = read.end();
                read.events.len()
            };
            world.turns.take();
            let seen = read_on();
            writer.join().unwrap();
            BETWEEN.note((1..3).contains(&seen) && read_on() > 0);
            read_on();
            assert_eq!(next, 4);
        });
        BETWEEN.assert();
        GAP.assert();
    }

    /// Event `n` has the stop with the stamp `n + 1` and the reason `n + 1`.
    #[test]
    fn a_noted_stop_follows_the_last_event() {
        static NOTED: Reached = Reached::new();
        loom::model(|| {
            let world = World::new(4);
            let writer = world.clone();
            let writer = thread::spawn(move || {
                for n in 0..2 {
                    world_turn(&writer);
                    writer.ring.note_stop(n + 1, n as u16 + 1);
                    writer.noted.fetch_add(1, Ordering::AcqRel);
                    let (at, why) = writer.ring.noted_stop().unwrap();
                    assert_eq!((at, why), (n + 1, n as u16 + 1));
                    writer.ring.push(event(n));
                    assert_eq!(writer.ring.noted_stop(), None);
                }
            });
            world_turn(&world);
            let noted = world.noted.fetch_add(0, Ordering::AcqRel);
            let read = world.ring.read(0);
            let written = read.end();
            assert!(written + u64::from(read.stop.is_some()) >= noted, "a stop was missed");
            NOTED.note(read.stop.is_some() && written == 1);
            if let Some(stop) = read.stop {
                assert_eq!(stop, (written + 1, written as u16 + 1), "the stop of another event");
            }
            writer.join().unwrap();
            assert_eq!(world.ring.read(0).stop, None);
        });
        NOTED.assert();
    }

    fn world_turn(world: &World) {
        world.turns.take();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn the_newest_events_stay() {
        let ring = Ring::new(8);
        let events = |positions: std::ops::Range<u64>| {
            let first = positions.start;
            (positions.map(|n| [n, n]).collect::<Vec<Words>>(), first)
        };
        assert_eq!(ring.read_events(0), (vec![], 0));
        (0..5).for_each(|n| ring.push([n, n]));
        assert_eq!(ring.read_events(0), events(0..5));
        assert_eq!((ring.read_events(3), ring.read_events(5)), (events(3..5), (vec![], 5)));
        (5..21).for_each(|n| ring.push([n, n]));
        // The place of event 13 is the next to be written, so the reader leaves it out.
        assert_eq!((ring.read_events(5), ring.read_events(19)), (events(14..21), events(19..21)));
    }

    #[test]
    fn a_stop_is_read_until_an_event_has_it() {
        let ring = Ring::new(8);
        ring.push([1, 1]);
        ring.correct_stop(9);
        assert_eq!(ring.read(0).stop, None);
        ring.note_stop(5, 7);
        assert_eq!(ring.read(0).stop, Some((5, 7)));
        ring.correct_stop(9);
        assert_eq!(ring.read(0).stop, Some((5, 9)));
        assert_eq!(ring.noted_stop(), Some((5, 9)));
        ring.push([2, 2]);
        assert_eq!((ring.noted_stop(), ring.read(0).stop), (None, None));
    }

    #[test]
    fn a_reader_beside_a_fast_writer_gets_whole_events_in_order() {
        let (ring, stop) = (Arc::new(Ring::new(64)), Arc::new(AtomicBool::new(false)));
        let writer = std::thread::spawn({
            let (ring, stop) = (ring.clone(), stop.clone());
            move || {
                let mut n = 0;
                while !stop.load(Ordering::Relaxed) {
                    ring.push([n, !n]);
                    n += 1;
                }
            }
        });
        for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
            let Read { events, first, .. } = ring.read(0);
            for (i, [a, b]) in events.iter().enumerate() {
                assert_eq!((*a, *b), (first + i as u64, !(first + i as u64)));
            }
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    }
}
