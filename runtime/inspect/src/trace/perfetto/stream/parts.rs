//! A reader that gets what is recorded part by part. Recordings may end and begin between two parts.

use std::collections::{HashMap, VecDeque};

use sched::recorder::{Reader, Track, stamp};

use crate::trace::merge::PATIENCE_NS;
use crate::trace::recording::{Moment, RECORDING};

/// How long a part waits for the event that has a noted stop. Its P writes that event at once, unless its OS
/// thread is off its processor.
const STOP_NS: u64 = 1_000_000_000;

/// How many moments [`Times`] keeps: two seconds, if the parts come as fast as they may.
const KEPT_MOMENTS: usize = 2048;

/// The times of stamps, in ns since the first moment.
///
/// Both clocks are read one after the other, so a moment may be wrong if its thread was off its processor in
/// between. A stamp has one time nevertheless, in whatever part it comes, and a later stamp has no earlier
/// time: it lies between the two moments around it.
struct Times {
    /// In the order of their stamps and of their times.
    moments: VecDeque<Moment>,
    /// The time of the first moment ever.
    since_ns: u64,
}

impl Times {
    fn new(since: Moment) -> Times {
        Times { moments: [since].into(), since_ns: since.ns }
    }

    /// Adds a later moment.
    fn add(&mut self, now: Moment) {
        let last = self.moments.back().expect("there is the first moment");
        // The counter of another processor may be behind by some ns.
        let now = Moment { stamp: now.stamp.max(last.stamp + 1), ns: now.ns.max(last.ns) };
        if self.moments.len() == KEPT_MOMENTS {
            self.moments.pop_front();
        }
        self.moments.push_back(now);
    }

    /// Returns the time of a stamp. One that is older than all moments has the time of the oldest.
    fn of(&self, stamp: u64) -> u64 {
        let after = self.moments.partition_point(|moment| moment.stamp <= stamp);
        let at = |i: usize| self.moments.get(i).copied();
        let ns = match (after.checked_sub(1).and_then(at), at(after)) {
            (Some(before), Some(after)) => {
                let (stamps, ns) = (after.stamp - before.stamp, after.ns - before.ns);
                let exact = u128::from(stamp - before.stamp) * u128::from(ns) / u128::from(stamps);
                before.ns + exact as u64
            }
            (one, other) => one.or(other).expect("there is the first moment").ns,
        };
        ns - self.since_ns
    }
}

/// The reader.
pub(super) struct Parts {
    times: Times,
    /// When it began: older events are not its own.
    since: u64,
    /// By the numbers of the rings.
    readers: HashMap<u64, Reader>,
}

/// What was recorded since the part before.
#[derive(Default)]
pub(super) struct Part {
    pub(super) tracks: Vec<Track>,
    /// Later parts have no events that are older than this.
    pub(super) until_ns: u64,
    /// When it was read.
    pub(super) now_ns: u64,
}

impl Parts {
    /// Makes a reader of the events from now on.
    pub(super) fn new() -> Parts {
        let since = Moment::now();
        Parts { times: Times::new(since), since: since.stamp, readers: HashMap::new() }
    }

    /// Returns the next part. The Ps go on during the call. The last part has all that there is.
    pub(super) fn next(&mut self, is_last: bool) -> Part {
        let guard = RECORDING.lock();
        let Some(recording) = guard.as_ref() else { return Part::default() };
        self.readers.retain(|number, _| recording.rings.iter().any(|rings| rings.number() == *number));
        // The rings are read one after the other. From here on, one may have an event, while the ring with
        // its cause was read before that came.
        let until = stamp();
        let mut tracks = Vec::new();
        for rings in &recording.rings {
            tracks.extend(rings.read_on(self.readers.entry(rings.number()).or_default(), is_last));
        }
        let now = Moment::now();
        drop(guard);
        self.times.add(now);
        let Parts { times, since, .. } = self;
        let mut until_ns = times.of(until).saturating_sub(PATIENCE_NS);
        let least = until_ns.saturating_sub(STOP_NS);
        for track in &mut tracks {
            if let Some(stop) = track.stop.take() {
                match times.of(stop.at_ns) {
                    _ if is_last => track.events.push(stop),
                    // The stop comes with a later part.
                    at if at >= least => until_ns = until_ns.min(at.saturating_sub(1)),
                    _ => {}
                }
            }
            track.events.retain(|event| event.at_ns >= *since);
            track.events.iter_mut().for_each(|event| event.at_ns = times.of(event.at_ns));
        }
        let until_ns = if is_last { u64::MAX } else { until_ns };
        Part { tracks, until_ns, now_ns: times.of(u64::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment in the middle was noted late: its thread was off its processor between the two clocks.
    #[test]
    fn a_stamp_keeps_its_time_and_later_stamps_have_later_times() {
        let mut times = Times::new(Moment { stamp: 1000, ns: 50 });
        times.add(Moment { stamp: 2000, ns: 2050 });
        let before: Vec<u64> = (1000..=2000).step_by(10).map(|stamp| times.of(stamp)).collect();
        assert_eq!((before[0], before[50], before[100]), (0, 1000, 2000));
        times.add(Moment { stamp: 3000, ns: 2060 });
        let after: Vec<u64> = (1000..=3000).step_by(10).map(|stamp| times.of(stamp)).collect();
        assert_eq!(after[..before.len()], before);
        assert!(after.is_sorted() && *after.last().unwrap() == 2010);
        // Of clocks that go back, and stamps beyond both ends.
        times.add(Moment { stamp: 2999, ns: 2000 });
        assert_eq!((times.of(1), times.of(2500), times.of(u64::MAX)), (0, 2005, 2010));
    }

    #[test]
    fn old_moments_are_forgotten() {
        let mut times = Times::new(Moment { stamp: 0, ns: 0 });
        (1..=2 * KEPT_MOMENTS as u64).for_each(|i| times.add(Moment { stamp: 10 * i, ns: 20 * i }));
        assert_eq!(times.moments.len(), KEPT_MOMENTS);
        let first = times.moments[0].ns;
        assert_eq!((times.of(5), times.of(first / 2), times.of(first / 2 + 5)), (first, first, first + 10));
    }
}
