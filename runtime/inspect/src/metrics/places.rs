//! What the green threads of each spawn place do and have done.

use std::collections::HashMap;
use std::panic::Location;
use std::time::Duration;

use sched::{Living, Sched, Status, Sums};

type Place = Option<&'static Location<'static>>;

/// The green threads of one spawn place.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AtPlace {
    /// The place of the spawn in the source; `None` for green threads that the runtime started for itself.
    pub place: Option<&'static Location<'static>>,
    /// Green threads that live: an exact number.
    pub alive: u64,
    /// Green threads of these that run or are ready to run.
    pub active: u64,
    /// How long the green threads that wait have waited, in all.
    pub waiting: Duration,
    /// Green threads that were spawned, by the samples' estimate.
    pub spawned: u64,
    /// How often they ran: from a resume to the next stop.
    pub runs: u64,
    /// How long they ran in all, by the clock.
    pub ran: Duration,
    /// How long they waited for a P in all while they could run.
    pub delayed: Duration,
}

impl AtPlace {
    fn add_sums(&mut self, sums: Sums) {
        self.spawned += sums.spawned;
        self.runs += sums.runs;
        self.ran += Duration::from_nanos(sums.ran_ns);
        self.delayed += Duration::from_nanos(sums.delayed_ns);
    }

    fn add_living(&mut self, g: &Living<'_>) {
        self.alive += u64::from(!matches!(g.status, Status::Idle | Status::Dead));
        self.active += u64::from(matches!(g.status, Status::Runnable | Status::Running));
        if g.status == Status::Waiting {
            self.waiting += Duration::from_millis(g.waits_ms.into());
        }
    }
}

/// Returns what the green threads of each spawn place of a runtime do and have done, the places that ran
/// longest first. *Runs on: any thread.*
pub fn by_place(sched: &Sched) -> Vec<AtPlace> {
    sched::fork::check_or_panic();
    let mut places: HashMap<Place, AtPlace> = HashMap::new();
    let mut at = |place: Place, add: &dyn Fn(&mut AtPlace)| {
        add(places.entry(place).or_insert_with(|| AtPlace { place, ..AtPlace::default() }));
    };
    for (place, sums) in sched.sums_by_place() {
        at(place, &|at| at.add_sums(sums));
    }
    sched::look_at_living(|g| {
        if g.is_of(sched) {
            at(g.place, &|at| at.add_living(g));
        }
    });
    let mut places: Vec<_> = places.into_values().collect();
    places.sort_by_key(|at| std::cmp::Reverse((at.ran, at.alive)));
    places
}
