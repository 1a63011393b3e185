//! A client: finds the leader, and repeats a request until a node answers. A change has a number, so that it
//! is applied once.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use runtime::net::TcpStream;

use super::message::{Arrival, Change, Reply, Request, read_frame, write_frame, wrong};
use super::peers::connect;

/// How long one node may take to answer.
const ATTEMPT: Duration = Duration::from_millis(700);
/// How long to wait before the next node is asked.
const PAUSE: Duration = Duration::from_millis(20);

/// A client of the cluster. It has one connection, and one request at a time.
pub(crate) struct Client {
    cluster: Vec<SocketAddr>,
    /// Which node is asked.
    at: usize,
    stream: Option<TcpStream>,
    session: Option<u64>,
    number: u64,
    /// How long a request may take, with all its repetitions.
    patience: Duration,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Error {
    /// No leader has answered in time, or the cluster has forgotten the session. A change may have been made,
    /// or may be made later.
    Unknown(io::Error),
    /// The request was refused. Nothing was changed.
    Refused(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unknown(error) => write!(f, "{error}; a change may have been made"),
            Error::Refused(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Error {}

impl Client {
    pub(crate) fn new(cluster: Vec<SocketAddr>, patience: Duration) -> Client {
        Client { cluster, at: 0, stream: None, session: None, number: 0, patience }
    }

    /// Returns the value of a key. The value was there at a moment between the call and its return.
    pub(crate) fn get(&mut self, key: &str) -> Result<Option<String>, Error> {
        match self.ask(Request::Get { key: key.into() }, self.deadline())? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) -> Result<(), Error> {
        self.change(Change::Put { key: key.into(), value: value.into() }).map(drop)
    }

    pub(crate) fn delete(&mut self, key: &str) -> Result<(), Error> {
        self.change(Change::Delete { key: key.into() }).map(drop)
    }

    /// Sets a key to `new` if its value is `old`. Returns `true` if it was.
    pub(crate) fn cas(&mut self, key: &str, old: Option<&str>, new: &str) -> Result<bool, Error> {
        let change = Change::Cas { key: key.into(), old: old.map(Into::into), new: new.into() };
        match self.change(change)? {
            Reply::Swapped(swapped) => Ok(swapped),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns what the node that is asked first knows: its number, its term, the leader, and the last
    /// committed index.
    pub(crate) fn status(&mut self) -> Result<Reply, Error> {
        self.ask(Request::Status, self.deadline())
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.patience
    }

    fn change(&mut self, change: Change) -> Result<Reply, Error> {
        let deadline = self.deadline();
        let session = match self.session {
            Some(session) => session,
            None => self.open(deadline)?,
        };
        // A change that was given up keeps its number: it is not applied after a later one.
        self.number += 1;
        match self.ask(Request::Change { session, number: self.number, change }, deadline)? {
            Reply::Full => Err(Error::Refused("the store is full")),
            Reply::Expired => {
                self.session = None;
                Err(Error::Unknown(io::Error::other("the session has expired")))
            }
            reply => Ok(reply),
        }
    }

    fn open(&mut self, deadline: Instant) -> Result<u64, Error> {
        match self.ask(Request::Open, deadline)? {
            Reply::Opened { session } => {
                (self.session, self.number) = (Some(session), 0);
                Ok(session)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a request to one node after another, until one answers.
    fn ask(&mut self, request: Request, deadline: Instant) -> Result<Reply, Error> {
        if !request.is_bounded() {
            return Err(Error::Refused("the key or the value is too long"));
        }
        let request = Arrival::Client(request);
        loop {
            let why = match self.attempt(&request) {
                Ok(Reply::Elsewhere { leader }) => {
                    self.turn_to(leader.map(|id| id as usize - 1));
                    io::Error::new(io::ErrorKind::TimedOut, "there is no leader")
                }
                Ok(reply) => return Ok(reply),
                Err(error) => {
                    self.turn_to(None);
                    error
                }
            };
            if Instant::now() + PAUSE >= deadline {
                return Err(Error::Unknown(why));
            }
            runtime::sleep(PAUSE);
        }
    }

    /// Asks one node.
    fn attempt(&mut self, request: &Arrival) -> io::Result<Reply> {
        let stream = match &mut self.stream {
            Some(stream) => stream,
            None => self.stream.insert(connect(self.cluster[self.at], ATTEMPT)?),
        };
        write_frame(stream, request)?;
        read_frame(stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Turns to the leader, or to the next node.
    fn turn_to(&mut self, leader: Option<usize>) {
        self.stream = None;
        let next = (self.at + 1) % self.cluster.len();
        self.at = leader.filter(|&leader| leader < self.cluster.len()).unwrap_or(next);
    }
}

fn unexpected(reply: &Reply) -> Error {
    Error::Unknown(wrong(format!("a node has answered {reply:?}")))
}
