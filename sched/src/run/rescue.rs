//! Rescues: records each P that sysmon took from a green thread that kept it, so that the user can find that green thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::g::GRef;
use crate::m::release::release;
use crate::sys::Doing;

/// How many rescues are remembered.
const REMEMBERED: usize = 64;

/// One green thread whose P was taken because it had not entered the runtime for long.
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

/// All rescues of one runtime.
#[derive(Default)]
pub(crate) struct Rescues {
    last: Mutex<VecDeque<Rescue>>,
    computing: AtomicU64,
    blocked: AtomicU64,
    /// Ps taken from Gs in `blocking`.
    declared: AtomicU64,
    /// Ps given up because sysmon had asked for them.
    asked: AtomicU64,
}

impl Rescues {
    /// Records a rescue. *Runs on: sysmon, which has just taken the P.*
    pub(crate) fn note(&self, g: Option<GRef>, away_ns: u64, doing: Doing) {
        let count = if doing == Doing::Blocked { &self.blocked } else { &self.computing };
        count.fetch_add(1, Ordering::Relaxed);
        // The G runs on meanwhile and may even have ended. A reference, if it can be had, keeps its name.
        let Some(g) = g.filter(|g| g.life.try_retain()) else { return };
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
        last.push_back(rescue);
    }

    /// Counts a P taken from a green thread in `blocking`. *Runs on: sysmon, or the M that gives the P up.*
    pub(crate) fn note_declared(&self) {
        self.declared.fetch_add(1, Ordering::Relaxed);
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

    /// Returns how many Ps were taken from green threads that were blocked, unannounced.
    pub(crate) fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Returns how many Ps were taken from green threads that computed, or of which the system does not tell.
    pub(crate) fn computing(&self) -> u64 {
        self.computing.load(Ordering::Relaxed)
    }

    /// Returns the last rescues, the oldest first.
    pub(crate) fn last(&self) -> Vec<Rescue> {
        self.last.lock().iter().cloned().collect()
    }
}
