//! The connections of a server: how many are open, and their end together with the server's.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use sched::sync::{Condvar, Mutex};

/// The most connections at once.
const MOST: usize = 16;

/// The open connections of one server.
#[derive(Debug, Default)]
pub(super) struct Connections {
    state: Mutex<ConnectionsState>,
    /// A connection has ended, or the server does.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct ConnectionsState {
    ended: bool,
    next: u64,
    open: HashMap<u64, TcpStream>,
}

/// One open connection; the drop closes it.
pub(super) struct Open<'c> {
    connections: &'c Connections,
    number: u64,
}

impl Connections {
    /// Counts a connection. Returns `None` if there are too many, or the server has ended.
    pub(super) fn open(&self, stream: &TcpStream) -> Option<Open<'_>> {
        let stream = stream.try_clone().ok()?;
        let mut state = self.state.lock();
        if state.ended || state.open.len() >= MOST {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.open.insert(number, stream);
        Some(Open { connections: self, number })
    }

    /// Returns `true` once the server ends.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Waits for `time`. Returns `false` at once when the server ends.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.ended {
            if self.changed.wait_until(&mut state, until).timed_out() {
                return !state.ended;
            }
        }
        false
    }

    /// Ends the server: breaks the connections.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.ended = true;
        for stream in state.open.values() {
            // A connection that its client has closed is at its end already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        self.changed.notify_all();
    }

    /// Waits until no connection is open. The server has ended.
    pub(super) fn wait_for_all(&self) {
        let mut state = self.state.lock();
        while !state.open.is_empty() {
            self.changed.wait(&mut state);
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.connections.state.lock().open.remove(&self.number);
        self.connections.changed.notify_all();
    }
}
