//! The word on which std's `thread::park` sleeps on the thread of an M. std does not tell its address, but the hook of `futex` sees it:
//! the M parks for no time at its start. (Feature `interpose`; `api/foreign/word.rs` says what the address is for.)

use std::cell::Cell;
use std::time::Duration;

/// The address while the M learns it: no word has this address.
const LEARNS: usize = 1;

/// The address of the word; 0 if it is not known. *Runs on: the M, all methods.*
#[derive(Debug, Default)]
pub(crate) struct StdParker(Cell<usize>);

impl StdParker {
    /// Learns the address, if libc's `syscall` is hooked. The thread is new.
    pub(crate) fn learn(&self) {
        self.0.set(LEARNS);
        for _ in 0..3 {
            // A token that is there already ends the first one without a system call.
            std::thread::park_timeout(Duration::ZERO);
        }
        if self.0.get() == LEARNS {
            self.0.set(0);
        }
    }

    /// Takes `address`, for which the thread is about to wait, for that of the word if `learn` runs.
    pub(crate) fn sees(&self, address: usize) {
        if self.0.get() == LEARNS {
            self.0.set(address);
        }
    }

    /// Returns `true` if the word is known to be at `address`.
    pub(crate) fn is(&self, address: usize) -> bool {
        self.0.get() == address
    }
}
