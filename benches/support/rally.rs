//! Two threads, green or not, that wake each other in turn.

use std::sync::atomic::{AtomicU64, Ordering};

use runtime::thread::Thread;

/// How many turns there have been: the next one is the first player's if that is even.
#[derive(Default)]
pub(crate) struct Rally(AtomicU64);

impl Rally {
    /// Plays the first player's side: `rounds` times it wakes the other, then parks by `park` until it is woken.
    pub(crate) fn serve(&self, rounds: u64, other: &Thread, park: fn()) {
        for round in 0..rounds {
            self.pass(2 * round, other);
            self.wait_for(2 * round + 2, park);
        }
    }

    /// Plays the other side.
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
