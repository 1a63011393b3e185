//! A node: one green thread owns the state and takes one event after another, so that there is nothing to
//! lock.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use runtime::channel::{self, Receiver, RecvTimeoutError, Sender};
use runtime::net::{Server, TcpListener, TcpStream};

use super::consensus::{Raft, Read};
use super::message::{Arrival, Command, Id, Message, Reply, Request, read_frame, write_frame, wrong};
use super::peers::{Peers, RECEIPT};
use super::storage::Storage;
use super::store::Store;

/// The most connections of other nodes and of clients.
const CONNECTIONS: usize = 1000;
/// The most events that wait, and that share one sync of the disk.
const EVENTS: usize = 256;
/// How long a connection may be idle, and how long a write may wait.
const PATIENCE: Duration = Duration::from_secs(30);

/// Who a node is.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) id: Id,
    /// The addresses of all nodes. Node 1 has the first.
    pub(crate) cluster: Vec<SocketAddr>,
    /// The folder of the node's files.
    pub(crate) data: PathBuf,
}

/// What happens to a node.
enum Event {
    Peer {
        from: Id,
        term: u64,
        message: Message,
    },
    /// A client asks. If the answer's sender is dropped, the client asks elsewhere.
    Client(Request, Sender<Reply>),
}

/// Runs a node that `listener` serves, until its disk fails or its green thread is cancelled.
///
/// # Errors
///
/// Returns an error of the storage. The node's state on disk is good, and the node may be started again.
pub(crate) fn run(config: &Config, listener: TcpListener) -> io::Result<()> {
    let nodes = Id::try_from(config.cluster.len()).map_err(wrong)?;
    let (events, arriving) = channel::bounded(EVENTS);
    let mut node = Node::open(config.id, nodes, &config.data, Peers::start(config.id, &config.cluster))?;
    let peers = (1..=nodes).filter(|&id| id != config.id).collect::<Vec<_>>();
    let settings = Server::builder().max_connections(CONNECTIONS);
    let _server = settings.start(listener, move |stream| {
        // An error means that the other side has gone, or does not keep to the protocol.
        let _ = serve(&stream, &peers, &events);
    })?;
    node.run(&arriving)
}

/// Serves a connection of another node or of a client: frame by frame, in order.
fn serve(stream: &TcpStream, peers: &[Id], events: &Sender<Event>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut input, mut output) = (BufReader::new(stream), stream);
    while let Some(arrival) = read_frame(&mut input)? {
        match arrival {
            Arrival::Peer { from, term, message } if peers.contains(&from) => {
                events.send(Event::Peer { from, term, message }).map_err(|_| io::ErrorKind::BrokenPipe)?;
                output.write_all(&RECEIPT)?;
            }
            Arrival::Client(request) if request.is_bounded() => {
                let (reply, replied) = channel::bounded(1);
                events.send(Event::Client(request, reply)).map_err(|_| io::ErrorKind::BrokenPipe)?;
                let reply = replied.recv().unwrap_or(Reply::Elsewhere { leader: None });
                write_frame(&mut output, &reply)?;
            }
            _ => return Err(wrong("a request is too long, or a node is not of this cluster")),
        }
    }
    Ok(())
}

struct Node {
    id: Id,
    raft: Raft,
    storage: Storage,
    store: Store,
    /// The index of the last entry that the store has.
    applied: u64,
    peers: Peers,
    /// The clients that wait for an entry: its index, its term, and where to answer.
    changes: BTreeMap<u64, (u64, Sender<Reply>)>,
    /// The clients that wait to read.
    reads: Vec<(Read, String, Sender<Reply>)>,
}

impl Node {
    fn open(id: Id, nodes: Id, data: &Path, peers: Peers) -> io::Result<Node> {
        let (storage, recovered) = Storage::open(data)?;
        let raft = Raft::new(id, nodes, Instant::now(), random, recovered);
        let (changes, reads) = (BTreeMap::new(), Vec::new());
        Ok(Node { id, raft, storage, store: Store::default(), applied: 0, peers, changes, reads })
    }

    fn run(&mut self, arriving: &Receiver<Event>) -> io::Result<()> {
        loop {
            match arriving.recv_deadline(self.raft.deadline()) {
                Ok(first) => {
                    self.take(first);
                    arriving.try_iter().take(EVENTS).for_each(|event| self.take(event));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            self.raft.tick(Instant::now());
            self.put_out()?;
            self.apply();
            self.answer_reads();
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Peer { from, term, message } => self.raft.step(from, term, message, Instant::now()),
            Event::Client(Request::Open, reply) => self.propose(Command::Open, reply),
            Event::Client(Request::Change { session, number, change }, reply) => {
                self.propose(Command::Change { session, number, change }, reply);
            }
            Event::Client(Request::Get { key }, reply) => match self.raft.read() {
                Some(read) => self.reads.push((read, key, reply)),
                None => self.send_elsewhere(&reply),
            },
            Event::Client(Request::Status, reply) => {
                let (term, leader) = (self.raft.term(), self.raft.leader());
                let committed = self.raft.committed();
                answer(&reply, Reply::Status { id: self.id, term, leader, committed });
            }
        }
    }

    fn propose(&mut self, command: Command, reply: Sender<Reply>) {
        match self.raft.propose(command) {
            Some(index) => _ = self.changes.insert(index, (self.raft.term(), reply)),
            None => self.send_elsewhere(&reply),
        }
    }

    fn send_elsewhere(&self, reply: &Sender<Reply>) {
        answer(reply, Reply::Elsewhere { leader: self.raft.leader() });
    }

    /// Writes to disk what the last events have changed, and then informs the others.
    fn put_out(&mut self) -> io::Result<()> {
        let output = self.raft.take_output();
        if !output.records.is_empty() {
            self.storage.write(&output.records)?;
        }
        self.raft.synced();
        output.messages.into_iter().for_each(|(to, term, message)| self.peers.send(to, term, message));
        Ok(())
    }

    /// Applies what is committed, and answers the clients that wait for it.
    fn apply(&mut self) {
        while self.applied < self.raft.committed()
            && let Some(entry) = self.raft.log.get(self.applied + 1)
        {
            self.applied += 1;
            let done = self.store.apply(self.applied, &entry.command);
            if let Some((term, reply)) = self.changes.remove(&self.applied)
                && term == entry.term
            {
                answer(&reply, done);
            }
        }
        if !self.raft.is_leader() {
            // Another leader may commit these entries, or replace them. Dropping an answer's sender sends the
            // client to that leader.
            self.changes.clear();
        }
    }

    /// Answers a read if a majority has answered its round.
    fn answer_reads(&mut self) {
        let Some(confirmed) = self.raft.confirmed_round() else { return self.reads.clear() };
        let (applied, store) = (self.applied, &self.store);
        self.reads.retain(|(read, key, reply)| {
            let ready = read.round <= confirmed && read.index <= applied;
            if ready {
                answer(reply, Reply::Value(store.get(key)));
            }
            !ready
        });
    }
}

/// Answers a client. If it has gone, the answer is dropped.
fn answer(client: &Sender<Reply>, reply: Reply) {
    let _ = client.try_send(reply);
}

/// Returns a number from 0 to 1. The keys of a new hash map are random.
fn random() -> f64 {
    RandomState::new().hash_one(()) as f64 / u64::MAX as f64
}
