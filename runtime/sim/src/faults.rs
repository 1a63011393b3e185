//! `Faults`: what goes wrong by itself in a simulation, as the seed decides.

use std::sync::Arc;
use std::time::Duration;

use sched::simulation;
use sched::sleep::sleep;

pub(super) mod heal;

use super::disk_quality;
use super::network::{MOST_PPM, Network, Works};
use super::quality::Quality;
use super::random::Random;
use super::schedule::Fault;
use super::start::start;

/// Faults that happen by themselves, as the seed decides: see `runtime::sim::Builder::faults`.
///
/// At each *tick* of simulated time, one of the faults whose probabilities are set may begin. It concerns
/// nodes that are chosen at random, and lasts for a random time. Each fault is part of the
/// [`Schedule`](super::Schedule): a replay makes it again, and a schedule is made shorter by leaving faults
/// out, too.
///
/// Ticks do not keep a simulation going: where all green threads wait for ever, it is a deadlock at once.
///
/// ```
/// # runtime::sim!();
/// use runtime::sim::net::Quality;
/// use runtime::sim::{Builder, Faults};
/// use std::time::Duration;
///
/// let faults = Faults::new()
///     .quality(Quality::new().loss(0.01))
///     .every(Duration::from_secs(1))
///     .partition(0.1)
///     .kill(0.05)
///     .clock_skew(Duration::from_millis(500));
/// Builder::new().faults(faults).explore(10, || {
///     let node = runtime::sim::node("10.0.0.1", || runtime::sleep(Duration::from_secs(60)));
///     runtime::sleep(Duration::from_secs(60));
/// });
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "faults have an effect where they are set: see `Builder::faults`"]
pub struct Faults {
    quality: Quality,
    disk: disk_quality::Quality,
    every: Duration,
    lasts: Duration,
    partition: f64,
    partition_oneway: f64,
    hold: f64,
    reset: f64,
    kill: f64,
    cut_power: f64,
    clock_skew: Duration,
    clock_drift: u32,
    swarm: bool,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            quality: Quality::new(),
            disk: disk_quality::Quality::new(),
            every: Duration::from_secs(1),
            lasts: Duration::from_secs(5),
            partition: 0.0,
            partition_oneway: 0.0,
            hold: 0.0,
            reset: 0.0,
            kill: 0.0,
            cut_power: 0.0,
            clock_skew: Duration::ZERO,
            clock_drift: 0,
            swarm: false,
        }
    }
}

/// Writes setters of probabilities.
macro_rules! probabilities {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// ```
        /// # runtime::sim!();
        #[doc = concat!("let faults = runtime::sim::Faults::new().", stringify!($name), "(0.1);")]
        /// ```
        pub fn $name(mut self, probability: f64) -> Self {
            self.$name = probability;
            self
        }
    )* };
}

impl Faults {
    /// Returns settings without a fault: a tick each second, and faults that last up to 5 s.
    ///
    /// ```
    /// # runtime::sim!();
    /// let none = runtime::sim::Faults::new();
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the quality of all links for which no other one is [set](super::net::set_quality).
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::{Faults, net::Quality};
    /// let faults = Faults::new().quality(Quality::new().loss(0.01));
    /// ```
    pub fn quality(mut self, quality: Quality) -> Self {
        self.quality = quality;
        self
    }

    /// Sets the quality of all disks for which no other one is [set](super::fs::set_quality).
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::{Faults, fs::Quality};
    /// let faults = Faults::new().disk(Quality::new().short(0.1));
    /// ```
    pub fn disk(mut self, quality: disk_quality::Quality) -> Self {
        self.disk = quality;
        self
    }

    /// Sets the time between two ticks.
    ///
    /// # Panics
    ///
    /// Panics if it is zero.
    ///
    /// ```
    /// # runtime::sim!();
    /// let faults = runtime::sim::Faults::new().every(std::time::Duration::from_millis(100));
    /// ```
    pub fn every(mut self, time: Duration) -> Self {
        assert!(!time.is_zero(), "ticks need a time between them");
        self.every = time;
        self
    }

