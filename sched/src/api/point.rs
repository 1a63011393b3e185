//! `point`: points of choice, at which a simulation may let another G run. (Feature `sim`; see
//! `run/simulated.rs`.)

use crate::api::park::unwind_if_cancelled;
use crate::api::simulation::is_on_this_thread;
use crate::choices::simulation::{Phase, Simulation, is_anywhere, node};
use crate::g::payload::Stop;
use crate::run::boundary::{enter, yield_kept};
use crate::run::simulated::with;

/// A point of choice: in a simulation another G may run before the caller goes on. Elsewhere it does nothing.
/// When the simulation ends, a cancelled caller unwinds from here, so that a loop around such points ends.
/// *Runs on: any thread.*
#[inline(always)]
pub fn point() {
    if is_anywhere() {
        point_of_choice(true);
    }
}

/// As `point`, but never unwinds: for destructors.
#[inline(always)]
pub fn point_in_drop() {
    if is_anywhere() {
        point_of_choice(false);
    }
}

#[cold]
#[inline(never)]
fn point_of_choice(may_unwind: bool) {
    if !is_on_this_thread() {
        return;
    }
    // A destructor that runs in an unwind gives way to no other G: two panics at a time would be out of
    // order.
    if std::thread::panicking() {
        return;
    }
    let Some(phase) = with(|by| by.phase()) else { return };
    let switches = match phase {
        Phase::Before => false,
        Phase::On => is_another_chosen(),
        Phase::Failed | Phase::Over => true,
    };
    if switches {
        give_way();
    }
    if may_unwind {
        unwind_at_end();
    }
}

/// Unwinds the caller if it is cancelled, and the simulation or the node to which the caller belongs has to
/// end. *Runs on: any thread that does not unwind already.*
pub fn unwind_at_end() {
    if with(|by| matches!(by.phase(), Phase::Failed | Phase::Over) || ends_here(by)) == Some(true) {
        unwind_if_cancelled();
    }
}

/// Returns `true` if the calling G belongs to a node that has to end.
fn ends_here(by: &dyn Simulation) -> bool {
    let node = node();
    node != 0 && by.is_down(node)
}

/// Asks the simulation whether another G is to run before the caller goes on.
fn is_another_chosen() -> bool {
    let Some(entered) = enter().filter(|entered| !entered.nested()) else { return false };
    let (m, sched) = (entered.m(), entered.m().sched());
    match (m.running(), entered.held(), sched.simulated()) {
        (Some(g), Some(held), Some(simulated)) => sched.is_another_chosen(simulated, m, held, g.shared()),
        _ => false,
    }
}

/// Yields: to the G that was chosen, if one was, else to all that are ready.
fn give_way() {
    let Some(entered) = enter().filter(|entered| !entered.nested()) else { return };
    if entered.is_free() {
        entered.suspend(Stop::Yield);
    } else {
        yield_kept(entered);
    }
}
