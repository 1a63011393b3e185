//! The end of a thread of std that has to end, and goes on although its calls fail.

use std::ffi::c_int;

use sched::park::{is_interrupted, my_id};
use sched::simulation::{self, Phase, Simulation};

use super::super::here;
use super::table;

/// How often the calls of a thread may fail because it has to end.
const CALLS_AFTER_END: u32 = 20;

/// A call that may be in a loop: leaves the caller behind if it goes on although it has to end, because its
/// node was killed or the simulation is over. Its first calls return, with an error if they would wait, so
/// that it can end by itself.
pub fn leave_if_over() {
    leave_call_if_over(None);
}

/// As [`leave_if_over`]. The call borrows the number `fd` from its owner.
pub(super) fn leave_call_if_over(fd: Option<c_int>) {
    if !is_interrupted() || !simulation::is_user_code() {
        return;
    }
    let ends = |by: &dyn Simulation| {
        let node = simulation::node();
        matches!(by.phase(), Phase::Failed | Phase::Over) || node != 0 && by.is_down(node)
    };
    let Some(network) = here().filter(|_| simulation::with(ends) == Some(true)) else { return };
    let calls = network.with(|state| {
        let calls = state.calls_after_end.entry(my_id()).or_default();
        *calls += 1;
        *calls
    });
    if calls > CALLS_AFTER_END {
        drop(network);
        fd.into_iter().for_each(table::give_up);
        simulation::leave_myself();
    }
}
