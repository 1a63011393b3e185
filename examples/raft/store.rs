//! The state machine: the keys with their values, and for each session the answer to its last change. It
//! depends on nothing but the entries that it applies, so that it is the same on all nodes.

use std::collections::BTreeMap;

use super::message::{Change, Command, Reply};

/// The most bytes of all keys and values, and what each key counts beside its bytes.
const STORE: usize = 64 * 1024 * 1024;
const OVERHEAD: usize = 64;
/// The most sessions. A further one ends the session that was used least recently.
const SESSIONS: usize = 10_000;

#[derive(Debug, Default)]
pub(crate) struct Store {
    values: BTreeMap<String, String>,
    size: usize,
    sessions: BTreeMap<u64, Session>,
    /// The sessions by the index of the entry that used them last.
    by_use: BTreeMap<u64, u64>,
}

/// The last change of a client. A client sends one change at a time, so that no earlier one is needed.
#[derive(Debug)]
struct Session {
    number: u64,
    reply: Reply,
    used: u64,
}

impl Store {
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        self.values.get(key).cloned()
    }

    /// Applies the entry at `index`, and returns its answer.
    pub(crate) fn apply(&mut self, index: u64, command: &Command) -> Reply {
        match command {
            Command::Nothing => Reply::Done,
            Command::Open => self.open(index),
            Command::Change { session, number, change } => self.apply_once(index, *session, *number, change),
        }
    }

    fn open(&mut self, index: u64) -> Reply {
        if self.sessions.len() == SESSIONS
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.sessions.remove(&oldest);
        }
        self.sessions.insert(index, Session { number: 0, reply: Reply::Done, used: index });
        self.by_use.insert(index, index);
        Reply::Opened { session: index }
    }

    /// Applies a change, unless it was applied before: then returns the answer that it had.
    fn apply_once(&mut self, index: u64, session: u64, number: u64, change: &Change) -> Reply {
        let Some(last) = self.sessions.get_mut(&session) else { return Reply::Expired };
        self.by_use.remove(&last.used);
        self.by_use.insert(index, session);
        last.used = index;
        if number == last.number && !broken!("applied_twice") {
            return last.reply.clone();
        }
        if number < last.number {
            return Reply::Expired;
        }
        let reply = self.change(change);
        if let Some(last) = self.sessions.get_mut(&session) {
            (last.number, last.reply) = (number, reply.clone());
        }
        reply
    }

    fn change(&mut self, change: &Change) -> Reply {
        match change {
            Change::Put { key, value } => self.put(key, value).unwrap_or(Reply::Done),
            Change::Delete { key } => {
                let old = self.values.remove(key);
                self.size -= old.map_or(0, |old| size(key, &old));
                Reply::Done
            }
            Change::Cas { key, old, new } if self.values.get(key) == old.as_ref() => {
                self.put(key, new).unwrap_or(Reply::Swapped(true))
            }
            Change::Cas { .. } => Reply::Swapped(false),
        }
    }

    /// Stores a value. Returns an answer if there is no room.
    fn put(&mut self, key: &str, value: &str) -> Option<Reply> {
        let old = self.values.get(key).map_or(0, |old| size(key, old));
        let new = self.size - old + size(key, value);
        if new > STORE {
            return Some(Reply::Full);
        }
        self.size = new;
        self.values.insert(key.into(), value.into());
        None
    }
}

fn size(key: &str, value: &str) -> usize {
    OVERHEAD + key.len() + value.len()
}