    /// Sets how long a fault lasts at most.
    ///
    /// ```
    /// # runtime::sim!();
    /// let faults = runtime::sim::Faults::new().lasts(std::time::Duration::from_secs(60));
    /// ```
    pub fn lasts(mut self, most: Duration) -> Self {
        self.lasts = most;
        self
    }

    /// Sets how far the clocks of nodes are ahead or behind at most: what `SystemTime::now` returns. Each
    /// node has its own skew.
    ///
    /// ```
    /// # runtime::sim!();
    /// let faults = runtime::sim::Faults::new().clock_skew(std::time::Duration::from_secs(1));
    /// ```
    pub fn clock_skew(mut self, most: Duration) -> Self {
        self.clock_skew = most;
        self
    }

    /// Sets by how many parts per million the clocks of nodes are fast or slow at most: what `Instant::now`
    /// returns there, and how long waits last. Each node has its own rate, and a clock of its own, as with
    /// `runtime::sim::Builder::node_clocks`. Default: 0. Usual clocks of computers have up to 100.
    ///
    /// # Panics
    ///
    /// Panics if it is more than 500,000.
    ///
    /// ```
    /// # runtime::sim!();
    /// let faults = runtime::sim::Faults::new().clock_drift(200);
    /// ```
    pub fn clock_drift(mut self, most_ppm: u32) -> Self {
        assert!(most_ppm <= MOST_PPM, "a clock that is wrong by more than {MOST_PPM} ppm is no clock");
        self.clock_drift = most_ppm;
        self
    }

    /// Sets whether each run has only some of the faults that are set: the seed decides for each kind of fault,
    /// by half, whether it happens in the run at all (swarm testing, Groce et al., 2012). So there are runs
    /// in which one fault does not hide what another one would show.
    ///
    /// ```
    /// # runtime::sim!();
    /// let faults = runtime::sim::Faults::new().partition(0.2).kill(0.1).swarm(true);
    /// ```
    pub fn swarm(mut self, swarm: bool) -> Self {
        self.swarm = swarm;
        self
    }

    /// Returns the faults of the run with this seed.
    pub(super) fn of_seed(&self, seed: u64) -> Faults {
        let mut faults = self.clone();
        if faults.swarm {
            let mut random = Random::new(seed ^ 0x5_BA4);
            // The first numbers of neighbouring seeds are mixed once more.
            random = Random::new(random.next());
            let mut is_left_out = || random.below(2) == 0;
            if is_left_out() {
                faults.clock_skew = Duration::ZERO;
            }
            faults.probabilities().filter(|_| is_left_out()).for_each(|chance| *chance = 0.0);
            // The last, so that the other faults of a seed are those of runs before this fault was made.
            if is_left_out() {
                faults.clock_drift = 0;
            }
        }
        faults
    }

    /// Returns the probabilities of all faults.
    fn probabilities(&mut self) -> impl Iterator<Item = &mut f64> {
        let Faults { partition, partition_oneway, hold, reset, kill, cut_power, .. } = self;
        [partition, partition_oneway, hold, reset, kill, cut_power]
            .into_iter()
            .chain(self.quality.probabilities())
            .chain(self.disk.probabilities())
    }

    probabilities! {
        /// Sets the probability that a tick begins a [partition](super::net::partition) of two nodes.
        partition;
        /// Sets the probability that a tick [breaks](super::net::partition_oneway) one direction between two
        /// nodes.
        partition_oneway;
        /// Sets the probability that a tick [holds](super::net::hold) the packets between two nodes.
        hold;
        /// Sets the probability that a tick [resets](super::net::reset) the connections between two nodes.
        reset;
        /// Sets the probability that a tick [kills](super::Node::kill) a node, which is restarted later. The
        /// main node is never killed.
        kill;
        /// Sets the probability that a tick [cuts the power](super::Node::cut_power) of a node, which is
        /// restarted later. The main node is never concerned.
        cut_power;
    }

