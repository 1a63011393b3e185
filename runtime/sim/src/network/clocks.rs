//! `clocks`: the clocks of the nodes, each of which may be fast or slow.
//!
//! ```text
//!   time of the simulation ──shown──> what `Instant` reads on a node, and by which its waits end
//!                          <─reached─
//! ```
//!
//! A clock is a line: it shows `shown` at `at`, and goes on at its rate from there. A change of the rate
//! begins a new line where the clock is. So a clock never goes back.

use sched::simulation::MAX_CLOCKS;
use sched::sync::Mutex;

/// How many parts of a second a rate counts.
const PARTS: i128 = 1_000_000;

/// How far a rate may be from that of the simulation, in parts per million: half of it, or half more.
pub(crate) const MOST_PPM: u32 = 500_000;

/// The clocks of a simulation. The main node has that of the simulation.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// By the nodes; `None` if all nodes have the clock of the simulation.
    of_nodes: Option<Mutex<Vec<Clock>>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    /// A time of the simulation, in ns.
    at: u64,
    /// What the clock shows then.
    shown: u64,
    /// By how many parts per million it is fast.
    ppm: i32,
}

impl Clocks {
    /// Makes the clock of the main node. If `own`, each further node will have a clock of its own.
    pub(crate) fn new(own: bool) -> Clocks {
        Clocks { of_nodes: own.then(|| Mutex::new(vec![Clock::default()])) }
    }

    /// Returns `true` if there is room for the clock of a node.
    pub(crate) fn have_room(&self, node: u32) -> bool {
        self.of_nodes.is_none() || (node as usize) < MAX_CLOCKS
    }

    /// Gives the next node a clock that is right at `now`.
    pub(crate) fn add(&self, now: u64, ppm: i32) {
        if let Some(clocks) = &self.of_nodes {
            clocks.lock().push(Clock { at: now, shown: now, ppm });
        }
    }

    /// Sets by how many parts per million the clock of a node is fast from `now` on. Returns `false` if the
    /// node has no clock of its own.
    pub(crate) fn set_rate(&self, node: u32, now: u64, ppm: i32) -> bool {
        let Some(clocks) = &self.of_nodes else { return false };
        let mut clocks = clocks.lock();
        let Some(clock) = clocks.get_mut(node as usize) else { return false };
        *clock = Clock { at: now, shown: clock.shown(now), ppm };
        true
    }

    /// Returns how many clocks there are.
    pub(crate) fn count(&self) -> usize {
        self.of_nodes.as_ref().map_or(1, |clocks| clocks.lock().len())
    }

    /// Returns the number of the clock of a node: 0 for the clock of the simulation.
    pub(crate) fn number(&self, node: u32) -> usize {
        match &self.of_nodes {
            Some(clocks) if (node as usize) < clocks.lock().len() => node as usize,
            _ => 0,
        }
    }

    /// Returns what a clock shows at the time `now` of the simulation.
    pub(crate) fn shown(&self, number: usize, now: u64) -> u64 {
        self.get(number).shown(now)
    }

    /// Returns the first time of the simulation at which a clock shows `time` or a later time.
    pub(crate) fn reached(&self, number: usize, time: u64) -> u64 {
        self.get(number).reached(time)
    }

    fn get(&self, number: usize) -> Clock {
        let of = |clocks: &Mutex<Vec<Clock>>| clocks.lock().get(number).copied();
        self.of_nodes.as_ref().and_then(of).unwrap_or_default()
    }
}

impl Clock {
    fn rate(self) -> i128 {
        PARTS + i128::from(self.ppm)
    }

    fn shown(self, now: u64) -> u64 {
        let passed = i128::from(now) - i128::from(self.at);
        limited(i128::from(self.shown) + (passed * self.rate()).div_euclid(PARTS))
    }

    fn reached(self, time: u64) -> u64 {
        let missing = i128::from(time) - i128::from(self.shown);
        // Rounded up: at that time the clock shows no less.
        limited(i128::from(self.at) - (-missing * PARTS).div_euclid(self.rate()))
    }
}

/// Returns the nearest time.
fn limited(time: i128) -> u64 {
    u64::try_from(time.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn at(ppm: i32) -> Clock {
        Clock { at: 5 * S, shown: 7 * S, ppm }
    }

    #[test]
    fn a_clock_of_the_simulation_shows_its_time() {
        let clock = Clock::default();
        for time in [0, 1, 17 * S + 3, u64::MAX] {
            assert_eq!((clock.shown(time), clock.reached(time)), (time, time));
        }
    }

    #[test]
    fn a_fast_clock_gains_and_a_slow_one_loses() {
        assert_eq!(at(200).shown(1005 * S), 1007 * S + S / 5);
        assert_eq!(at(-200).shown(1005 * S), 1007 * S - S / 5);
    }

    #[test]
    fn a_time_is_reached_at_the_first_moment_that_shows_it() {
        for ppm in [-500_000, -333_333, -1, 0, 1, 77, 499_999, 500_000] {
            let clock = at(ppm);
            for time in (7 * S..).step_by(12_345_677).take(200) {
                let reached = clock.reached(time);
                assert!(clock.shown(reached) >= time, "{ppm}: {time}");
                assert!(clock.shown(reached - 1) < time, "{ppm}: {time}");
            }
        }
    }

    #[test]
    fn a_change_of_the_rate_never_sets_a_clock_back() {
        let clocks = Clocks::new(true);
        clocks.add(5 * S, 300);
        let (mut now, mut shown) = (5 * S, 5 * S);
        for ppm in [-500_000, 500_000, -7, 0, 13] {
            for _ in 0..100 {
                now += 333;
                let next = clocks.shown(1, now);
                assert!(next >= shown);
                shown = next;
            }
            assert!(clocks.set_rate(1, now, ppm));
            assert_eq!(clocks.shown(1, now), shown);
        }
        assert!(!clocks.set_rate(2, now, 0), "there is no such node");
        assert!(!Clocks::new(false).set_rate(0, now, 0));
    }
}
