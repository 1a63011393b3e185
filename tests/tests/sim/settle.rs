//! Swarms of faults, and the phase after the last fault, in which a program must come to its end.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use runtime::net::UdpSocket;
use runtime::sim::fs::{Quality as DiskQuality, set_quality};
use runtime::sim::net::{self, Quality};
use runtime::sim::{self, Builder, Faults, Strategy};
use runtime::{fs, sleep, thread};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Asks the node `db` for an answer every second, until there is one or `times` are over.
fn ask(times: u32) -> bool {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.set_read_timeout(Some(S)).unwrap();
    (0..times).any(|_| {
        _ = socket.send_to(b"?", "db:9");
        socket.recv(&mut [0]).is_ok()
    })
}

/// Starts the node `db`, which answers.
fn answerer() -> sim::Node<()> {
    sim::node("db", || {
        let socket = UdpSocket::bind("0.0.0.0:9").unwrap();
        loop {
            if let Ok((_, peer)) = socket.recv_from(&mut [0]) {
                _ = socket.send_to(b"!", peer);
            }
        }
    })
}

#[test]
fn after_healing_nothing_goes_wrong() {
    let faults = Faults::new()
        .every(S / 10)
        .lasts(3600 * S)
        .partition(0.2)
        .partition_oneway(0.1)
        .hold(0.1)
        .kill(0.2)
        .cut_power(0.1)
        .quality(Quality::new().loss(0.9))
        .disk(DiskQuality::new().error(0.9));
    let builder = Builder::new().faults(faults);
    // It works only because of the end of the faults.
    builder.clone().try_explore(1, || answerer_is_up(100)).unwrap_err();
    builder.check_determinism(true).explore(30, || {
        let node = answerer();
        net::set_quality("main", &node, Quality::new().loss(1.0));
        set_quality("main", DiskQuality::new().error(1.0));
        sleep(20 * S);
        sim::heal();
        assert!(!node.is_finished());
        assert!(!sim::fault(1.0), "faults of the program are over, too");
        sleep(MS);
        for _ in 0..100 {
            assert!(ask(1));
            fs::write("/a", "b").unwrap();
        }
    });
}

fn answerer_is_up(times: u32) {
    let _node = answerer();
    sleep(20 * S);
    for _ in 0..times {
        assert!(ask(1));
    }
}

#[test]
fn a_node_that_a_fault_has_stopped_starts_once() {
    Builder::new().faults(Faults::new().every(S / 2).lasts(5 * S).kill(1.0)).explore(30, || {
        let starts = Arc::new(AtomicU32::new(0));
        let counts = starts.clone();
        let _node = sim::node("db", move || {
            counts.fetch_add(1, Ordering::Relaxed);
            thread::park();
        });
        sleep(20 * S);
        sim::heal();
        sleep(MS);
        let healed = starts.load(Ordering::Relaxed);
        sleep(60 * S);
        assert_eq!(starts.load(Ordering::Relaxed), healed, "a late end of a fault has started it again");
    });
}

#[test]
fn what_the_program_has_stopped_stays_down() {
    sim::run(0, || {
        let node = answerer();
        sleep(MS);
        node.kill();
        sim::heal();
        assert!(node.is_finished());
    });
}

#[test]
fn a_program_that_does_not_settle_is_found() {
    // A client that gives up for an hour after three failures.
    let client = |patience: Duration| {
        move || {
            let _node = answerer();
            sleep(MS);
            net::partition("main", "db");
            let client = runtime::spawn(move || {
                while !ask(3) {
                    sleep(patience);
                }
            });
            sleep(10 * S);
            let from = Instant::now();
            sim::settle(60 * S, || client.join().unwrap());
            assert!(from.elapsed() <= 60 * S);
            // The limit is over with the call.
            sleep(600 * S);
        }
    };
    Builder::new().explore(20, client(10 * S));
    let failure = Builder::new().try_explore(20, client(3600 * S)).unwrap_err();
    assert_eq!(failure.seed(), 0);
    assert!(
        failure.message().starts_with("the program has not ended within 60s of simulated time"),
        "{failure}"
    );
    let shows = |file: &str| {
        let is_a_call = |line: &str| line.trim_start().starts_with("at ") && line.contains(file);
        failure.message().lines().any(is_a_call)
    };
    assert!(shows("tests/sim/settle.rs:") && !shows("runtime/"), "the stack of the call: {failure}");
    let replay = Builder::new().strategy(Strategy::Replay(failure.schedule().clone())).shrink(false);
    assert!(replay.try_explore(1, client(3600 * S)).is_err());
}

#[test]
fn a_panic_ends_the_limit() {
    sim::run(0, || {
        let panics = || sim::settle(S, || std::panic::resume_unwind(Box::new(7)));
        assert!(std::panic::catch_unwind(panics).is_err());
        sleep(60 * S);
    });
}

/// Returns which of some kinds of faults were seen in each of 64 runs.
fn kinds(faults: Faults) -> Vec<[bool; 4]> {
    let kinds = StdMutex::new(Vec::new());
    let builder = Builder::new().faults(faults).threads(1);
    builder.explore(64, || {
        let starts = Arc::new(AtomicU32::new(0));
        let counts = starts.clone();
        let node = sim::node("db", move || {
            counts.fetch_add(1, Ordering::Relaxed);
            let date = SystemTime::now();
            thread::park();
            date
        });
        fs::write("/a", [7; 100]).ok();
        let is_skewed = sim::node("clock", SystemTime::now).join().unwrap();
        let here = SystemTime::now();
        let skewed = is_skewed.duration_since(here).unwrap_or_else(|error| error.duration()) > S / 100;
        let address = SocketAddr::new(node.ip(), 9);
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.set_read_timeout(Some(S)).unwrap();
        let refused = (0..30).filter(|_| {
            // A port without a socket answers, if the packet arrives.
            _ = socket.connect(address);
            _ = socket.send(b"?");
            socket.recv(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
        });
        let lost = refused.count() < 30;
        let errors = (0..50).any(|_| fs::exists("/a").is_err());
        let started = starts.load(Ordering::Relaxed) > 1;
        kinds.lock().unwrap().push([started, lost, errors, skewed]);
    });
    kinds.into_inner().unwrap()
}

#[test]
fn a_swarm_has_a_subset_of_the_faults_in_each_run() {
    let faults = Faults::new()
        .lasts(MS)
        .kill(0.9)
        .quality(Quality::new().loss(0.5))
        .disk(DiskQuality::new().error(0.5))
        .clock_skew(600 * S);
    let all = kinds(faults.clone());
    assert!(all.iter().filter(|kinds| kinds.iter().all(|kind| *kind)).count() > 55, "{all:?}");
    let swarm = kinds(faults.clone().swarm(true));
    let subsets: BTreeSet<[bool; 4]> = swarm.iter().copied().collect();
    assert!(subsets.len() >= 12, "{subsets:?}");
    for kind in 0..4 {
        let runs = swarm.iter().filter(|kinds| kinds[kind]).count();
        assert!((16..=48).contains(&runs), "kind {kind} in {runs} of 64 runs");
    }
    assert_eq!(swarm, kinds(faults.swarm(true)), "the seed decides");
}
