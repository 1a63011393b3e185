//! Rescues: records each P that sysmon took from a green thread that kept it, so that the user can find that
//! green thread.

use std::collections::{HashMap, VecDeque};
use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::g::GRef;
use crate::m::release::release;
use crate::sync::Mutex;
use crate::sys::Doing;

/// How many rescues are remembered.
const REMEMBERED: usize = 64;

/// One green thread that lost its P because it had not entered the runtime for long.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rescue {
    /// The id of the green thread.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: String,
    /// How long it had kept its P when the P was taken, as far as sysmon knows.
    pub away: Duration,
    /// `Some(true)` if it was blocked, `Some(false)` if it computed, `None` if the system does not say.
    pub blocked: Option<bool>,
}

/// The rescues of the green threads of one spawn place.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RescuesAt {
    /// The place of the spawn; `None` for green threads that the runtime started for itself.
    pub place: Option<&'static Location<'static>>,
    /// Rescues of green threads that computed, or of which the system does not say what they did.
    pub computing: u64,
    /// Rescues of green threads that were blocked.
    pub blocked: u64,
    /// How long they had kept their Ps in all when these were taken.
    pub away: Duration,
    /// When the last one was reported.
    reported: Option<Instant>,
}

/// How long after one report the next of the same place may come.
const REPORT_AGAIN: Duration = Duration::from_secs(1);

/// All rescues of one runtime.
#[derive(Default)]
pub(crate) struct Rescues {
    last: Mutex<VecDeque<Rescue>>,
    /// By value: one place in the source may have several addresses.
    places: Mutex<HashMap<Option<&'static Location<'static>>, RescuesAt>>,
    computing: AtomicU64,
    blocked: AtomicU64,
    /// Ps taken from Gs in `blocking`.
    declared: AtomicU64,
    /// Ps that Gs handed off at the beginning of `blocking`.
    handed_off: AtomicU64,
    /// Ps given up because sysmon had asked for them.
    asked: AtomicU64,
}

impl Rescues {
    /// Records a rescue. Returns it if it is to be reported. *Runs on: sysmon, which has just taken the P, or
    /// the M that gives it up.*
    pub(crate) fn note(&self, g: Option<GRef>, away_ns: u64, doing: Doing) -> Option<(GRef, Rescue)> {
        let count = if doing == Doing::Blocked { &self.blocked } else { &self.computing };
        count.fetch_add(1, Ordering::Relaxed);
        // The G runs on and may even have ended. A reference, if it can be had, keeps its name.
        let g = g.filter(|g| g.life.try_retain())?;
        let reports = self.note_place(g.place(), away_ns, doing);
        let rescue = Rescue {
            id: g.id(),
            name: g.name().map(Into::into),
            spawned_at: g.place().map(|p| format!("{}:{}", p.file(), p.line())).unwrap_or_default(),
            away: Duration::from_nanos(away_ns),
            blocked: match doing {
                Doing::Computing => Some(false),
                Doing::Blocked => Some(true),
                Doing::Unknown => None,
            },
        };
        release(g);
        let mut last = self.last.lock();
        if last.len() == REMEMBERED {
            last.pop_front();
        }
        last.push_back(rescue.clone());
        reports.then_some((g, rescue))
    }

    /// Counts a rescue by its place. Returns `true` if it is to be reported: one of each place in a second.
    fn note_place(&self, place: Option<&'static Location<'static>>, away_ns: u64, doing: Doing) -> bool {
        let mut places = self.places.lock();
        let at = places.entry(place).or_insert_with(|| RescuesAt { place, ..RescuesAt::default() });
        *if doing == Doing::Blocked { &mut at.blocked } else { &mut at.computing } += 1;
        at.away += Duration::from_nanos(away_ns);
        let due = at.reported.is_none_or(|last| last.elapsed() >= REPORT_AGAIN);
        if due {
            at.reported = Some(Instant::now());
        }
        due
    }

    /// Returns the rescues by place, the most frequent first.
    pub(crate) fn by_place(&self) -> Vec<RescuesAt> {
        let mut places: Vec<_> = self.places.lock().values().cloned().collect();
        places.sort_by_key(|at| std::cmp::Reverse(at.computing + at.blocked));
        places
    }

    /// Counts a P taken from a green thread in `blocking`. *Runs on: sysmon, or the M that gives the P up.*
    pub(crate) fn note_declared(&self) {
        self.declared.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a P that a green thread hands off as it begins `blocking`. *Runs on: its M.*
    pub(crate) fn note_handed_off(&self) {
        self.handed_off.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a P that its M gives up because sysmon has asked for it. *Runs on: that M.*
    pub(crate) fn note_asked(&self) {
        self.asked.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many Ps were given up because sysmon had asked for them.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns how many Ps were taken from green threads in `blocking`.
    pub(crate) fn declared(&self) -> u64 {
        self.declared.load(Ordering::Relaxed)
    }

    /// Returns how many Ps green threads handed off at the beginning of `blocking`.
    pub(crate) fn handed_off(&self) -> u64 {
        self.handed_off.load(Ordering::Relaxed)
    }

    /// Returns how many Ps were taken from green threads that were blocked, unannounced.
    pub(crate) fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Returns how many Ps were taken from green threads that computed. These include green threads of which
    /// the system does not say what they did.
    pub(crate) fn computing(&self) -> u64 {
        self.computing.load(Ordering::Relaxed)
    }

    /// Returns the last rescues, the oldest first.
    pub(crate) fn last(&self) -> Vec<Rescue> {
        self.last.lock().iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_with_several_addresses_is_one_place() {
        let here = Location::caller();
        static COPY: std::sync::OnceLock<Location<'static>> = std::sync::OnceLock::new();
        let copy = COPY.get_or_init(|| *here);
        assert!(!std::ptr::eq(here, copy) && here == copy);
        let rescues = Rescues::default();
        assert!(rescues.note_place(Some(here), 5, Doing::Computing));
        assert!(!rescues.note_place(Some(copy), 7, Doing::Blocked), "one report of each place in a second");
        let [at] = &rescues.by_place()[..] else { panic!("{:?}", rescues.by_place()) };
        assert_eq!((at.computing, at.blocked, at.away), (1, 1, Duration::from_nanos(12)));
    }
}
