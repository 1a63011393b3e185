//! The flight recorder of the process: starts and stops the recording, and collects what was recorded.
//!
//! Each P has a ring of its own (`p/recorder.rs`). Events of threads without a P go to a list of their
//! runtime (`notes/outside.rs`).
//!
//! The rings of a recording stay readable after its stop, and after the end of their runtime, until the next
//! start.

#![allow(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::{io, mem, ptr};

use timers::clock;

use crate::asleep::nap::{self, Word};
use crate::asleep::rest::SleepKind;
use crate::g::table;
use crate::g::why::Why;
use crate::m::release::release;
use crate::notes::outside::Outside;
pub use crate::notes::outside::Recorded;
use crate::p::Held;
use crate::p::event::{self, Kind};
use crate::p::lease::State;
use crate::p::recorder::{RingWriter, kept_names};
use crate::run::boundary::enter;
use crate::run::sched::Sched;
use crate::sync::Mutex;
use crate::sys::{fork, stamp};

/// How many places the ring of a P may have.
pub const ALLOWED_EVENTS: std::ops::RangeInclusive<usize> = 64..=1 << 24;
/// How many ended runtimes of one recording stay readable.
const ENDED_RUNTIMES: usize = 8;

/// What one runtime has recorded.
#[derive(Debug)]
pub struct Track {
    /// The name of its OS threads.
    pub runtime: String,
    /// The index of the P; `None` for events of threads without a P.
    pub p: Option<usize>,
    /// The events, the oldest first.
    pub events: Vec<Recorded>,
    /// How many older events were overwritten.
    pub lost: u64,
    /// The M that had the P when the recording began.
    pub first_m: Option<usize>,
}

/// All that the rings have at one moment.
#[derive(Debug)]
pub struct Collected {
    /// The rings of each runtime, one runtime after the other.
    pub tracks: Vec<Track>,
    /// For how long it has been recorded, in ns.
    pub ns: u64,
    /// The names of green threads, as far as they are known.
    pub names: HashMap<u64, Box<str>>,
    /// Where the green threads that live were spawned.
    pub places: HashMap<u64, &'static Location<'static>>,
}

/// What a trigger was pulled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// A green thread has panicked.
    Panic,
    /// Sysmon has taken the P of a green thread that kept it.
    Hog,
    /// A timer has fired later than the bound.
    Late,
}

/// A moment in stamps and on the runtime's clock.
#[derive(Clone, Copy)]
struct Moment {
    stamp: u64,
    ns: u64,
}

impl Moment {
    fn now() -> Moment {
        Moment { stamp: stamp(), ns: clock::now() }
    }
}

/// One recording.
struct Recording {
    on: bool,
    /// Distinguishes it from others of the process.
    number: u64,
    /// True once the program has asked for it: the end of the last share does not stop it.
    of_program: bool,
    /// How many `Share`s there are in it.
    shares: usize,
    events: usize,
    since: Moment,
    sources: Vec<Source>,
}

/// The rings of one runtime.
struct Source {
    sched: Weak<Sched>,
    name: String,
    outside: Arc<Outside>,
    /// By the index of the P, each with the M that had the P when it began to record.
    writers: Vec<(Arc<RingWriter>, Option<usize>)>,
    /// The sleeps that had not ended when the recording stopped.
    asleep: Naps,
}

static RECORDING: Mutex<Option<Recording>> = Mutex::new(None);
static ON: AtomicBool = AtomicBool::new(false);

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
pub fn start(events: usize) -> io::Result<bool> {
    begin_unless_on(events, |recording, has_begun| {
        recording.of_program = true;
        has_begun
    })
}

/// Takes part in the recording that is on, or starts one that lasts as long as its shares.
///
/// # Errors
/// Those of `start`.
pub fn share(events: usize) -> io::Result<Share> {
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
    let mut guard = RECORDING.lock();
    if let Some(recording) = guard.as_mut().filter(|recording| recording.on) {
        return Ok(asks(recording, false));
    }
    let number = guard.as_ref().map_or(0, |before| before.number + 1);
    let recording = guard.insert(Recording::new(number, events.next_power_of_two()));
    let asked = asks(recording, true);
    ON.store(true, Ordering::Relaxed);
    for sched in Sched::all() {
        recording.add(&sched);
    }
    // To leave the runtime again may take a wait for a P.
    drop(guard);
    if let Some(entered) = enter()
        && let Some((held, g)) = entered.held().zip(entered.m().running())
    {
        // The caller runs already. Other Ps notice the recording by themselves.
        held.look_for_recorder();
        entered.m().on_run(held, g.shared());
    }
    Ok(asked)
}

