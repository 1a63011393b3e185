//! The rings of the flight recorder of one runtime. `notes/recording.rs` says whether it is on, and has its
//! triggers. The recordings of a process are in `runtime/inspect`.
//!
//! Each P has a ring of its own (`p/recorder.rs`). Events of threads without a P go to a list of their
//! runtime (`notes/outside.rs`). The rings of a recording stay readable after its stop, and after the end of
//! their runtime.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::{fmt, mem, ptr};

use crate::asleep::nap::{self, Word};
use crate::asleep::rest::SleepKind;
use crate::g::why::Why;
use crate::notes::events::{At, on_delay};
use crate::notes::outside::Outside;
pub use crate::notes::outside::Recorded;
pub use crate::notes::recording::{Trigger, is_on, set_late_bound, set_on, set_triggered};
use crate::p::event::{self, Kind};
use crate::p::lease::State;
use crate::p::recorder::RingWriter;
pub use crate::p::recorder::kept_names;
use crate::p::ring::Words;
use crate::run::boundary::enter;
use crate::run::sched::Sched;
pub use crate::run::sched::set_new_ps;
pub use crate::sys::stamp;
pub use timers::clock::now;

/// Lets the calling green thread notice at once that a recording has begun: it runs already. Other Ps notice
/// that by themselves. The caller has no lock, because to leave the runtime again may take a wait for a P.
pub fn notice() {
    if let Some(entered) = enter()
        && let Some((held, g)) = entered.held().zip(entered.m().running())
    {
        on_delay(At::P(held));
        entered.m().on_run(held, g.shared());
    }
}

/// What one P of a runtime has recorded, or its threads without a P.
#[derive(Debug)]
pub struct Track {
    /// The number of the [`Rings`]: no others of the process have it.
    pub rings: u64,
    /// The name of the runtime's OS threads.
    pub runtime: String,
    /// The index of the P; `None` for events of threads without a P.
    pub p: Option<usize>,
    /// The events, the oldest first.
    pub events: Vec<Recorded>,
    /// How many older events were overwritten.
    pub lost: u64,
    /// The M that had the P when the recording began.
    pub first_m: Option<usize>,
    /// A stop that follows the last event, and that a later event will have.
    pub stop: Option<Recorded>,
}

/// How far a reader has come that reads the rings of one runtime part by part.
#[derive(Debug, Default)]
pub struct Reader {
    /// The position of the next event in the ring of each P.
    ps: Vec<u64>,
    outside: u64,
    /// The sleeps of which it has the begin.
    begun: Naps,
}

/// The rings of one runtime in one recording.
pub struct Rings {
    number: u64,
    sched: Weak<Sched>,
    name: String,
    outside: Arc<Outside>,
    /// By the index of the P, each with the M that had the P when it began to record.
    writers: Vec<(Arc<RingWriter>, Option<usize>)>,
    /// The sleeps that had not ended when the recording stopped; `None` while it is on.
    asleep: Option<Naps>,
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rings").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The sleeps of Ms, each with the number of its M (`asleep/nap.rs`).
type Naps = HashSet<(usize, Word)>;

/// The number of the next [`Rings`].
static NEXT: AtomicU64 = AtomicU64::new(0);

impl Rings {
    /// Begins to record the threads of `sched` without a P. `events` is the number of places in the ring of a
    /// P.
    pub fn start(sched: &Sched, events: usize) -> Rings {
        sched.events.outside.start((events / 4).max(256));
        let (name, outside) = (sched.config().thread_name.clone(), sched.events.outside.clone());
        // Relaxed: only the number counts.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Rings { number, sched: sched.weak(), name, outside, writers: Vec::new(), asleep: None }
    }

    /// Returns a number that no others of the process have.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns `true` if these are the rings of `sched`.
    pub fn is_of(&self, sched: &Sched) -> bool {
        Arc::ptr_eq(&self.outside, &sched.events.outside)
    }

    /// Returns `true` if the runtime has ended.
    pub fn has_ended(&self) -> bool {
        self.sched.strong_count() == 0
    }

    /// Lets each P of `sched` record that does not yet. The recording has begun at the stamp `since`.
    pub fn add_ps(&mut self, sched: &Sched, events: usize, since: u64) {
        for p in sched.ps().skip(self.writers.len()) {
            let writer = p.recorder.start(events, since);
            // After the start, which may take long: from here on an event records a change of the M.
            let m = p.holder().filter(|_| p.look().state() != State::Idle).map(|m| m.number);
            self.writers.push((writer, m));
        }
    }

