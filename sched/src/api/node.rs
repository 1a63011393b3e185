//! `node`: the green threads of a node of a simulation. (Feature `sim`; `run/simulation.rs` says which node a
//! G belongs to.)

use std::ptr;
use std::sync::atomic::Ordering;

use crate::api::join::GHandle;
use crate::g::{GRef, table};
use crate::m::current::on_m;

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
