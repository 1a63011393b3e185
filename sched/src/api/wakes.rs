//! Deciding a wait by its ticket, and the wakes that a granter holds back until it has released its lock:
//! `Wake` for one waiter, `Wakes` for many. The wait queues of other crates stand on these.

use std::fmt;
use std::task::Waker;

use crate::api::park;
use crate::g::list::GList;
use crate::g::wait::{Decision, Outcome};
use crate::g::{GRef, Ticket};
use crate::run::wake;
use crate::sys::catch_panic::call_waker;

impl Ticket {
    /// Decides the wait as woken by `case`. Returns the wake that makes the waiter runnable; `None` if the
    /// wait had ended otherwise. A waiter that was woken by a queue takes its node for unlinked: the queue
    /// unlinks it first. *Runs on: any thread.*
    #[inline]
    pub fn decide(self, case: u32) -> Option<Wake> {
        match self.g.wait.decide_case(self.number, Outcome::Woken, case) {
            Decision::Lost => None,
            Decision::Early => Some(Wake::none()),
            Decision::Parked => Some(Wake(Recipient::Parked(self.g))),
        }
    }

    /// Returns `true` if the wait of this ticket is not decided. *Runs on: any thread.*
    #[inline]
    pub fn is_open(self) -> bool {
        self.g.wait.is_open(self.number)
    }

    /// Decides the own wait before parking: what `case` waits for is there already. Returns `false` if
    /// another thread has decided the wait. *Runs on: the waiter.*
    #[inline]
    pub fn decide_own(self, case: u32) -> bool {
        self.g.wait.decide_case(self.number, Outcome::Woken, case) != Decision::Lost
    }

    /// Decides the own wait as timed out, before parking. Returns `false` if another thread has decided the
    /// wait. *Runs on: the waiter.*
    pub fn give_up(self) -> bool {
        self.g.wait.decide(self.number, Outcome::TimedOut) != Decision::Lost
    }

    /// Returns the case that ended the wait. *Runs on: the waiter, after its wait ended as woken and before
    /// its next wait.*
    pub fn case(self) -> u32 {
        self.g.wait.case()
    }
}

/// A waiter with a decided wait that is still to be made runnable. Dropping this does so. Drop it after the
/// lock is released. Only a won decision makes the wake of a parked waiter ([`Ticket::decide`]), so each
/// waiter is made runnable once.
#[must_use = "drop it after the lock is released"]
pub struct Wake(Recipient);

enum Recipient {
    NoWaiter,
    Parked(GRef),
    Future(Waker),
}

impl Wake {
    /// Makes a wake without effect: the waiter had not parked yet, so it goes on by itself.
    #[inline]
    pub fn none() -> Self {
        Wake(Recipient::NoWaiter)
    }

    /// Makes a wake that calls `waker`. A panic of the waker is reported, and the caller goes on.
    pub fn future(waker: Waker) -> Self {
        Wake(Recipient::Future(waker))
    }

    /// Does what the drop does, for a caller that has begun a wait. A waker is user code, and may wait
    /// itself.
    pub fn deliver_apart(mut self) {
        if let Recipient::Future(waker) = &mut self.0 {
            // The drop then calls this waker, which has no effect.
            let waker = std::mem::replace(waker, Waker::noop().clone());
            park::apart(|| call_waker(waker));
        }
    }
}

impl Drop for Wake {
    #[inline]
    fn drop(&mut self) {
        match std::mem::replace(&mut self.0, Recipient::NoWaiter) {
            Recipient::NoWaiter => {}
            Recipient::Parked(g) => wake::ready(g),
            Recipient::Future(waker) => call_waker(waker),
        }
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").finish_non_exhaustive()
    }
}

/// A batch of wakes. Dropping it makes all their waiters runnable at once, in order. Drop it after the lock
/// is released.
#[must_use = "drop it after the lock is released"]
#[derive(Default)]
pub struct Wakes {
    parked: GList,
    futures: Vec<Waker>,
}

impl Wakes {
    /// Makes an empty batch.
    pub const fn new() -> Self {
        Wakes { parked: GList::new(), futures: Vec::new() }
    }

    /// Adds a wake to the batch.
    pub fn add(&mut self, mut wake: Wake) {
        match std::mem::replace(&mut wake.0, Recipient::NoWaiter) {
            Recipient::NoWaiter => {}
            // The wait is decided, and this wake alone makes the G runnable. So the G's link is free for this
            // list.
            Recipient::Parked(g) => self.parked.push(g),
            Recipient::Future(waker) => self.futures.push(waker),
        }
    }
}

impl Extend<Wake> for Wakes {
    fn extend<I: IntoIterator<Item = Wake>>(&mut self, wakes: I) {
        wakes.into_iter().for_each(|wake| self.add(wake));
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        wake::ready_many(std::mem::take(&mut self.parked));
        self.futures.drain(..).for_each(call_waker);
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakes").finish_non_exhaustive()
    }
}