    /// Stops to record. What was recorded stays.
    pub fn stop(&mut self) {
        self.asleep = Some(self.naps());
        self.outside.stop();
        if let Some(sched) = self.sched.upgrade() {
            sched.ps().for_each(|p| p.recorder.stop());
        }
    }

    /// Returns what was recorded, with stamps in the place of times. The track of the threads without a P is
    /// the last one. The Ps go on during the call.
    pub fn read(&self) -> Vec<Track> {
        let mut tracks = self.read_on(&mut Reader::default(), true);
        // A snapshot has the stop now: no later part has it.
        for track in &mut tracks {
            track.events.extend(track.stop.take());
        }
        tracks
    }

    /// As `read`, but returns what was recorded since the last call with this reader. A stop that follows the
    /// last event comes with a later part. So does a spawn that is the last event, unless `is_last`: its
    /// place may be about to follow. *A lock orders the calls with one reader.*
    pub fn read_on(&self, reader: &mut Reader, is_last: bool) -> Vec<Track> {
        let naps = || self.asleep.clone().unwrap_or_else(|| self.naps());
        let (mut naps, mut tracks) = nap::read(naps, || self.read_tracks(reader, is_last));
        let sleep = naps.clone();
        naps.extend(tracks.iter().flat_map(|track| &track.events).filter_map(ended_nap));
        naps.retain(|nap| !reader.begun.contains(nap));
        show_naps(&mut tracks, naps, stamp());
        // A begin stands between events.
        if tracks.iter().any(|track| !track.events.is_empty()) {
            reader.begun = sleep;
        }
        tracks
    }

    fn read_tracks(&self, reader: &mut Reader, is_last: bool) -> Vec<Track> {
        reader.ps.resize(self.writers.len(), 0);
        let mut tracks = Vec::with_capacity(self.writers.len() + 1);
        for ((p, (writer, m)), next) in self.writers.iter().enumerate().zip(&mut reader.ps) {
            let (events, lost, stop) = read(writer, next, is_last);
            tracks.push(self.track(Some(p), events, lost, *m, stop));
        }
        let outside = self.outside.read(reader.outside);
        reader.outside = outside.end;
        tracks.push(self.track(None, outside.events, outside.lost, None, None));
        tracks
    }

    fn track(
        &self,
        p: Option<usize>,
        events: Vec<Recorded>,
        lost: u64,
        first_m: Option<usize>,
        stop: Option<Recorded>,
    ) -> Track {
        Track { rings: self.number, runtime: self.name.clone(), p, events, lost, first_m, stop }
    }

