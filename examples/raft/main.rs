//! A replicated key-value store: Raft in plain blocking style, on sockets, files, channels and timers of the
//! runtime.
//!
//! ```sh
//! cargo run --release --example raft                       # a cluster in one process, for a moment; its leader crashes
//!
//! NODES=127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003       # a cluster of processes, until Ctrl-C
//! for n in 1 2 3; do cargo run --release --example raft -- --cluster $NODES --node $n --data /tmp/raft-$n & done
//! cargo run --release --example raft -- --cluster $NODES put name green
//! cargo run --release --example raft -- --cluster $NODES get name
//! ```
//!
//! `tests/raft.rs` kills processes of such a cluster, and `tests/raft_sim.rs` runs the same code in
//! simulations.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use raft::client::Client;
use raft::message::{Id, Reply};
use raft::node::{self, Config};
use runtime::net::TcpListener;
use runtime::{JoinHandle, channel};
use support::Args;
use support::server::{Signals, wrong};

/// Marks a step of Raft that `tests/raft_sim.rs` breaks, to see that the tests notice it. Here it is never
/// broken.
macro_rules! broken {
    ($step:literal) => {
        false
    };
}

#[path = "mod.rs"]
mod raft;
#[path = "../support/mod.rs"]
mod support;

const USAGE: &str = "\
usage: raft [--cluster ADDR,ADDR,.. (--node N --data FOLDER | COMMAND)]

  --cluster ADDRS      the addresses of all nodes, like 127.0.0.1:7001,127.0.0.1:7002,127.0.0.1:7003
  --node N             serve as the Nth node, until SIGTERM or SIGINT
  --data FOLDER        the folder of the node's log
  get KEY              print the value
  put KEY VALUE        set the value
  delete KEY           remove the key
  cas KEY OLD NEW      set the value to NEW if it is OLD
  status               print what each node knows of the cluster

Without arguments a cluster of three nodes runs in one process, for a moment.";

/// How long a command may take.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let mut args = Args::new(USAGE);
    let cluster = args.option("--cluster").map(|text| addresses(&args, &text));
    let id = args.option("--node");
    let data = args.option("--data").map(PathBuf::from);
    let words: Vec<String> = std::iter::from_fn(|| args.positional()).map(text).collect();
    args.end();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = runtime::block_on(|| match (cluster, id, data, &*words) {
        (None, None, None, []) => demonstrate(),
        (Some(cluster), Some(id), Some(data), []) => {
            let id = args.parse("--node", &id, 1..=cluster.len() as u64) as Id;
            serve(Config { id, cluster, data })
        }
        (Some(cluster), None, None, command) => execute(cluster, command, &args),
        _ => args.wrong("--node needs --cluster and --data, and takes no command; a command needs --cluster"),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn addresses(args: &Args, text: &str) -> Vec<SocketAddr> {
    let one =
        |addr: &str| addr.parse().unwrap_or_else(|_| args.wrong(format_args!("\"{addr}\" is no address")));
    text.split(',').map(one).collect()
}

fn text(word: std::ffi::OsString) -> String {
    word.to_string_lossy().into_owned()
}

/// Serves as a node until a signal, or until its disk fails.
fn serve(config: Config) -> io::Result<()> {
    let signals = Signals::new()?;
    let listener = TcpListener::bind(config.cluster[config.id as usize - 1])?;
    println!("serving on {}", listener.local_addr()?);
    let (ends, ended) = channel::bounded(1);
    let stops = ends.clone();
    runtime::spawn(move || ends.send(node::run(&config, listener)));
    runtime::spawn(move || {
        signals.wait();
        stops.send(Ok(()))
    });
    // The node needs no goodbye: all that it has acknowledged is on disk.
    ended.recv().unwrap_or_else(|_| Err(io::Error::other("the node has panicked")))
}

/// Executes a client's command.
fn execute(cluster: Vec<SocketAddr>, command: &[&str], args: &Args) -> io::Result<()> {
    let mut client = Client::new(cluster.clone(), PATIENCE);
    match command {
        ["get", key] => match client.get(key).map_err(io::Error::other)? {
            Some(value) => println!("{value}"),
            None => return Err(io::Error::other("there is no such key")),
        },
        ["put", key, value] => client.put(key, value).map_err(io::Error::other)?,
        ["delete", key] => client.delete(key).map_err(io::Error::other)?,
        ["cas", key, old, new] => {
            if !client.cas(key, Some(old), new).map_err(io::Error::other)? {
                return Err(io::Error::other("the value is another one"));
            }
        }
        ["status"] => cluster.iter().for_each(|&addr| println!("{addr}: {}", status(addr))),
        _ => args.wrong("a command is get, put, delete, cas or status, with its words"),
    }
    Ok(())
}

fn status(addr: SocketAddr) -> String {
    match Client::new(vec![addr], Duration::from_millis(100)).status() {
        Ok(Reply::Status { id, term, leader, committed }) => {
            let leader = leader.map_or("no leader".into(), |leader| format!("the leader is node {leader}"));
            format!("node {id}, term {term}, {leader}, {committed} entries are committed")
        }
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    }
}

/// A cluster in one process. Its leader ends and starts again, and nothing is lost.
fn demonstrate() -> io::Result<()> {
    let folder = runtime::blocking(tempfile::tempdir)?;
    let done = with_cluster(folder.path());
    runtime::blocking(|| folder.close())?;
    done
}

fn with_cluster(folder: &Path) -> io::Result<()> {
    let listeners = (0..3).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<io::Result<Vec<_>>>()?;
    let cluster = listeners.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>()?;
    let config = |id: Id| Config { id, cluster: cluster.clone(), data: folder.join(id.to_string()) };
    let start = |id: Id, listener| {
        let config = config(id);
        runtime::spawn(move || node::run(&config, listener))
    };
    let mut nodes: Vec<JoinHandle<_>> =
        (1..).zip(listeners).map(|(id, listener)| start(id, listener)).collect();
    let mut client = Client::new(cluster.clone(), PATIENCE);
    count(&mut client, 0, 100)?;
    let Reply::Status { leader: Some(leader), term, .. } = client.status().map_err(io::Error::other)? else {
        return Err(wrong("there is no leader"));
    };
    println!("100 changes are made; node {leader} leads in term {term}, and ends");
    let at = leader as usize - 1;
    nodes[at].cancel();
    // Its port is free again when all its connections have ended.
    let listener = loop {
        match TcpListener::bind(cluster[at]) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                runtime::sleep(Duration::from_millis(1))
            }
            bound => break bound?,
        }
    };
    count(&mut client, 100, 200)?;
    println!("100 further changes are made without it; it starts again");
    nodes[at] = start(leader, listener);
    count(&mut client, 200, 300)?;
    println!(
        "the cluster has counted to {}",
        client.get("count").map_err(io::Error::other)?.unwrap_or_default()
    );
    nodes.iter().for_each(JoinHandle::cancel);
    nodes.into_iter().for_each(|node| drop(node.join()));
    Ok(())
}

/// Counts up one by one. A step that is lost, or made twice, is an error.
fn count(client: &mut Client, from: u32, to: u32) -> io::Result<()> {
    for n in from..to {
        let old = (n > 0).then(|| n.to_string());
        let swapped = client.cas("count", old.as_deref(), &(n + 1).to_string()).map_err(io::Error::other)?;
        if !swapped {
            return Err(wrong(format_args!("the count is not {n}")));
        }
    }
    Ok(())
}
