//! The raw locks under `runtime::sync`: a word that says everything while nobody waits, and the wait queue behind it.
//!
//! Taking a free lock is one compare-and-swap of its word, and giving it back is one subtraction; neither enters the
//! runtime. Who finds a lock taken queues up under the small lock of its wait queue (`queue.rs`), and says so in the word.
//! Whoever gives the lock back finds that there, and looks after the queue:
//!
//! ```text
//!   giving back                                  taking, not free
//!   word -= LOCKED                               the queue's lock
//!   somebody waits, and nobody is on its way?    word |= WAITING, only if it is taken still; else try again
//!     the queue's lock                           push the node, unlock, park
//!     word |= WOKEN, wake the first              woken: try again, clearing WOKEN; not free? the first place
//!     STARVING: make it the first one's          it is ours already: done
//! ```
//!
//! - *Normally a woken one is given nothing*: it tries again, beside those who come along. They run already and may take
//!   and give back the lock many times before it is there, which is what makes a contended lock fast. Until it has looked
//!   (`WOKEN`), nobody else is woken.
//! - *Who has waited for a millisecond and comes too late again* makes the lock `STARVING`: from then on nobody takes it
//!   out of turn, and whoever gives it back hands it to the first in the queue, until one is served that had not waited
//!   that long. (Go's mutex does the same.)
//! - *Leaving*, timed out or cancelled, is done under the queue's lock. A hand-over that meets one who has left goes to
//!   the next, and if there is none the lock is free.
//!
//! The rest of a word says who has the lock; it belongs to each file. What holds for all: `WAITING` says whether the queue
//! is empty, and changes under its lock; `STARVING` comes only while the lock is taken, and only with `WAITING`.
//!
//! What was rejected: always handing over (each use of a contended lock would be a switch, and two green threads that use
//! one in turn would stay in step for ever); the word under the queue's lock (two more writes for each use of a free one).

#![cfg_attr(not(loom), allow(unsafe_code))]

mod condvar;
mod mutex;
mod once;
mod rwlock;

use std::time::Instant;

use crate::g::wait::Cancel;
use crate::g::why::Why;
use crate::queue::{Ended, Guard, How, Queue, wait};

pub use condvar::{Condvar, OtherMutex};
pub use mutex::Mutex;
pub use once::{Once, Stage};
pub use rwlock::{RwLock, Wants};

#[cfg(not(loom))]
use crate::park::{Waiting, spinning_pays};
use crate::queue::Wakes;
#[cfg(loom)]
use crate::queue::modelled::Waiting;

/// How long somebody is ready to wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Whether a cancellation ends it.
    pub cancel: Cancel,
    /// When it ends by itself.
    pub deadline: Option<Instant>,
}

impl Patience {
    /// Without an end, but for a cancellation.
    pub const LONG: Patience = Patience { cancel: Cancel::Ends, deadline: None };
    /// Without an end.
    pub const ENDLESS: Patience = Patience { cancel: Cancel::Waits, deadline: None };

    /// Until then, or a cancellation.
    pub fn until(deadline: Instant) -> Patience {
        Patience { deadline: Some(deadline), ..Patience::LONG }
    }
}

/// Since when somebody waits, and how often it came in vain.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    since: Option<u64>,
    woken: bool,
}

impl Line {
    /// One who was woken, and whose time begins now.
    fn woken() -> Self {
        Line { since: None, woken: true }
    }

    /// Since when it waits, which may be now.
    fn since(&mut self) -> u64 {
        *self.since.get_or_insert_with(now)
    }

    /// Whether it has come in vain, and has waited for too long.
    fn starves(&self) -> bool {
        self.woken && self.since.is_some_and(is_long_ago)
    }
}

/// Who has waited for so long is handed the lock.
#[cfg(not(loom))]
const PATIENCE_NS: u64 = 1_000_000;
/// In the models whoever came in vain once.
#[cfg(loom)]
const PATIENCE_NS: u64 = 0;

fn is_long_ago(since: u64) -> bool {
    now().saturating_sub(since) >= PATIENCE_NS
}

#[cfg(not(loom))]
fn now() -> u64 {
    timers::clock::now()
}

#[cfg(loom)]
fn now() -> u64 {
    0
}

/// Looks at a lock that is taken a few times before queueing up, where that pays: `free` is asked until it says so.
#[cfg(not(loom))]
fn spin(mut free: impl FnMut() -> Option<bool>) -> bool {
    const ROUNDS: u32 = 4;
    const PAUSES: u32 = 30;
    // It may be free, with others who wait: whoever comes along first takes it.
    if let Some(end) = free() {
        return end;
    }
    if !spinning_pays() {
        return false;
    }
    for _ in 0..ROUNDS {
        (0..PAUSES).for_each(|_| std::hint::spin_loop());
        if let Some(end) = free() {
            return end;
        }
    }
    false
}

/// The models have enough orders without.
#[cfg(loom)]
fn spin(_free: impl FnMut() -> Option<bool>) -> bool {
    false
}

/// Queues up and waits. Gives the payload, with what was granted in it.
///
/// # Errors
/// It ended otherwise than as woken.
fn stay<'l, S, T>(
    why: Why,
    guard: Guard<'l, S>,
    queue: impl Fn(&mut S) -> &mut Queue<T>,
    line: Line,
    patience: Patience,
    payload: T,
) -> Result<T, Ended<'l, S, T>> {
    check_fork(patience);
    let how = How { first: line.woken, deadline: patience.deadline, ..How::default() };
    wait(guard, queue, Waiting::begin_for(why, patience.cancel), how, payload)
}

/// In a child of `fork`, whoever could give it back may not be there: waiting for ever is refused while it may still unwind.
#[cfg(not(loom))]
fn check_fork(patience: Patience) {
    match (patience.deadline, patience.cancel) {
        (None, Cancel::Ends) => crate::fork::check_or_panic(),
        (None, Cancel::Waits) => crate::fork::check_or_abort(),
        _ => {}
    }
}

#[cfg(loom)]
fn check_fork(_patience: Patience) {}

#[cfg(all(test, loom))]
mod models;
