//! The word on which std's `thread::park` waits on the thread of an M. std does not reveal its address, but
//! the hook of `futex` sees it: the M parks for no time at its start. (Feature `interpose`;
//! `api/std_wait.rs` says what the address is for.)
//!
//! The word has room for one sleeper: std spins if a second one parks. And std's code changes it without a
//! call that can be hooked. But several Gs may be parked on it. A G claims its M when it parks so, and others
//! may be bound to that M already. So the word belongs to the G that runs on the thread. The word is PARKED
//! only while no G runs there:
//!
//! ```text
//!   the M and its Gs                                 `unpark` of its thread, on any thread
//!   a G parks: std makes the word PARKED             make the word NOTIFIED
//!   no G runs, but some are parked                   it was PARKED? wake
//!   a G is about to run: PARKED becomes EMPTY          all Gs that are parked on the word
//!     it was parked here: make the word NOTIFIED,
//!     which std takes as the token that it waited for
//!   it stops: make the word PARKED again;            meanwhile it finds EMPTY, and wakes no G
//!     it was NOTIFIED? wake all
//! ```
//!
//! - *While no G runs on the thread, an `unpark` is seen.* The word is PARKED then.
//! - *All wake*, because `unpark` names the OS thread. `park` may return without a cause.
//! - *One token may go to another G.* A G that runs there and parks takes a token that is meant for a parked
//!   one, and makes no call that shows it. So a wait beside others ends without a cause after [`LIMIT`]. A G
//!   that has its M alone needs no limit.

#![allow(unsafe_code)]

pub(crate) mod word;

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// How long a wait beside others lasts at most.
pub(crate) const LIMIT: Duration = Duration::from_millis(50);

/// The address of the word, once it is known.
#[derive(Debug, Default)]
pub(crate) struct StdParker {
    /// The address of the word; 0 if it is not known.
    address: Cell<usize>,
    /// True while the M learns the address.
    learns: Cell<bool>,
    /// How many Gs are parked on the word.
    parked: Cell<usize>,
    /// Wakes them all, if one is.
    wake: Cell<Option<fn(usize)>>,
}

impl StdParker {
    /// Learns the address, if libc's `syscall` is hooked. The thread is new.
    pub(crate) fn learn(&self) {
        self.learns.set(true);
        for _ in 0..3 {
            // A token that is there already ends the first one without a system call.
            std::thread::park_timeout(Duration::ZERO);
        }
        self.learns.set(false);
    }

    /// Takes `word`, for which the thread is about to wait, for its own if `learn` runs. Returns `true` if it
    /// has: then the wait is over.
    pub(crate) fn sees(&self, word: &AtomicU32) -> bool {
        if self.learns.get() {
            self.address.set(ptr::from_ref(word).expose_provenance());
        }
        self.learns.get()
    }

    /// Returns `true` if `word` is known to be that of this thread.
    pub(crate) fn is(&self, word: &AtomicU32) -> bool {
        self.address.get() == ptr::from_ref(word).addr()
    }

    fn word(&self) -> Option<&AtomicU32> {
        // SAFETY: `sees` exposed the address of a word in the handle of this thread, which std keeps until
        // the thread ends.
        unsafe { ptr::with_exposed_provenance::<AtomicU32>(self.address.get()).as_ref() }
    }

    /// A G begins to wait for the word of this thread. `wake` wakes all that wait for the word at an address.
    pub(crate) fn begins(&self, wake: fn(usize)) {
        self.wake.set(Some(wake));
        self.parked.set(self.parked.get() + 1);
    }

    /// The wait of a G has ended, and its `park` returns. `timed_out` says that its own time is up: std then
    /// needs no token.
    pub(crate) fn ends(&self, word: &AtomicU32, timed_out: bool) {
        self.parked.set(self.parked.get() - 1);
        if !timed_out {
            word::go_on(word);
        }
    }

    /// The code of a G on this thread is about to go on.
    pub(crate) fn is_entered(&self) {
        if self.parked.get() > 0
            && let Some(word) = self.word()
        {
            word::enter(word);
        }
    }

    /// The code of a G on this thread has stopped.
    pub(crate) fn is_left(&self) {
        if self.parked.get() > 0
            && let Some(word) = self.word()
            && word::leave(word)
            && let Some(wake) = self.wake.get()
        {
            wake(self.address.get());
        }
    }
}
