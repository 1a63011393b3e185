//! What the Gs of each spawn place have done, from the samples of `notes/latency.rs`.

use std::collections::HashMap;
use std::panic::Location;
use std::ptr;

use crate::sync::Mutex;

/// Where Gs are spawned.
pub(crate) type Place = Option<&'static Location<'static>>;

/// Sums over the samples of one place, each counted with its weight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sums {
    /// Gs that were spawned.
    pub spawned: u64,
    /// How often they ran: from a resume to the next stop.
    pub runs: u64,
    /// How long they ran in all.
    pub ran_ns: u64,
    /// How long they waited for a P in all while they could run.
    pub delayed_ns: u64,
}

/// The sums of each place, by the address of its `Location`. One place in the source may have several
/// addresses.
#[derive(Default)]
pub(crate) struct Places(Mutex<HashMap<usize, (Place, Sums)>>);

impl Places {
    fn add(&self, place: Place, add: impl FnOnce(&mut Sums)) {
        let key = place.map_or(0, |place| ptr::from_ref(place).addr());
        add(&mut self.0.lock().entry(key).or_insert((place, Sums::default())).1);
    }

    /// Adds new Gs.
    pub(crate) fn spawned(&self, place: Place, weight: u64) {
        self.add(place, |sums| sums.spawned += weight);
    }

    /// Adds runs of Gs, each of which had waited for a P for `delayed` ns and ran for `ran` ns.
    pub(crate) fn ran(&self, place: Place, delayed: u64, ran: u64, weight: u64) {
        self.add(place, |sums| {
            sums.runs += weight;
            sums.ran_ns += ran * weight;
            sums.delayed_ns += delayed * weight;
        });
    }

    pub(crate) fn all(&self) -> Vec<(Place, Sums)> {
        self.0.lock().values().copied().collect()
    }
}
