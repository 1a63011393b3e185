//! The recordings of the process: starts and stops them, and collects what was recorded. The rings, and what
//! is written into them, are in `sched`.
//!
//! The rings of a recording stay readable until the next start.

use std::collections::HashMap;
use std::panic::Location;
use std::{io, mem};

use sched::recorder::{self, Recorded, Rings, Track, stamp};
use sched::sync::Mutex;
use sched::user_events::{Texts, name_of_labels};
use sched::{Sched, fork};

/// How many places the ring of a P may have.
const ALLOWED_EVENTS: std::ops::RangeInclusive<usize> = 64..=1 << 24;
/// How many ended runtimes of one recording stay readable.
const ENDED_RUNTIMES: usize = 8;

/// All that the rings have at one moment.
#[derive(Debug)]
pub(super) struct Collected {
    /// The rings of each runtime, one runtime after the other.
    pub(super) tracks: Vec<Track>,
    /// For how long it has been recorded, in ns.
    pub(super) ns: u64,
    /// The green threads that live, or have ended lately.
    pub(super) known: Known,
    /// The texts of the user's events.
    pub(super) texts: Texts,
}

/// What is known of green threads without their events, by their ids.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The names, as far as they are known.
    pub(super) names: HashMap<u64, Box<str>>,
    /// Where the living ones were spawned.
    pub(super) places: HashMap<u64, &'static Location<'static>>,
    /// The names that stand for the labels of the living ones.
    pub(super) labels: HashMap<u64, u16>,
}

/// A moment in stamps and on the runtime's clock.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) stamp: u64,
    pub(super) ns: u64,
}

impl Moment {
    pub(super) fn now() -> Moment {
        Moment { stamp: stamp(), ns: sched::recorder::now() }
    }
}

/// One recording.
pub(super) struct Recording {
    on: bool,
    /// Distinguishes it from others of the process.
    number: u64,
    /// True once the program has asked for it: the end of the last share does not stop it.
    of_program: bool,
    /// How many `Share`s there are in it.
    shares: usize,
    pub(super) events: usize,
    since: Moment,
    /// The labels of the green threads that lived at its start.
    labels: HashMap<u64, u16>,
    pub(super) rings: Vec<Rings>,
}

pub(super) static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);

/// A share in a recording. With the drop of the last share the recording stops, unless the program has asked
/// for it.
#[derive(Debug)]
pub struct Share {
    number: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut recording = RECORDING.lock();
        // The program may have stopped that recording, and another one may have begun.
        let Some(recording) = recording.as_mut().filter(|recording| recording.number == self.number) else {
            return;
        };
        recording.shares -= 1;
        if recording.shares == 0 && !recording.of_program {
            recording.stop();
        }
    }
}

/// Starts a recording with a ring of at least `events` places for each P, in all runtimes of the process,
/// those to come included. Returns `false` if one is on already; it goes on as it is, until `stop`.
///
/// # Errors
/// Fails with `InvalidInput` if that many events are not allowed, and in a forked child.
pub(super) fn start(events: usize) -> io::Result<bool> {
    begin_unless_on(events, |recording, has_begun| {
        recording.of_program = true;
        has_begun
    })
}

/// Takes part in the recording that is on, or starts one that lasts as long as its shares.
///
/// # Errors
/// Those of `start`.
pub(super) fn share(events: usize) -> io::Result<Share> {
    begin_unless_on(events, |recording, _| {
        recording.shares += 1;
        Share { number: recording.number }
    })
}

