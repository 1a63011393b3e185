//! What nodes and clients send to each other, and its form on the wire: a length of four bytes, and a value
//! in postcard's format.

use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The number of a node: its place in the list of the cluster, from 1.
pub(crate) type Id = u32;

/// The most bytes of a key, and of a value.
pub(crate) const KEY: usize = 1024;
pub(crate) const VALUE: usize = 64 * 1024;
/// About how many bytes of entries are sent at a time. A message has one entry more.
pub(crate) const ENTRIES: usize = 256 * 1024;
/// The most bytes of a frame. An entry has at most two values and a key.
const FRAME: usize = ENTRIES + 4 * VALUE;

/// A change of the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Change {
    Put {
        key: String,
        value: String,
    },
    Delete {
        key: String,
    },
    /// Sets the value if the present one is `old`.
    Cas {
        key: String,
        old: Option<String>,
        new: String,
    },
}

/// What an entry of the log does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Command {
    /// The first entry of each leader.
    Nothing,
    /// Opens a session. Its number is the entry's index.
    Open,
    /// Changes the store, unless the session has applied this number already.
    Change { session: u64, number: u64, change: Change },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) term: u64,
    pub(crate) command: Command,
}

/// A message from one node to another. Each is sent with the term of its sender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Message {
    /// A candidate with this last entry asks for a vote.
    AskVote {
        last_index: u64,
        last_term: u64,
    },
    Vote {
        granted: bool,
    },
    /// The leader's entries after `prev_index`. An empty list is a heartbeat.
    Append {
        prev_index: u64,
        prev_term: u64,
        entries: Vec<Entry>,
        commit: u64,
        round: u64,
    },
    /// The answer to `Append`, with its round: up to which index the logs agree, or the index to try next.
    Appended {
        round: u64,
        agreed: Result<u64, u64>,
    },
    /// The answer to a message of an older term.
    NewerTerm,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Request {
    Open,
    Change { session: u64, number: u64, change: Change },
    Get { key: String },
    Status,
}

/// What a node answers to a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The request is to be sent to another node; the leader, if it is known. The change may have been made,
    /// or may be made later.
    Elsewhere {
        leader: Option<Id>,
    },
    Opened {
        session: u64,
    },
    Done,
    /// Of `Cas`: whether the value was the old one.
    Swapped(bool),
    Value(Option<String>),
    /// The cluster does not remember the session, or has applied a later number of it.
    Expired,
    /// The store has no room.
    Full,
    Status {
        id: Id,
        term: u64,
        leader: Option<Id>,
        committed: u64,
    },
}

/// What arrives at a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Arrival {
    Peer { from: Id, term: u64, message: Message },
    Client(Request),
}

impl Change {
    /// Returns the strings of the change: a key first.
    fn strings(&self) -> (&str, [&str; 2]) {
        match self {
            Change::Put { key, value } => (key, [value, ""]),
            Change::Delete { key } => (key, ["", ""]),
            Change::Cas { key, old, new } => (key, [old.as_deref().unwrap_or_default(), new]),
        }
    }

    pub(crate) fn size(&self) -> usize {
        let (key, values) = self.strings();
        key.len() + values[0].len() + values[1].len()
    }
}

impl Request {
    /// Returns `false` if a string is too long.
    pub(crate) fn is_bounded(&self) -> bool {
        match self {
            Request::Open | Request::Status => true,
            Request::Get { key } => key.len() <= KEY,
            Request::Change { change, .. } => {
                let (key, values) = change.strings();
                key.len() <= KEY && values.iter().all(|value| value.len() <= VALUE)
            }
        }
    }
}

impl Entry {
    /// Returns about how many bytes the entry has on the wire.
    pub(crate) fn size(&self) -> usize {
        const NUMBERS: usize = 40;
        match &self.command {
            Command::Nothing | Command::Open => NUMBERS,
            Command::Change { change, .. } => NUMBERS + change.size(),
        }
    }
}

/// Appends the frame of a value to `bytes`.
pub(crate) fn push_frame<T: Serialize>(bytes: &mut Vec<u8>, value: &T) -> io::Result<()> {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    *bytes = postcard::to_extend(value, std::mem::take(bytes)).map_err(wrong)?;
    let length = bytes.len() - start - 4;
    if length > FRAME {
        return Err(wrong("a message is too long"));
    }
    bytes[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Writes the frame of a value by one call.
pub(crate) fn write_frame<T: Serialize>(output: &mut impl Write, value: &T) -> io::Result<()> {
    let mut bytes = Vec::new();
    push_frame(&mut bytes, value)?;
    output.write_all(&bytes)
}

/// Reads a frame. Returns `None` at the end of the stream.
pub(crate) fn read_frame<T: DeserializeOwned>(input: &mut impl Read) -> io::Result<Option<T>> {
    let mut head = Vec::new();
    input.take(4).read_to_end(&mut head)?;
    if head.is_empty() {
        return Ok(None);
    }
    let head: [u8; 4] = head.try_into().map_err(|_| io::ErrorKind::UnexpectedEof)?;
    let length = u32::from_le_bytes(head) as usize;
    if length > FRAME {
        return Err(wrong("a frame is too long"));
    }
    // The memory grows with what arrives, so a sender gets none by a promise.
    let mut bytes = Vec::new();
    input.take(length as u64).read_to_end(&mut bytes)?;
    if bytes.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match postcard::take_from_bytes(&bytes).map_err(wrong)? {
        (value, []) => Ok(Some(value)),
        _ => Err(wrong("a frame has bytes after its value")),
    }
}

/// Returns an error for bytes that break the protocol.
pub(crate) fn wrong(what: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}
