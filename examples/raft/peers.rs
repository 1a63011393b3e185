//! The connections to the other nodes: one for each, made by a green thread that sends what it is given.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::time::Duration;

use runtime::JoinHandle;
use runtime::channel::{self, Receiver, Sender};
use runtime::net::TcpStream;

use super::message::{Arrival, Id, Message, push_frame};

/// The most messages that wait for one node. Further ones are dropped: Raft sends again what is not answered.
const WAITING: usize = 64;
/// How long a connection, and the receipt of what was sent, may take. After that a new connection is made.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a node that was not reached is left alone.
const PAUSE: Duration = Duration::from_millis(50);
/// What the receiver of a message writes back. Without it, a sender would not see that a connection is dead.
pub(crate) const RECEIPT: [u8; 1] = *b"r";

#[derive(Debug)]
struct Peer {
    id: Id,
    queue: Sender<Arrival>,
    thread: JoinHandle<()>,
}

/// The other nodes. Dropping it ends the connections.
#[derive(Debug)]
pub(crate) struct Peers {
    id: Id,
    peers: Vec<Peer>,
}

impl Peers {
    /// Starts a green thread for each node of the cluster but `id`.
    pub(crate) fn start(id: Id, cluster: &[SocketAddr]) -> Peers {
        let others = (1..).zip(cluster).filter(|&(other, _)| other != id);
        let peers = others.map(|(id, &addr)| {
            let (queue, messages) = channel::bounded(WAITING);
            Peer { id, queue, thread: runtime::spawn(move || serve(addr, &messages)) }
        });
        Peers { id, peers: peers.collect() }
    }

    /// Sends a message, or drops it if the node does not keep up.
    pub(crate) fn send(&self, to: Id, term: u64, message: Message) {
        if let Some(peer) = self.peers.iter().find(|peer| peer.id == to) {
            let _ = peer.queue.try_send(Arrival::Peer { from: self.id, term, message });
        }
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.peers.iter().for_each(|peer| peer.thread.cancel());
    }
}

/// Sends the messages until their sender is dropped. Connects again after each error.
fn serve(addr: SocketAddr, messages: &Receiver<Arrival>) {
    let mut stream = None;
    while let Ok(first) = messages.recv() {
        let sent = send(&mut stream, addr, first, messages);
        if sent.is_err() {
            stream = None;
            runtime::sleep(PAUSE);
            // What has waited until now is old.
            messages.try_iter().for_each(drop);
        }
    }
}

/// Sends a message and the waiting ones, and then reads their receipts.
fn send(
    stream: &mut Option<TcpStream>,
    addr: SocketAddr,
    first: Arrival,
    more: &Receiver<Arrival>,
) -> io::Result<()> {
    let stream = match stream {
        Some(stream) => stream,
        None => stream.insert(connect(addr, PATIENCE)?),
    };
    let (mut bytes, mut count) = (Vec::new(), 0);
    for message in std::iter::once(first).chain(more.try_iter()) {
        push_frame(&mut bytes, &message)?;
        count += 1;
    }
    io::Write::write_all(stream, &bytes)?;
    stream.read_exact(&mut vec![0; count])
}

/// Connects to a node. No read and no write takes longer than `patience`.
pub(crate) fn connect(addr: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, patience)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}
