//! The example raft in simulations: the same nodes and clients as in `raft.rs`. The links of their network
//! break and lose packets, nodes crash or lose their power, and clocks are wrong. The history of each run
//! must be linearizable.
//!
//! `RAFT_SEEDS=10000` makes so many runs without a planted bug.

#![cfg(target_os = "linux")]
// Of the helpers only some are used.
#![allow(dead_code)]

use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use raft::client::Client;
use raft::message::Id;
use raft::node::{self, Config};
use runtime::net::TcpListener;
use runtime::sim::net::{self, Quality};
use runtime::sim::{self, Builder, Faults, Node};
use runtime::{sleep, spawn};
use workload::History;

runtime::sim!();

/// Returns `true` where a step of Raft is broken in this simulation.
macro_rules! broken {
    ($step:literal) => {
        crate::BROKEN.get() == Some($step)
    };
}

#[path = "helpers/linear.rs"]
mod linear;
#[path = "../raft/mod.rs"]
mod raft;
#[path = "helpers/workload.rs"]
mod workload;

runtime::thread_local! {
    #[inherit]
    /// The step that is broken. Each simulation has its own, which its green threads inherit.
    static BROKEN: Cell<Option<&'static str>> = const { Cell::new(None) };
}

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// How long the clients work among faults, in simulated time.
const WORK: Duration = Duration::from_secs(10);
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long a cluster takes at most to answer after the last fault.
const RECOVERY: Duration = Duration::from_secs(5);
/// How many runs find a planted bug.
const ENOUGH: u64 = 200;

/// Runs a node, and starts it again after an error of its disk.
fn serve(config: &Config) {
    loop {
        let listener = TcpListener::bind(config.cluster[config.id as usize - 1]).unwrap();
        // A node ends by an error of its disk, or because it is killed. Then it unwinds from the sleep.
        let _ended = node::run(config, listener);
        sleep(10 * MS);
    }
}

/// A cluster under test.
struct Cluster {
    nodes: Vec<Node<()>>,
    addrs: Vec<SocketAddr>,
}

impl Cluster {
    fn start(nodes: Id) -> Cluster {
        let addrs: Vec<SocketAddr> = (1..=nodes).map(|id| ([10, 0, 0, id as u8], 7000).into()).collect();
        let start = |(id, addr): (Id, &SocketAddr)| {
            let config = Config { id, cluster: addrs.clone(), data: "/raft".into() };
            sim::node(addr.ip().to_string(), move || serve(&config))
        };
        Cluster { nodes: (1..).zip(&addrs).map(start).collect(), addrs }
    }

    /// Makes a fault, and mends it after a while.
    fn disturb(&self, random: &mut Rng) {
        let at = random.usize(..self.nodes.len());
        let most = if random.bool() { 50 * MS } else { S };
        let time = most.mul_f64(random.f64());
        let crash = if random.bool() { Node::kill } else { Node::cut_power };
        match random.u32(..6) {
            0 => {
                crash(&self.nodes[at]);
                sleep(time);
                self.nodes[at].restart();
            }
            1 => {
                self.nodes.iter().for_each(crash);
                sleep(time);
                self.nodes.iter().for_each(Node::restart);
            }
            2 => {
                for node in [&self.nodes[at], &self.nodes[(at + 1) % self.nodes.len()]] {
                    crash(node);
                    node.restart();
                }
            }
            3 => self.split(|one| one == at, true, time),
            4 => {
                let sides: Vec<bool> = self.nodes.iter().map(|_| random.bool()).collect();
                self.split(|one| sides[one], true, time);
            }
            _ if random.bool() => self.split(|one| one == at, false, time),
            _ => self.split(|one| one != at, false, time),
        }
    }

    /// Breaks the links from one side to the other for a while, and those back if `both`.
    fn split(&self, side: impl Fn(usize) -> bool, both: bool, time: Duration) {
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..self.nodes.len()).partition(|&one| side(one));
        let links = || ours.iter().flat_map(|&one| theirs.iter().map(move |&other| (one, other)));
        for (one, other) in links() {
            let cut = if both { net::partition } else { net::partition_oneway };
            cut(&self.nodes[one], &self.nodes[other]);
        }
        sleep(time);
        links().for_each(|(one, other)| net::repair(&self.nodes[one], &self.nodes[other]));
    }
}

/// Runs a cluster with clients and faults, and checks what the clients have seen.
fn run(nodes: Id) {
    let cluster = Cluster::start(nodes);
    let history = Arc::new(History::new());
    let ends = Instant::now() + WORK;
    let clients: Vec<_> = (1..=3)
        .map(|number| {
            let (client, history) = (Client::new(cluster.addrs.clone(), PATIENCE), history.clone());
            let random = Rng::with_seed(sim::random());
            spawn(move || history.work(number, client, random, 50 * MS, || Instant::now() >= ends))
        })
        .collect();
    let mut random = Rng::with_seed(sim::random());
    while Instant::now() < ends {
        cluster.disturb(&mut random);
        sleep(S.mul_f64(random.f64()));
    }
    Client::new(cluster.addrs, RECOVERY).put("end", "reached").expect("an answer soon after the last fault");
    clients.into_iter().for_each(|client| client.join().unwrap());
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
}

fn builder() -> Builder {
    let quality = Quality::new().loss(0.01).reorder(0.02);
    Builder::new().faults(Faults::new().quality(quality).clock_skew(S))
}

fn seeds(default: u64) -> u64 {
    std::env::var("RAFT_SEEDS").map_or(default, |seeds| seeds.parse().unwrap())
}

#[test]
fn three_nodes_are_linearizable() {
    let report = builder().explore(seeds(100), || run(3));
    println!("{report:?}");
}

#[test]
fn five_nodes_are_linearizable() {
    let report = builder().explore(seeds(50), || run(5));
    println!("{report:?}");
}

#[test]
fn a_seed_decides_all_that_a_cluster_does() {
    builder().check_determinism(true).explore(5, || run(3));
}

/// Breaks a step, and expects that a run notices it.
#[track_caller]
fn is_found(step: &'static str) {
    let broken = || {
        BROKEN.set(Some(step));
        run(3);
    };
    let failure = builder().shrink(false).try_explore(ENOUGH, broken).expect_err(step);
    println!("{step}: found after {} runs: {}", failure.runs(), failure.message().lines().next().unwrap());
}

#[test]
fn a_vote_that_is_not_on_disk_is_found() {
    is_found("vote_not_kept");
}

#[test]
fn a_leader_without_all_committed_entries_is_found() {
    is_found("old_log_elected");
}

#[test]
fn a_read_without_a_majority_is_found() {
    is_found("read_unconfirmed");
}

#[test]
fn a_repeated_change_that_is_applied_twice_is_found() {
    is_found("applied_twice");
}

#[test]
fn an_acknowledgement_before_the_disk_has_it_is_found() {
    is_found("not_synced");
}
