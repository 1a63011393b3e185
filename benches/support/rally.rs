//! Two threads, green or plain, that wake each other in turn.

use std::sync::atomic::{AtomicU64, Ordering};

use runtime::thread::Thread;

/// The number of turns so far. If the number is even, the next turn is the first player's.
#[derive(Default)]
pub(crate) struct Rally(AtomicU64);

impl Rally {
    /// Plays the first side. In each of `rounds` rounds the caller wakes the other player, and then calls
    /// `park` until the other player wakes the caller.
    pub(crate) fn serve(&self, rounds: u64, other: &Thread, park: fn()) {
        for round in 0..rounds {
            self.pass(2 * round, other);
            self.wait_for(2 * round + 2, park);
        }
    }

    /// Plays the second side.
    pub(crate) fn answer(&self, rounds: u64, other: &Thread, park: fn()) {
        for round in 0..rounds {
            self.wait_for(2 * round + 1, park);
            self.pass(2 * round + 1, other);
        }
    }

    fn pass(&self, turn: u64, other: &Thread) {
        let before = self.0.swap(turn + 1, Ordering::AcqRel);
        assert_eq!(before, turn, "a player played out of turn");
        other.unpark();
    }

    fn wait_for(&self, turn: u64, park: fn()) {
        while self.0.load(Ordering::Acquire) != turn {
            park();
        }
    }
}