    /// Returns the sleeps that have not ended yet.
    fn naps(&self) -> Naps {
        let Some(sched) = self.sched.upgrade() else { return Naps::new() };
        let mut naps = Naps::new();
        sched.threads.look_at_all(|m| {
            let nap = m.sleep.nap.word();
            if nap.how().is_some() {
                naps.insert((m.number, nap));
            }
        });
        naps
    }
}

/// Returns the events of a writer from the position `next` on, with stamps in the place of times, how many
/// before them were lost, and the stop that follows them. Moves `next` behind them.
fn read(writer: &RingWriter, next: &mut u64, is_last: bool) -> (Vec<Recorded>, u64, Option<Recorded>) {
    let mut part = writer.read(*next);
    let near = stamp();
    *next = part.end;
    let is_spawn = |words: &mut Words| event::kind(*words) == Kind::Spawn;
    if !is_last && part.events.pop_if(is_spawn).is_some() {
        *next -= 1;
    }
    let recorded = |words| {
        let (id, argument) = event::rest(words);
        let at_ns = event::stamp(words, near);
        Recorded { at_ns, kind: event::kind(words), id, argument, m: None, by: None, place: None }
    };
    let mut events: Vec<Recorded> = Vec::with_capacity(part.events.len());
    for words in part.events {
        let kind = event::kind(words);
        if kind == Kind::SpawnPlace {
            let place = ptr::with_exposed_provenance::<Location<'static>>(words[1] as usize);
            if let Some(spawn) = events.last_mut().filter(|event| event.kind == Kind::Spawn) {
                // SAFETY: `RingWriter::spawns` wrote the address of a `&'static Location`, and a ring
                // returns whole events only.
                spawn.place = unsafe { place.as_ref() };
            }
            continue;
        }
        events.push(recorded(words));
    }
    (events, part.lost, part.stop.map(recorded))
}

/// Returns the sleep that ends with `event`, if one does.
fn ended_nap(event: &Recorded) -> Option<(usize, Word)> {
    let m = match event.kind {
        Kind::Take => event.argument.into(),
        Kind::MWake | Kind::NetReturn => event.m?,
        _ => return None,
    };
    Some((m, Word::of_number(event.id)))
}

/// Adds the begins and the ends of the sleeps in `naps` to the tracks of one runtime. The last track has the
/// events without a P.
fn show_naps(tracks: &mut [Track], mut naps: Naps, near: u64) {
    for track in &mut *tracks {
        for event in mem::take(&mut track.events) {
            let m = usize::from(event.argument);
            let of_m = |kind| Recorded { kind, id: 0, argument: 0, m: Some(m), ..event };
            let (mut ends, mut begins) = (None, None);
            match event.kind {
                Kind::Take => ends = Word::of_number(event.id).how().map(|how| of_m(how.ends())),
                Kind::Idle => {
                    let mut begun = |how: &SleepKind| naps.remove(&(m, Word::since(event.at_ns, *how)));
                    begins = [SleepKind::Parked, SleepKind::Polls]
                        .into_iter()
                        .find(&mut begun)
                        .map(|how| of_m(how.begins()));
                }
                _ => {}
            }
            track.events.extend(ends.into_iter().chain([event]).chain(begins));
        }
    }
    show_older_naps(tracks, naps, near);
}

/// Adds the begin of each sleep that lost its `Idle` to a later event.
fn show_older_naps(tracks: &mut [Track], naps: Naps, near: u64) {
    let Some(first) = tracks.iter().filter_map(|track| Some(track.events.first()?.at_ns)).min() else {
        return;
    };
    let begin = |(m, nap): (usize, Word)| {
        let at_ns = nap.stamp(near)?.max(first);
        let kind = nap.how()?.begins();
        Some(Recorded { at_ns, kind, id: 0, argument: 0, m: Some(m), by: None, place: None })
    };
    if let Some(outside) = tracks.last_mut() {
        outside.events.extend(naps.into_iter().filter_map(begin));
        outside.events.sort_by_key(|event| event.at_ns);
    }
}

/// Returns the words for the reason of a stop that parks.
pub fn reason(number: u8) -> &'static str {
    Why::of_number(number).words()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_is_shown_also_if_its_begin_was_overwritten() {
        let event = |at_ns, kind, id, argument| Recorded {
            at_ns,
            kind,
            id,
            argument,
            m: None,
            by: None,
            place: None,
        };
        let track = |p, events| Track {
            rings: 0,
            runtime: String::new(),
            p,
            events,
            lost: 1,
            first_m: None,
            stop: None,
        };
        let since = |at: u64, how| Word::since(at, how).number();
        let far = 1 << 50;
        let mut tracks = [
            track(
                Some(0),
                vec![
                    event(far + 20, Kind::Idle, 0, 3),
                    event(far + 30, Kind::Take, since(far + 20, SleepKind::Parked), 3),
                ],
            ),
            track(Some(1), vec![event(far + 12, Kind::Take, since(far + 11, SleepKind::Polls), 4)]),
            track(None, vec![event(far + 10, Kind::MStart, 0, 0), event(far + 40, Kind::MStop, 0, 0)]),
        ];
        let mut naps: Naps = tracks.iter().flat_map(|track| &track.events).filter_map(ended_nap).collect();
        // Two that still sleep: one since before all that is left, and one with an event for its begin.
        naps.insert((5, Word::since(far - 7, SleepKind::Parked)));
        naps.insert((6, Word::since(0, SleepKind::Polls)));
        show_naps(&mut tracks, naps, far + 100);
        let shown = tracks.map(|track| {
            let event = |event: Recorded| (event.at_ns - far, event.kind, event.m);
            track.events.into_iter().map(event).collect::<Vec<_>>()
        });
        let with_sleep = [
            (20, Kind::Idle, None),
            (20, Kind::MPark, Some(3)),
            (30, Kind::MWake, Some(3)),
            (30, Kind::Take, None),
        ];
        assert_eq!(shown[0], with_sleep);
        assert_eq!(shown[1], [(12, Kind::NetReturn, Some(4)), (12, Kind::Take, None)]);
        let outside = [
            (10, Kind::MStart, None),
            (10, Kind::MPark, Some(5)),
            (11, Kind::NetBlock, Some(4)),
            (40, Kind::MStop, None),
        ];
        assert_eq!(shown[2], outside);
    }
}
