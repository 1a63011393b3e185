//! A look at each green thread that lives. None is held: each goes on during the look.

use std::panic::Location;
use std::ptr;
use std::sync::Arc;

use crate::g::labels::Labels;
use crate::g::{Runtime, Status, table};
use crate::m::release::release;
use crate::notes::places::Sums;
use crate::run::sched::Sched;

/// A green thread of some runtime, at the moment of a look.
#[derive(Debug)]
pub struct Living<'a> {
    /// Its id.
    pub id: u64,
    /// Its name, if it has one.
    pub name: Option<&'a str>,
    /// Where it was spawned.
    pub place: Option<&'static Location<'static>>,
    /// What it does. It may have ended.
    pub status: Status,
    /// About how long it has waited, in ms, if it waits.
    pub waits_ms: u32,
    /// Its labels, if it has any.
    pub labels: Option<Arc<Labels>>,
    runtime: *const Runtime,
}

impl Living<'_> {
    /// Returns `true` if it belongs to `sched`.
    pub fn is_of(&self, sched: &Sched) -> bool {
        ptr::eq(self.runtime, sched.as_runtime())
    }
}

/// Calls `see` with each green thread of the process that lives, and with some that have just ended. *Runs
/// on: any thread.*
pub fn look_at_living(mut see: impl FnMut(&Living<'_>)) {
    for g in table::all() {
        // A reference first: while it is held, the place in the table stays with this G, and so does its
        // name.
        if !g.life.try_retain() {
            continue;
        }
        if g.is_green() {
            let waits_ms = g.waits_for_ms();
            let (id, name, place, status) = (g.id(), g.name(), g.place(), g.status());
            let (labels, runtime) = (g.origin.labels(), g.runtime());
            see(&Living { id, name, place, status, waits_ms, labels, runtime });
        }
        release(g);
    }
}

impl Sched {
    /// Returns what the Gs of each spawn place have done, by the samples. *Runs on: any thread.*
    pub fn sums_by_place(&self) -> Vec<(Option<&'static Location<'static>>, Sums)> {
        self.events.latency.places.all()
    }
}
