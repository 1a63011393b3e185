//! `disk`: the disks of a simulation: each node has one, on which `runtime::fs` works.
//!
//! ```text
//!   what programs see (the page cache)        what is sure (the disk)
//!   Content::data, Dir::entries   ──sync──►   Content::synced, Dir::synced
//! ```
//!
//! A node that is killed loses its open files and their locks only. A power cut leaves what is sure, and of
//! all else what the seed decides.
//!
//! - `tree.rs` has the files and directories of a disk, and finds them by their paths.
//! - `changes.rs` has the changes of directories that are not sure yet.
//! - `content.rs` has the bytes of a file.
//! - `file.rs` has open files, `locks.rs` their locks.
//! - `calls.rs` has what takes the place of the functions of `std::fs`.
//! - `quality.rs` says what a disk does wrong, and how long its calls take.
//! - `sockets.rs` has the names of Unix sockets.
//! - `metadata.rs` makes values of `std::fs::Metadata`.

mod calls;
mod changes;
mod content;
mod file;
mod locks;
pub mod metadata;
mod sockets;
mod tree;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sched::park::Waiting;
use sched::sync::Mutex;
use sched::{Cancel, Outcome, Why, simulation};

pub use calls::*;
pub use file::{File, Flags};

use super::disk_quality::Quality;
use super::network::Network;
use super::parts;
use super::random::Random;
use super::schedule::Fault;
use crate::errors::error;
use tree::Disk;

/// The disks of one simulation.
pub(super) struct Disks {
    network: Arc<Network>,
    /// The disk of each node that has used it.
    all: Mutex<BTreeMap<u32, Disk>>,
    /// The qualities that were set, and that of all other disks.
    qualities: Mutex<BTreeMap<u32, Quality>>,
    usual: Mutex<Quality>,
    /// Decides how long the calls take. Not the network's decisions: a delay is no fault.
    delays: Mutex<Random>,
}

/// Returns the disks of the simulation around the caller.
pub(super) fn here() -> Option<Arc<Disks>> {
    parts::here()
}

/// Calls `f`, which does what a disk does, and lets the time of a call pass. *Runs on: a green thread of a
/// simulation.*
pub fn taking_time<T>(f: impl FnOnce() -> T) -> T {
    sched::simulation::point();
    let Some(disks) = here().filter(|_| !std::thread::panicking()) else { return f() };
    let (time, effect_is_late) = disks.delay(simulation::node());
    if effect_is_late {
        pass(time);
        // The node may have ended at the very moment at which the wait did. The code of a node that is down
        // sees no error.
        simulation::unwind_at_end();
        f()
    } else {
        let result = f();
        pass(time);
        result
    }
}

/// Waits for `time`. Only the end of the simulation or of the caller's node ends the wait: a call of a disk
/// is not interrupted.
fn pass(time: Duration) {
    if time.is_zero() {
        return;
    }
    let deadline = Instant::now() + time;
    if Waiting::begin_for(Why::Sleep, Cancel::Ends).park_until(deadline) == Outcome::Cancelled {
        sched::simulation::point();
        Waiting::begin_for(Why::Sleep, Cancel::Waits).park_until(deadline);
    }
}

impl Disks {
    pub(super) fn new(network: Arc<Network>, usual: Quality, seed: u64) -> Arc<Disks> {
        let delays = Mutex::new(Random::new(seed));
        Arc::new(Disks {
            network,
            all: Mutex::default(),
            qualities: Mutex::default(),
            usual: Mutex::new(usual),
            delays,
        })
    }

    /// Returns how long the next call takes, and whether its effect comes at the end of that time.
    fn delay(&self, node: u32) -> (Duration, bool) {
        let (latency, (slow, more)) = self.quality(node, |quality| (quality.latency.clone(), quality.slow));
        let mut random = self.delays.lock();
        let mut up_to = |most: Duration| {
            let ns = usize::try_from(most.as_nanos()).unwrap_or(usize::MAX - 1);
            Duration::from_nanos(random.below(ns + 1) as u64)
        };
        let mut time = *latency.start() + up_to(*latency.end() - *latency.start());
        // One second is the whole of the probability.
        if slow > 0.0 && up_to(Duration::from_secs(1)).as_secs_f64() < slow {
            time += up_to(more);
        }
        (time, random.below(2) == 0)
    }

    pub(super) fn set_quality(&self, node: u32, quality: Quality) {
        self.qualities.lock().insert(node, quality);
    }

    /// Ends the faults of all disks.
    pub(super) fn heal(&self) {
        let heal =
            |quality: &mut Quality| quality.probabilities().into_iter().for_each(|chance| *chance = 0.0);
        self.qualities.lock().values_mut().for_each(heal);
        heal(&mut self.usual.lock());
    }

    fn quality<T>(&self, node: u32, of: impl FnOnce(&Quality) -> T) -> T {
        match self.qualities.lock().get(&node) {
            Some(quality) => of(quality),
            None => of(&self.usual.lock()),
        }
    }

    /// Decides which of the faults goes wrong in a call, by their probabilities. Returns the random numbers of
    /// the decision as well; `None` if nothing goes wrong.
    fn wrong<F: Copy, const N: usize>(
        &self,
        node: u32,
        faults: impl FnOnce(&Quality) -> [(F, f64); N],
    ) -> Option<(F, Random)> {
        let faults = self.quality(node, faults);
        let chances = faults.map(|(_, chance)| chance);
        if chances == [0.0; N] {
            return None;
        }
        self.network.with(|state| {
            let (option, number) = state.decisions.decide(Fault::Disk, &chances);
            let (fault, _) = faults.get(option.checked_sub(1)?)?;
            Some((*fault, state.decisions.random(Fault::Disk, number)))
        })
    }

    /// Decides whether a call fails that can only fail or succeed.
    ///
    /// # Errors
    /// Returns `EIO` if the call fails.
    fn may_fail(&self, node: u32) -> io::Result<()> {
        match self.wrong(node, |quality| [((), quality.error)]) {
            None => Ok(()),
            Some(_) => Err(error(libc::EIO)),
        }
    }

    /// Calls `f` with the disk of a node.
    ///
    /// # Errors
    /// Returns the error of `f`, or `EIO` if the node is down.
    fn on<T>(&self, node: u32, f: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        if !self.network.with(|state| state.nodes.get(node).up) {
            return Err(error(libc::EIO));
        }
        self.with(node, f)
    }

    /// Calls `f` with the disk of a node, whether the node is up or down.
    fn with<T>(&self, node: u32, f: impl FnOnce(&mut Disk) -> T) -> T {
        let now = super::clock::date_on(&self.network, node);
        let mut all = self.all.lock();
        let disk = all.entry(node).or_insert_with(|| Disk::new(now));
        disk.now = now;
        f(disk)
    }

    /// Closes all files of a node that has been killed.
    pub(super) fn close_all(&self, node: u32) {
        if let Some(disk) = self.all.lock().get_mut(&node) {
            disk.close_all();
        }
    }

    /// Cuts the power of a node, which is down: what is not sure is lost, as the seed decides.
    pub(super) fn cut_power(&self, node: u32) {
        if let Some(disk) = self.all.lock().get_mut(&node) {
            self.network.with(|state| disk.cut_power(&mut state.decisions));
        }
    }
}
