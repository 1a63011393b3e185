//! What a leader knows of each other node.

use std::collections::BTreeMap;
use std::time::Instant;

use super::message::Id;

/// What a leader knows of one other node.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The index of the next entry to send.
    pub(crate) next: u64,
    /// Up to which index the node's log is known to agree, on its disk.
    pub(crate) agreed: u64,
    /// When entries were sent that the node has not answered yet, and the index of the last of them.
    pub(crate) sent: Option<(Instant, u64)>,
    /// The last round that the node has answered.
    pub(crate) round: u64,
    /// When the node last answered.
    pub(crate) heard: Instant,
}

/// The state of a leader.
#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) peers: BTreeMap<Id, Progress>,
    /// The index of the leader's first entry.
    pub(crate) start: u64,
    /// How many of the leader's own entries are on its disk.
    pub(crate) synced: u64,
    /// Rounds of messages to all nodes are counted, so that an answer shows when the leader was still one.
    pub(crate) round: u64,
    /// A read waits for the next round.
    pub(crate) wants_round: bool,
    pub(crate) next_round: Instant,
}

impl Leading {
    pub(crate) fn new(peers: &[Id], last_index: u64, now: Instant) -> Leading {
        let progress = || Progress { next: last_index + 1, agreed: 0, sent: None, round: 0, heard: now };
        Leading {
            peers: peers.iter().map(|&id| (id, progress())).collect(),
            start: last_index + 1,
            synced: 0,
            round: 0,
            wants_round: false,
            next_round: now,
        }
    }

    /// Returns the largest value that a majority of the nodes has reached.
    pub(crate) fn majority<T: Ord + Copy>(&self, own: T, of: impl Fn(&Progress) -> T) -> T {
        let mut values: Vec<T> = self.peers.values().map(of).collect();
        values.push(own);
        values.sort_unstable_by(|a, b| b.cmp(a));
        values[values.len() / 2]
    }
}
