//! A reader that gets what is recorded part by part. Recordings may end and begin between two parts.

use std::collections::HashMap;

use sched::recorder::{Reader, Track, stamp};

use crate::trace::merge::PATIENCE_NS;
use crate::trace::recording::{Moment, RECORDING, set_time};

/// How long a part waits for the event that has a noted stop. Its P writes that event at once, unless its OS
/// thread is off its processor.
const STOP_NS: u64 = 1_000_000_000;

/// The reader.
pub(super) struct Parts {
    /// When it began: all times count from here.
    since: Moment,
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
    /// A ring was half full, so the next part must come sooner.
    pub(super) is_late: bool,
}

impl Parts {
    /// Makes a reader of the events from now on.
    pub(super) fn new() -> Parts {
        Parts { since: Moment::now(), readers: HashMap::new() }
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
        let (now, events) = (Moment::now(), recording.events);
        drop(guard);
        // The list of the threads without a P is shorter.
        let half = |track: &Track| if track.p.is_some() { events / 2 } else { events / 8 };
        let is_late = tracks.iter().any(|track| track.lost > 0 || track.events.len() >= half(track));
        let mut until_ns = self.since.time_of(until, now).unwrap_or_default().saturating_sub(PATIENCE_NS);
        let least = until_ns.saturating_sub(STOP_NS);
        for track in &mut tracks {
            if let Some(stop) = track.stop.take() {
                match self.since.time_of(stop.at_ns, now) {
                    _ if is_last => track.events.push(stop),
                    // The stop comes with a later part.
                    Some(at) if at >= least => until_ns = until_ns.min(at.saturating_sub(1)),
                    _ => {}
                }
            }
            track.events.retain_mut(|event| set_time(event, self.since, now));
        }
        let until_ns = if is_last { u64::MAX } else { until_ns };
        Part { tracks, until_ns, now_ns: now.ns - self.since.ns, is_late }
    }
}
