//! `heal`: the end of all faults, after which a program must come to its end.

use std::time::Duration;

use crate::disk;
use crate::network;

/// Ends all faults of the simulation, for good: repairs all links and delivers what they hold, restarts the
/// nodes that [`Faults`](crate::Faults) have stopped, and sets each quality of links and disks free of
/// faults. No further fault begins, and [`fault`](crate::fault()) returns `false`.
///
/// Latencies, bandwidths and capacities stay. So do the clocks of nodes, and what disks have lost already:
/// rotten bytes and bad sectors. A node that the program itself has stopped stays down.
///
/// # Panics
///
/// Panics outside of a simulation.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::{self, Builder, Faults};
/// Builder::new().faults(Faults::new().partition(0.5).kill(0.5)).explore(10, || {
///     let node = sim::node("db", runtime::thread::park);
///     runtime::sleep(std::time::Duration::from_secs(60));
///     sim::heal();
///     assert!(!node.is_finished());
/// });
/// ```
#[track_caller]
pub fn heal() {
    let network =
        network::here().expect("sim::heal must be called by the code of a simulation: see runtime::sim::run");
    network.with(|state| {
        state.healed = true;
        state.heal_links();
    });
    disk::here().expect("a simulation has disks where it has a network").heal();
    // A node that a fault is about to stop cannot be started before.
    while network.with(|state| state.stopping > 0) {
        sched::park::yield_now();
    }
    let down = network.with(|state| std::mem::take(&mut state.down_by_faults));
    down.into_iter().filter_map(|node| network.machine(node)).for_each(|machine| machine.restart());
}

/// [Heals](heal) everything, and calls `f`, which must end within `limit` of simulated time. If the clock
/// comes to its end before `f` does, the run fails, with a dump of all green threads: the program is not
/// *live*, because it does not get over faults that are long gone.
///
/// # Panics
///
/// Panics outside of a simulation.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::{self, Builder};
/// use std::time::Duration;
/// let failure = Builder::new().try_explore(1, || {
///     let node = sim::node("db", || runtime::sleep(Duration::from_secs(3600)));
///     sim::settle(Duration::from_secs(60), || node.join().unwrap());
/// });
/// assert!(failure.unwrap_err().message().contains("has not ended within 60s"));
/// ```
#[track_caller]
pub fn settle<T>(limit: Duration, f: impl FnOnce() -> T) -> T {
    heal();
    let network = network::here().expect("the caller is in a simulation");
    let before = network.set_limit(Some((limit, network.now())));
    let _reset = Reset(|| _ = network.set_limit(before));
    f()
}

/// Calls a function at the end, also where `f` panics.
struct Reset<F: Fn()>(F);

impl<F: Fn()> Drop for Reset<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
