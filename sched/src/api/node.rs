//! `node`: the green threads of a node of a simulation. (Feature `sim`; `choices/simulation.rs` says which
//! node a G belongs to.)

use std::ptr;
use std::sync::atomic::Ordering;

use crate::api::join::GHandle;
use crate::api::park::Waiting;
use crate::choices::simulation::{LEFT, is_left_behind, leave_parked, set_node};
use crate::g::wait::Cancel;
use crate::g::{GRef, table};
use crate::m::current::on_m;

/// Leaves `thread` behind, a G of a simulation that cannot unwind: from now on it does not run. Its stack and
/// what it uses stay for ever. *Runs on: another G of the simulation.*
pub fn leave(thread: &GHandle) {
    if !leave_parked(thread.g()) {
        // Its M does not take it from the run queue. Relaxed: one M runs all Gs of a simulation.
        thread.g().node.store(LEFT, Ordering::Relaxed);
    }
}

/// Leaves the caller behind; see [`leave`]. *Runs on: a G of a simulation.*
pub fn leave_myself() -> ! {
    set_node(LEFT);
    loop {
        // It is in no run queue, and nothing wakes it.
        Waiting::begin(Cancel::Waits).park();
    }
}

/// Returns `true` if `thread` was left behind.
#[must_use]
pub fn is_left(thread: &GHandle) -> bool {
    is_left_behind(thread.g())
}

/// Returns handles of the Gs of `node` that have not ended, in the order in which they were spawned. *Runs
/// on: a G of the simulation.*
#[must_use]
pub fn gs_of(node: u32) -> Vec<GHandle> {
    let here = on_m(|m| m.runtime).unwrap_or(ptr::null());
    // A reference keeps the G from being used again, so its runtime and its node stay.
    let is_of = |g: GRef| ptr::eq(g.runtime(), here) && g.node.load(Ordering::Relaxed) == node;
    let gs = table::all().filter(|g| is_of(g)).filter_map(GHandle::of_living);
    let mut gs: Vec<GHandle> = gs.filter(|handle| is_of(handle.g()) && !handle.is_done()).collect();
    // The table gives places out in another order in each run.
    gs.sort_unstable_by_key(GHandle::id);
    gs
}
