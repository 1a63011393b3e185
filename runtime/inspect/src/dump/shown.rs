//! `shown`: the ids of a snapshot that is taken in a simulation. They become the ids that the simulated
//! program sees, which are the same in each run. (Feature `sim`.)

use sched::simulation;

use super::{Object, Snapshot};

/// Set in the id of a thread that does not belong to the simulation, so that it differs from those of the
/// simulation.
const OUTSIDE: u64 = 1 << 63;

impl Snapshot {
    /// Gives the threads of a simulation the ids that the caller sees. Does nothing outside of a simulation.
    ///
    /// All green threads of the snapshot belong to one simulation, so that their order stays.
    pub(super) fn show_ids_of_simulation(&mut self) {
        if !simulation::is_here() {
            return;
        }
        for thread in &mut self.green_threads {
            show(&mut thread.id);
            thread.parent.iter_mut().for_each(show);
            thread.wait.iter_mut().filter_map(|wait| wait.object.as_mut()).for_each(show_in);
        }
        self.plain_threads.iter_mut().for_each(show);
    }
}

fn show(id: &mut u64) {
    let shown = simulation::shown(*id);
    *id = if shown == *id { shown | OUTSIDE } else { shown };
}

fn show_in(object: &mut Object) {
    match object {
        Object::Mutex { holder, .. } | Object::RwLock { holder, .. } => holder.iter_mut().for_each(show),
        Object::GreenThread { id } => show(id),
        Object::Scope { green_threads } => green_threads.iter_mut().for_each(show),
        Object::Select { cases } => cases.iter_mut().flatten().for_each(show_in),
        _ => {}
    }
}