/// Stops the recording. What it has recorded stays until the next start. Returns `false` if none was on.
pub fn stop() -> bool {
    let mut recording = RECORDING.lock();
    recording.as_mut().is_some_and(Recording::stop)
}

/// Returns `true` while a recording is on.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Returns what the current or the last recording has recorded; `None` if there was none. The Ps go on during
/// the call.
pub fn collect() -> Option<Collected> {
    fork::check().ok()?;
    let guard = RECORDING.lock();
    let recording = guard.as_ref()?;
    // The rings are read one after the other while the Ps go on. Later events are left out: they may have a
    // cause that the ring read first had not yet.
    let until = stamp();
    let mut tracks = Vec::new();
    for source in &recording.sources {
        let naps = || if recording.on { source.naps() } else { source.asleep.clone() };
        let (mut naps, mut read) = nap::read(naps, || recording.read_tracks(source));
        naps.extend(read.iter().flat_map(|track| &track.events).filter_map(ended_nap));
        show_naps(&mut read, naps, stamp());
        tracks.extend(read);
    }
    // After the reads: no stamp is later than this moment.
    let now = Moment::now();
    for track in &mut tracks {
        track.events.retain_mut(|event| event.at_ns <= until && recording.set_time(event, now));
    }
    let ns = now.ns - recording.since.ns;
    drop(guard);
    let (names, places) = threads();
    Some(Collected { tracks, ns, names, places })
}

/// The sleeps of Ms, each with the number of its M (`asleep/nap.rs`).
type Naps = HashSet<(usize, Word)>;

