//! Events of the user's code in the flight recorder: tasks, regions and messages. They lie in the ring of the
//! P, between the scheduler's own events.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::notes::recording;
pub use crate::notes::texts::{NO_LABELS, Texts, name_of_labels};
use crate::notes::texts::{keep, number_of};
use crate::p::event::Kind;
use crate::run::boundary::enter;

/// The number of the next task. From 1, because 0 stands for none.
static NEXT_TASK: AtomicU64 = AtomicU64::new(1);

/// A stretch of code of a green thread that is recorded: a region, or a task.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    ends: Kind,
    number: u64,
    name: u16,
}

impl Stretch {
    /// Records the begin of a region of the calling green thread; `None` if no recording is on. *Runs on: any
    /// thread, in user code. What a plain OS thread does is not recorded.*
    pub fn region(name: &str) -> Option<Stretch> {
        begin(name, Kind::RegionBegin, Kind::RegionEnd, || 0)
    }

    /// As `region`, for a task. Its number is one of its own. Relaxed: only the number counts.
    pub fn task(name: &str) -> Option<Stretch> {
        begin(name, Kind::TaskBegin, Kind::TaskEnd, || NEXT_TASK.fetch_add(1, Ordering::Relaxed))
    }

    /// Records the end. *Runs on: the thread that recorded the begin, in user code.*
    pub fn end(self) {
        record(self.ends, self.number, self.name);
    }
}

fn begin(name: &str, begins: Kind, ends: Kind, number: impl FnOnce() -> u64) -> Option<Stretch> {
    if !recording::is_on() {
        return None;
    }
    let stretch = Stretch { ends, number: number(), name: number_of(name) };
    record(begins, stretch.number, stretch.name);
    Some(stretch)
}

/// Records a message. Calls `message` only if a recording is on. *Runs on: as `Stretch::region`.*
pub fn log(category: &str, message: impl FnOnce() -> String) {
    if !recording::is_on() {
        return;
    }
    let category = number_of(category);
    record(Kind::Message, keep(&message()), category);
}

/// Writes an event of the calling green thread.
fn record(kind: Kind, number: u64, name: u16) {
    let Some(entered) = enter() else { return };
    if entered.m().running().is_none() {
        return;
    }
    match entered.held() {
        Some(held) => held.notes(kind, number, name.into()),
        None => entered.m().sched().events.outside.notes(kind, number, name),
    }
}