/// Calls `asks` with the recording that is on. Begins one if none is on, and then passes `true`.
fn begin_unless_on<T>(events: usize, asks: impl FnOnce(&mut Recording, bool) -> T) -> io::Result<T> {
    if !ALLOWED_EVENTS.contains(&events) {
        let (least, most) = (ALLOWED_EVENTS.start(), ALLOWED_EVENTS.end());
        let text = format!("a ring of {events} events: from {least} to {most} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    fork::check()?;
    recorder::set_new_ps(join);
    let mut guard = RECORDING.lock();
    if let Some(recording) = guard.as_mut().filter(|recording| recording.on) {
        return Ok(asks(recording, false));
    }
    let number = guard.as_ref().map_or(0, |before| before.number + 1);
    let recording = guard.insert(Recording::new(number, events.next_power_of_two()));
    let asked = asks(recording, true);
    recorder::set_on(true);
    for sched in Sched::all() {
        recording.add(&sched);
    }
    // From here on a change has an event.
    recording.labels = labels();
    drop(guard);
    recorder::notice();
    Ok(asked)
}

/// Stops the recording. What it has recorded stays until the next start. Returns `false` if none was on.
pub(super) fn stop() -> bool {
    let mut recording = RECORDING.lock();
    recording.as_mut().is_some_and(Recording::stop)
}

/// Returns what the current or the last recording has recorded; `None` if there was none. The Ps go on during
/// the call.
pub(super) fn collect() -> Option<Collected> {
    fork::check().ok()?;
    let guard = RECORDING.lock();
    let recording = guard.as_ref()?;
    // Before the reads: a later change of labels has an event in what is read.
    let mut known = Known::now();
    // A recording that has ended has no event of a later change.
    known.labels.retain(|_, _| recording.on);
    // The rings are read one after the other while the Ps go on. Later events are left out: they may have a
    // cause that the ring read first had not yet.
    let until = stamp();
    let mut tracks: Vec<Track> = recording.rings.iter().flat_map(Rings::read).collect();
    // After the reads: no stamp is later than this moment.
    let now = Moment::now();
    for track in &mut tracks {
        track.events.retain_mut(|event| event.at_ns <= until && recording.set_time(event, now));
    }
    let ns = now.ns - recording.since.ns;
    if tracks.iter().all(|track| track.lost == 0) {
        // No event of a change is missing, so these are the labels of ended ones, too.
        recording.labels.iter().for_each(|(&id, &labels)| _ = known.labels.entry(id).or_insert(labels));
    }
    drop(guard);
    // The names of newer ones.
    recorder::kept_names(0, |id, name| _ = known.names.entry(id).or_insert_with(|| name.into()));
    Some(Collected { tracks, ns, known, texts: Texts::now() })
}

impl Recording {
    fn new(number: u64, events: usize) -> Recording {
        let (since, labels, rings) = (Moment::now(), HashMap::new(), Vec::new());
        Recording { on: true, number, of_program: false, shares: 0, events, since, labels, rings }
    }

    /// Stops it. Returns `false` if it was stopped before.
    fn stop(&mut self) -> bool {
        if !mem::take(&mut self.on) {
            return false;
        }
        recorder::set_on(false);
        self.rings.iter_mut().for_each(Rings::stop);
        true
    }

    /// Lets each P of `sched` record that does not yet.
    fn add(&mut self, sched: &Sched) {
        let known = self.rings.iter().position(|rings| rings.is_of(sched));
        let known = known.unwrap_or_else(|| {
            self.forget_ended();
            self.rings.push(Rings::start(sched, self.events));
            self.rings.len() - 1
        });
        self.rings[known].add_ps(sched, self.events, self.since.stamp);
    }

    /// Forgets the oldest of the ended runtimes, if there are many.
    fn forget_ended(&mut self) {
        if self.rings.iter().filter(|rings| rings.has_ended()).count() >= ENDED_RUNTIMES
            && let Some(first) = self.rings.iter().position(Rings::has_ended)
        {
            self.rings.remove(first);
        }
    }

    /// Turns the stamp of `event` into its time. Returns `false` if the event belongs to an earlier
    /// recording.
    fn set_time(&self, event: &mut Recorded, now: Moment) -> bool {
        let Some(stamps) = event.at_ns.checked_sub(self.since.stamp) else { return false };
        let (all, ns) = (now.stamp.saturating_sub(self.since.stamp).max(1), now.ns - self.since.ns);
        let exact = u128::from(stamps.min(all)) * u128::from(ns) / u128::from(all);
        event.at_ns = exact as u64;
        true
    }
}

/// Lets new Ps of a runtime record, if a recording is on.
fn join(sched: &Sched) {
    if let Some(recording) = RECORDING.lock().as_mut().filter(|recording| recording.on) {
        recording.add(sched);
    }
}

impl Known {
    /// Returns what is known now.
    pub(super) fn now() -> Known {
        let (mut names, mut places) = (HashMap::new(), HashMap::new());
        recorder::kept_names(0, |id, name| _ = names.insert(id, Box::from(name)));
        sched::look_at_living(|g| {
            places.extend(g.place.map(|place| (g.id, place)));
            names.extend(g.name.map(|name| (g.id, Box::from(name))));
        });
        Known { names, places, labels: labels() }
    }
}

/// Returns the names that stand for the labels of the green threads that live.
fn labels() -> HashMap<u64, u16> {
    let mut labels = HashMap::new();
    sched::look_at_living(|g| {
        labels.extend(g.labels.as_deref().map(|labels| (g.id, name_of_labels(Some(labels)))));
    });
    labels
}