    pub(super) fn usual_quality(&self) -> &Quality {
        &self.quality
    }

    pub(super) fn usual_disk(&self) -> &disk_quality::Quality {
        &self.disk
    }

    pub(super) fn most_skew(&self) -> Duration {
        self.clock_skew
    }

    pub(super) fn most_drift(&self) -> u32 {
        self.clock_drift
    }

    fn chances(&self) -> [f64; 6] {
        [self.partition, self.partition_oneway, self.hold, self.reset, self.kill, self.cut_power]
    }

    /// Returns the time between two ticks in ns; `None` if there are none.
    pub(super) fn tick_ns(&self) -> Option<u64> {
        let any = self.chances().iter().any(|&chance| chance > 0.0);
        any.then(|| u64::try_from(self.every.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Starts the green thread that makes the faults, if there are any.
    pub(super) fn start(&self, network: &Arc<Network>) {
        if self.tick_ns().is_some() {
            let (faults, network) = (self.clone(), network.clone());
            start(None, move || faults.run(&network));
        }
    }

    /// Makes a fault at each tick, until it is cancelled.
    fn run(&self, network: &Arc<Network>) {
        network.wake_at_ticks(sched::GHandle::current());
        let mut seen = network.ticks();
        loop {
            while seen == network.ticks() {
                sched::park::park(None);
            }
            seen += 1;
            self.tick(network);
        }
    }

    fn tick(&self, network: &Arc<Network>) {
        if network.with(|state| state.healed) {
            return;
        }
        let decided = network.with(|state| {
            let (fault, number) = state.decisions.decide(Fault::Tick, &self.chances());
            let mut random = state.decisions.random(Fault::Tick, number);
            let nodes = state.nodes.count() as usize;
            let one = random.below(nodes) as u32;
            // Another one, if there is one.
            let other = (one + 1 + random.below((nodes - 1).max(1)) as u32) % nodes as u32;
            let ns = random.below(usize::try_from(self.lasts.as_nanos()).unwrap_or(usize::MAX).max(1));
            (fault, one, other, Duration::from_nanos(ns as u64))
        });
        let (fault, one, other, lasts) = decided;
        let links = [(one, other), (other, one)];
        let breaks = |links: &[(u32, u32)], works| {
            let (network, links) = (network.clone(), links.to_vec());
            start(None, move || {
                // The faults may end before this green thread has begun.
                let set = |works| {
                    network.with(|state| {
                        let links = links.iter().filter(|_| !state.healed).copied();
                        links.collect::<Vec<_>>().into_iter().for_each(|link| state.set_works(link, works));
                    });
                };
                set(works);
                sleep(lasts);
                set(Works::Yes);
            });
        };
        match fault {
            1 if one != other => breaks(&links, Works::Broken),
            2 if one != other => breaks(&links[..1], Works::Broken),
            3 if one != other => breaks(&links, Works::Held),
            4 => network.with(|state| state.reset_all(one, other)),
            5 | 6 => {
                let node = if one == 0 { other } else { one };
                if let Some(machine) = network.machine(node) {
                    let network = network.clone();
                    start(None, move || {
                        if !network.with(|state| state.begin_stop()) {
                            return;
                        }
                        if fault == 5 {
                            machine.kill()
                        } else {
                            machine.cut_power()
                        }
                        network.with(|state| state.end_stop(node));
                        sleep(lasts);
                        if network.with(|state| state.down_by_faults.remove(&node)) {
                            machine.restart();
                        }
                    });
                }
            }
            _ => {}
        }
        debug_assert_eq!(simulation::node(), 0, "faults belong to no node that is killed");
    }
}
