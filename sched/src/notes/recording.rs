//! Whether the flight recorder is on, and its triggers (`watch/recorder.rs`).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::p::Held;
use crate::p::event::Kind;

static ON: AtomicBool = AtomicBool::new(false);

/// Returns `true` while a recording is on.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Says whether a recording is on.
pub fn set_on(on: bool) {
    ON.store(on, Ordering::Relaxed);
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
