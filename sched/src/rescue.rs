//! Rescues: Ps taken from green threads that kept them, counted and remembered, so that a user sees who it was.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::g::GRef;
use crate::sys::Doing;

/// How many are remembered.
const REMEMBERED: usize = 64;

/// One green thread whose P was taken because it had not come back for long.
#[derive(Clone, Debug)]
pub struct Rescue {
    /// Its id.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Where it was spawned.
    pub spawned_at: String,
    /// How long it had been away when its P was taken, to sysmon's knowledge.
    pub away: Duration,
    /// Whether it computed or was blocked, where the system tells.
    pub blocked: Option<bool>,
}

/// All of one runtime.
#[derive(Default)]
pub(crate) struct Rescues {
    last: Mutex<VecDeque<Rescue>>,
    pub(crate) computing: AtomicU64,
    pub(crate) blocked: AtomicU64,
    /// In `blocking`, by its own word.
    pub(crate) declared: AtomicU64,
}

impl Rescues {
    /// *Runs on: sysmon, which has just taken the P.*
    pub(crate) fn note(&self, g: Option<GRef>, away_ns: u64, doing: Doing) {
        let count = if doing == Doing::Blocked { &self.blocked } else { &self.computing };
        count.fetch_add(1, Ordering::Relaxed);
        // It runs on meanwhile and may even have ended: a reference, if there is still one to have, keeps the name.
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
        crate::wake::release(g);
        let mut last = self.last.lock();
        if last.len() == REMEMBERED {
            last.pop_front();
        }
        last.push_back(rescue);
    }

    pub(crate) fn last(&self) -> Vec<Rescue> {
        self.last.lock().iter().cloned().collect()
    }
}
