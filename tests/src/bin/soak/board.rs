//! The board: what each actor does and since when, and how often each operation was begun, finished and
//! interrupted.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::ops::OPS;

/// The number of seats. Further actors are not shown.
const PLACES: usize = 8192;
/// The unit of time on the board: a tick of the watchdog. While the whole machine stands still, no tick
/// counts against an actor.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// What an actor does while it performs no operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Other {
    Nothing,
    Desk,
    Ring,
    Echo,
    Round,
    CrewEnds,
    AllEnd,
    AllDrops,
    RuntimeEnds,
    BaseIsBack,
}

/// The printed names, in the order of [`Other`].
const OTHERS: [&str; 10] = [
    "(between operations)",
    "(desk)",
    "(ring)",
    "(echo server)",
    "(round)",
    "(end of a round: desk, ring and echo server end)",
    "(end of a round: all that was spawned ends)",
    "(end of a round: all is dropped)",
    "(end of a round: the runtime ends)",
    "(end of a round: threads and descriptors are as before)",
];

const UNUSED: u32 = u32::MAX;

struct Seat {
    /// The number of the operation or of the [`Other`]; `UNUSED` if the seat is free.
    what: AtomicU32,
    since: AtomicU64,
    /// The place of the actor's spawner, or the seat's own place.
    of: AtomicU32,
    /// True while the actor may wait without limit.
    waits: AtomicBool,
}

static SEATS: [Seat; PLACES] = [const {
    Seat {
        what: AtomicU32::new(UNUSED),
        since: AtomicU64::new(0),
        of: AtomicU32::new(UNUSED),
        waits: AtomicBool::new(false),
    }
}; PLACES];
static FREE: Mutex<Free> = Mutex::new(Free { given: 0, back: Vec::new() });
static NOW: AtomicU64 = AtomicU64::new(0);

struct Free {
    given: u32,
    back: Vec<u32>,
}

/// How often an operation was performed.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) begun: AtomicU64,
    pub(crate) finished: AtomicU64,
    pub(crate) interrupted: AtomicU64,
    pub(crate) longest_ms: AtomicU64,
}

impl Counts {
    const fn new() -> Counts {
        let [begun, finished, interrupted, longest_ms] = [const { AtomicU64::new(0) }; 4];
        Counts { begun, finished, interrupted, longest_ms }
    }
}

/// The counts of each operation, by its number in [`OPS`].
pub(crate) static COUNTS: [Counts; 128] = [const { Counts::new() }; 128];
const _: () = assert!(OPS.len() <= COUNTS.len());

/// Returns the number of operations finished so far.
pub(crate) fn finished() -> u64 {
    COUNTS.iter().map(|counts| counts.finished.load(Relaxed)).sum()
}

/// Counts a tick of the watchdog.
pub(crate) fn tick() {
    NOW.fetch_add(1, Relaxed);
}

fn name(what: u32) -> &'static str {
    let names = OPS.iter().map(|op| op.name).chain(OTHERS);
    names.into_iter().nth(what as usize).unwrap_or("(gone)")
}

/// The seat of an actor, where the watchdog sees what the actor does.
#[derive(Debug)]
pub(crate) struct Place(Option<u32>);

impl Place {
    /// Takes a place for an actor that works on behalf of the place `of`, or of itself.
    pub(crate) fn take(of: Option<u32>) -> Place {
        let place = {
            let mut free = FREE.lock().unwrap();
            let fresh = (free.given < PLACES as u32).then_some(free.given);
            free.back.pop().or_else(|| fresh.inspect(|_| free.given += 1))
        };
        if let Some(place) = place {
            SEATS[place as usize].of.store(of.unwrap_or(place), Relaxed);
            Place(Some(place)).is(Other::Nothing)
        } else {
            Place(None)
        }
    }

    fn is(self, other: Other) -> Place {
        self.works(other);
        self
    }

    fn does(&self, what: usize, waits: bool) {
        if let Some(place) = self.0 {
            let seat = &SEATS[place as usize];
            seat.since.store(NOW.load(Relaxed), Relaxed);
            seat.waits.store(waits, Relaxed);
            seat.what.store(what as u32, Relaxed);
        }
    }

    /// Records that the actor does `other` from now on, which must not last.
    pub(crate) fn works(&self, other: Other) {
        self.does(OPS.len() + other as usize, false);
    }

    /// Records that the actor does `other` from now on, and may wait for others without limit.
    pub(crate) fn rests(&self, other: Other) {
        self.does(OPS.len() + other as usize, true);
    }

    pub(crate) fn number(&self) -> Option<u32> {
        self.0
    }

    /// Records that an operation begins. It ends when the returned value is dropped.
    pub(crate) fn begins(&self, op: usize) -> Doing {
        COUNTS[op].begun.fetch_add(1, Relaxed);
        let before = self.0.map_or((0, 0), |place| {
            let seat = &SEATS[place as usize];
            (seat.what.load(Relaxed), seat.since.load(Relaxed))
        });
        self.does(op, false);
        Doing { place: self.0, op, before, start: Instant::now(), finished: false }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            SEATS[place as usize].what.store(UNUSED, Relaxed);
            FREE.lock().unwrap().back.push(place);
        }
    }
}

/// An operation in progress. It may be within another operation of the same actor.
pub(crate) struct Doing {
    place: Option<u32>,
    op: usize,
    before: (u32, u64),
    start: Instant,
    finished: bool,
}

impl Doing {
    /// Records that the operation ran to its end.
    pub(crate) fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Doing {
    fn drop(&mut self) {
        let counts = &COUNTS[self.op];
        counts.longest_ms.fetch_max(self.start.elapsed().as_millis() as u64, Relaxed);
        if self.finished { &counts.finished } else { &counts.interrupted }.fetch_add(1, Relaxed);
        if let Some(place) = self.place {
            let seat = &SEATS[place as usize];
            let (what, since) = self.before;
            // Between operations the clock starts anew. An enclosing operation keeps its start.
            let since = if what as usize >= OPS.len() { NOW.load(Relaxed) } else { since };
            seat.since.store(since, Relaxed);
            seat.what.store(what, Relaxed);
        }
    }
}

/// Returns the place of an actor that has done the same thing for longer than `patience`.
pub(crate) fn who_hangs(patience: Duration) -> Option<u32> {
    (0..PLACES as u32).find(|&place| {
        let seat = &SEATS[place as usize];
        let busy = seat.what.load(Relaxed) != UNUSED && !seat.waits.load(Relaxed);
        busy && age(seat) > patience
    })
}

fn age(seat: &Seat) -> Duration {
    TICK * NOW.load(Relaxed).saturating_sub(seat.since.load(Relaxed)) as u32
}

/// Prints what the actors do, the longest first, `most` lines at most.
pub(crate) fn print(most: usize) {
    let mut busy: Vec<_> =
        SEATS.iter().enumerate().filter(|(_, seat)| seat.what.load(Relaxed) != UNUSED).collect();
    busy.sort_by_key(|(_, seat)| std::cmp::Reverse(age(seat)));
    eprintln!("{} at work:", busy.len());
    for (place, seat) in busy.iter().take(most) {
        let (of, what) = (seat.of.load(Relaxed), name(seat.what.load(Relaxed)));
        let of = if of as usize == *place { String::new() } else { format!(" for {of}") };
        let waits = if seat.waits.load(Relaxed) { ", waits for work" } else { "" };
        eprintln!("  {place:4}{of}: {what}, since {:.1} s{waits}", age(seat).as_secs_f64());
    }
}
