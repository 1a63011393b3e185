//! The example raft: a cluster of processes in which the leader is killed again and again, and hostile input.

#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use raft::client::Client;
use raft::message::{Reply, read_frame};
use tempfile::TempDir;
use workload::History;

macro_rules! broken {
    ($step:literal) => {
        false
    };
}

mod helpers;
#[path = "helpers/linear.rs"]
mod linear;
#[path = "../raft/mod.rs"]
mod raft;
#[path = "helpers/workload.rs"]
mod workload;

/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster of processes.
struct Cluster {
    folder: TempDir,
    program: PathBuf,
    addrs: Vec<SocketAddr>,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    fn start(nodes: usize) -> Cluster {
        static NEXT: AtomicU8 = AtomicU8::new(2);
        let [_, _, high, low] = std::process::id().to_be_bytes();
        // An address of its own, and ports that the system gives to no other socket.
        let ip = Ipv4Addr::new(127, NEXT.fetch_add(1, Ordering::Relaxed), high, low);
        let addrs = (1..=nodes).map(|n| (ip, 7000 + n as u16).into()).collect();
        let mut cluster = Cluster {
            folder: tempfile::tempdir().unwrap(),
            program: helpers::build("raft"),
            addrs,
            nodes: (0..nodes).map(|_| None).collect(),
        };
        (0..nodes).for_each(|at| cluster.start_node(at));
        cluster
    }

    fn start_node(&mut self, at: usize) {
        let addrs: Vec<String> = self.addrs.iter().map(ToString::to_string).collect();
        let id = (at + 1).to_string();
        let mut command = Command::new(&self.program);
        command
            .args(["--cluster", &addrs.join(","), "--node", &id, "--data"])
            .arg(self.folder.path().join(&id));
        self.nodes[at] = Some(command.stdout(Stdio::null()).spawn().unwrap());
    }

    /// Kills a node as a crash does.
    fn kill(&mut self, at: usize) {
        if let Some(mut child) = self.nodes[at].take() {
            // A node that has ended by itself is a failure.
            assert_eq!(child.try_wait().unwrap(), None, "node {} has ended", at + 1);
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn client(&self) -> Client {
        Client::new(self.addrs.clone(), PATIENCE)
    }

    /// Waits for a node that knows itself as the leader, and returns its place.
    fn leader(&self) -> usize {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            for (at, &addr) in self.addrs.iter().enumerate() {
                let status = Client::new(vec![addr], Duration::ZERO).status();
                if let Ok(Reply::Status { id, leader, .. }) = status
                    && leader == Some(id)
                {
                    return at;
                }
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("no leader within {PATIENCE:?}");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs clients while `disturb` kills and starts nodes. Checks what the clients have seen.
fn disturbed(nodes: usize, disturb: impl FnOnce(&mut Cluster, &dyn Fn())) {
    let mut cluster = Cluster::start(nodes);
    let (history, ends) = (History::new(), AtomicBool::new(false));
    thread::scope(|scope| {
        let workers: Vec<_> = (1..=4_u64)
            .map(|number| {
                let (client, history, ends) = (cluster.client(), &history, &ends);
                let random = fastrand::Rng::with_seed(number + u64::from(std::process::id()) * 100);
                let pause = Duration::from_millis(4);
                scope.spawn(move || {
                    history.work(number, client, random, pause, || ends.load(Ordering::Relaxed))
                })
            })
            .collect();
        let progress = || {
            let enough = history.answered() + 30;
            helpers::wait_until("the cluster makes progress", || history.answered() >= enough);
        };
        progress();
        disturb(&mut cluster, &progress);
        progress();
        ends.store(true, Ordering::Relaxed);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    history.check().unwrap_or_else(|violation| panic!("{violation}"));
}

#[test]
fn killed_leaders_lose_nothing() {
    disturbed(3, |cluster, progress| {
        for _ in 0..3 {
            let leader = cluster.leader();
            cluster.kill(leader);
            progress();
            cluster.start_node(leader);
            progress();
        }
    });
}

#[test]
fn five_nodes_survive_the_loss_of_two() {
    disturbed(5, |cluster, progress| {
        for _ in 0..2 {
            let leader = cluster.leader();
            cluster.kill(leader);
            cluster.kill((leader + 1) % 5);
            progress();
            cluster.start_node(leader);
            cluster.start_node((leader + 1) % 5);
            progress();
        }
    });
}

#[test]
fn a_crash_of_all_nodes_loses_nothing() {
    let mut cluster = Cluster::start(3);
    let mut client = cluster.client();
    client.put("name", "green").unwrap();
    assert!(client.cas("name", Some("green"), "red").unwrap());
    for _ in 0..2 {
        (0..3).for_each(|at| cluster.kill(at));
        (0..3).for_each(|at| cluster.start_node(at));
        assert_eq!(client.get("name").unwrap().as_deref(), Some("red"));
        // The session was recovered, too.
        assert!(!client.cas("name", Some("green"), "blue").unwrap());
    }
    client.delete("name").unwrap();
    assert_eq!(client.get("name").unwrap(), None);
}

#[test]
fn a_minority_answers_nothing() {
    let mut cluster = Cluster::start(3);
    let mut client = cluster.client();
    client.put("name", "green").unwrap();
    let leader = cluster.leader();
    cluster.kill((leader + 1) % 3);
    cluster.kill((leader + 2) % 3);
    let mut hasty = Client::new(vec![cluster.addrs[leader]], Duration::from_secs(1));
    assert!(hasty.get("name").is_err(), "a read that no majority has confirmed");
    assert!(hasty.put("name", "red").is_err());
    cluster.start_node((leader + 1) % 3);
    assert!(client.get("name").unwrap().is_some());
}

#[test]
fn what_breaks_the_protocol_ends_its_connection() {
    let cluster = Cluster::start(1);
    let mut client = cluster.client();
    client.put("name", "green").unwrap();
    // A frame that is too long, one with a value of no type, one with bytes after its value, and a node of
    // another cluster.
    let foreign = b"\x05\0\0\0\0\x09\x01\x04\x00";
    for bytes in [&b"\xFF\xFF\xFF\xFF"[..], b"\x01\0\0\0\x63", b"\x06\0\0\0\x01\x03\0\0\0\0", foreign] {
        let mut stream = std::net::TcpStream::connect(cluster.addrs[0]).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(bytes).unwrap();
        assert_eq!(stream.read(&mut [0; 10]).unwrap_or(0), 0, "{}", bytes.escape_ascii());
    }
    assert!(client.put(&"k".repeat(2000), "").is_err());
    assert_eq!(client.get("name").unwrap().as_deref(), Some("green"));
    // The frames above differ in little from one that is answered.
    let mut stream = std::net::TcpStream::connect(cluster.addrs[0]).unwrap();
    stream.write_all(b"\x02\0\0\0\x01\x03").unwrap();
    assert!(matches!(read_frame(&mut stream), Ok(Some(Reply::Status { id: 1, .. }))));
}