impl Source {
    /// Returns the sleeps that have not ended yet.
    fn naps(&self) -> Naps {
        let Some(sched) = self.sched.upgrade() else { return Naps::new() };
        let ms = sched.threads.lock();
        ms.all()
            .iter()
            .map(|m| (m.number, m.sleep.nap.word()))
            .filter(|(_, nap)| nap.how().is_some())
            .collect()
    }
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
        for event in std::mem::take(&mut track.events) {
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

impl Recording {
    fn new(number: u64, events: usize) -> Recording {
        let (since, sources) = (Moment::now(), Vec::new());
        Recording { on: true, number, of_program: false, shares: 0, events, since, sources }
    }

    /// Stops it. Returns `false` if it was stopped before.
    fn stop(&mut self) -> bool {
        if !mem::take(&mut self.on) {
            return false;
        }
        ON.store(false, Ordering::Relaxed);
        for source in &mut self.sources {
            source.asleep = source.naps();
            source.outside.stop();
            if let Some(sched) = source.sched.upgrade() {
                sched.ps().for_each(|p| p.recorder.stop());
            }
        }
        true
    }

    /// Lets each P of `sched` record that does not yet.
    fn add(&mut self, sched: &Sched) {
        let outside = &sched.outside;
        let known = self.sources.iter().position(|source| Arc::ptr_eq(&source.outside, outside));
        let known = known.unwrap_or_else(|| {
            self.forget_ended();
            outside.start((self.events / 4).max(256));
            let (sched, name) = (sched.weak(), sched.config().thread_name.clone());
            self.sources.push(Source {
                sched,
                name,
                outside: outside.clone(),
                writers: Vec::new(),
                asleep: Naps::new(),
            });
            self.sources.len() - 1
        });
        let source = &mut self.sources[known];
        for p in sched.ps().skip(source.writers.len()) {
            let writer = p.recorder.start(self.events, self.since.stamp);
            // After the start, which may take long: from here on an event records a change of the M.
            let m = p.holder().filter(|_| p.look().state() != State::Idle).map(|m| m.number);
            source.writers.push((writer, m));
        }
    }

    /// Forgets the oldest of the ended runtimes, if there are many.
    fn forget_ended(&mut self) {
        let ended = |source: &Source| source.sched.strong_count() == 0;
        if self.sources.iter().filter(|source| ended(source)).count() >= ENDED_RUNTIMES
            && let Some(first) = self.sources.iter().position(ended)
        {
            self.sources.remove(first);
        }
    }

    /// Returns what a runtime has recorded, with stamps in the place of times.
    fn read_tracks(&self, source: &Source) -> Vec<Track> {
        let track = |p, (events, lost), first_m| {
            let runtime = source.name.clone();
            Track { runtime, p, events, lost, first_m }
        };
        let of_ps = source.writers.iter().enumerate();
        let of_ps = of_ps.map(|(p, (writer, m))| track(Some(p), self.read(writer), *m));
        of_ps.chain([track(None, source.outside.read(), None)]).collect()
    }

    /// Returns the events of a writer, with stamps in the place of times.
    fn read(&self, writer: &RingWriter) -> (Vec<Recorded>, u64) {
        let (words, lost) = writer.read();
        let near = stamp();
        let mut events: Vec<Recorded> = Vec::with_capacity(words.len());
        for words in words {
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
            let (id, argument) = event::rest(words);
            let at_ns = event::stamp(words, near);
            events.push(Recorded { at_ns, kind, id, argument, m: None, by: None, place: None });
        }
        (events, lost)
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

/// Returns the words for the reason of a stop that parks.
pub fn reason(number: u8) -> &'static str {
    Why::of_number(number).words()
}

/// Returns the names and the places of green threads.
fn threads() -> (HashMap<u64, Box<str>>, HashMap<u64, &'static Location<'static>>) {
    let (mut names, mut places) = (HashMap::new(), HashMap::new());
    kept_names(|id, name| _ = names.insert(id, Box::from(name)));
    for g in table::all() {
        // A reference keeps the name.
        if g.life.try_retain() {
            if g.is_green() {
                places.extend(g.place().map(|place| (g.id(), place)));
                names.extend(g.name().map(|name| (g.id(), Box::from(name))));
            }
            release(g);
        }
    }
    (names, places)
}

impl Sched {
    /// Lets new Ps record, if a recording is on. *Runs on: the thread that has made them.*
    pub(crate) fn join_recording(&self) {
        if let Some(recording) = RECORDING.lock().as_mut().filter(|recording| recording.on) {
            recording.add(self);
        }
    }
}

static PULLED: OnceLock<fn(Trigger)> = OnceLock::new();
/// A timer that fires later than this pulls the trigger, in ns.
static LATE_NS: AtomicU64 = AtomicU64::new(u64::MAX);

/// Sets what is called when a trigger is pulled while a recording is on. The first call counts. `pulled` runs
/// on a green thread, on sysmon or on an M's own stack, and returns at once.
pub fn set_triggered(pulled: fn(Trigger)) {
    let _ = PULLED.set(pulled);
}

/// Sets how late a timer may fire without pulling the trigger, in ns.
pub fn set_late_bound(ns: u64) {
    LATE_NS.store(ns, Ordering::Relaxed);
}

/// Pulls the trigger.
#[cold]
pub(crate) fn pull(trigger: Trigger) {
    if is_on()
        && let Some(pulled) = PULLED.get()
    {
        pulled(trigger);
    }
}

/// Records that `fired` timers of P `of` have fired, the first of which was `late_ns` late. *Runs on: the
/// holder of `held`.*
#[cold]
#[inline(never)]
pub(crate) fn notes_fired(held: Held<'_>, of: usize, fired: u64, late_ns: u64) {
    let late_us = (late_ns / 1000).min(u64::from(u32::MAX));
    if of == held.index {
        held.notes_moment(Kind::TimersFired, late_us, fired as usize);
    } else {
        held.notes_moment(Kind::TimersStolen, (of as u64) << 32 | late_us, fired as usize);
    }
    if late_ns > LATE_NS.load(Ordering::Relaxed) {
        pull(Trigger::Late);
    }
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
        let track = |p, events| Track { runtime: String::new(), p, events, lost: 1, first_m: None };
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
