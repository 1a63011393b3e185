//! Wake-ups that are due when the lock is released.

use std::fmt;
use std::task::Waker;

use crate::g::list::GList;
use crate::g::{GRef, Ticket};
use crate::wake;

/// Somebody whose wait was ended and who is to run: dropping this does it. Not under the lock.
#[must_use = "it is dropped when the lock is released"]
pub struct Wake(Whom);

enum Whom {
    Nobody,
    Parked(GRef),
    Future(Waker),
}

impl Wake {
    /// Whoever it was runs already.
    #[inline]
    pub(super) fn nobody() -> Self {
        Wake(Whom::Nobody)
    }

    #[inline]
    pub(super) fn parked(ticket: Ticket) -> Self {
        Wake(Whom::Parked(ticket.g))
    }

    pub(super) fn future(waker: Waker) -> Self {
        Wake(Whom::Future(waker))
    }
}

impl Drop for Wake {
    #[inline]
    fn drop(&mut self) {
        match std::mem::replace(&mut self.0, Whom::Nobody) {
            Whom::Nobody => {}
            Whom::Parked(g) => wake::ready(g),
            Whom::Future(waker) => wake::call(waker),
        }
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wake").finish_non_exhaustive()
    }
}

/// Many of them: dropping it makes all runnable at once, in order. Not under the lock.
#[must_use = "it is dropped when the lock is released"]
#[derive(Default)]
pub struct Wakes {
    parked: GList,
    futures: Vec<Waker>,
}

impl Wakes {
    /// None yet.
    pub const fn new() -> Self {
        Wakes { parked: GList::new(), futures: Vec::new() }
    }

    /// One more.
    pub fn add(&mut self, mut wake: Wake) {
        match std::mem::replace(&mut wake.0, Whom::Nobody) {
            Whom::Nobody => {}
            // Its wait is decided and we are to make it runnable, so its link is ours.
            Whom::Parked(g) => self.parked.push(g),
            Whom::Future(waker) => self.futures.push(waker),
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
        self.futures.drain(..).for_each(wake::call);
    }
}

impl fmt::Debug for Wakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakes").finish_non_exhaustive()
    }
}
