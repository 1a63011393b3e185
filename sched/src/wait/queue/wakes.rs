//! Wakes that a granter holds back until it has released the lock: `Wake` for one waiter, `Wakes` for many.

use std::fmt;
use std::task::Waker;

use crate::api::park;
use crate::g::list::GList;
use crate::g::{GRef, Ticket};
use crate::run::wake;
use crate::sys::catch_panic::call_waker;

/// A waiter with a decided wait that is still to be made runnable. Dropping this does so. Drop it after the
/// lock is released.
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
    pub(super) fn none() -> Self {
        Wake(Recipient::NoWaiter)
    }

    #[inline]
    pub(super) fn parked(ticket: Ticket) -> Self {
        Wake(Recipient::Parked(ticket.g))
    }

    pub(super) fn future(waker: Waker) -> Self {
        Wake(Recipient::Future(waker))
    }

    /// Does what the drop does, for a caller that has begun a wait. A waker is user code, and may wait
    /// itself.
    pub(crate) fn deliver_apart(mut self) {
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
