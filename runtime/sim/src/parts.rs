//! `parts`: what a simulation consists of, by type. So the network and the disks find their own part of the
//! simulation around the caller, and know nothing of the `World` that holds both.

use std::any::Any;
use std::sync::Arc;

use sched::simulation;

/// The parts of one simulation.
pub(super) struct Parts(pub(super) [Arc<dyn Any + Send + Sync>; 3]);

/// Returns the part of type `T` of the simulation around the caller; `None` outside of a simulation.
pub(super) fn here<T: Any + Send + Sync>() -> Option<Arc<T>> {
    let find = |by: &dyn simulation::Simulation| {
        let Parts(parts) = by.as_any().downcast_ref()?;
        parts.iter().find_map(|part| part.clone().downcast().ok())
    };
    simulation::with(find).flatten()
}
