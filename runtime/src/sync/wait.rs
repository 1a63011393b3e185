//! Waits of the types in this module. `wait_or_unwind` is for locks. The others are for state that changes.
//! Waiters look at the state, wait in a queue of the same lock, and look again when they are woken.
//!
//! ```text
//!   the waiter                                        the thread that changes the state
//!   lock                                              lock
//!   look at the state: done if it has what is wanted  change the state
//!   enter the queue                                   take all waiters out of the queue (`all`)
//!   unlock                                            unlock
//!   park, or return `Pending`; then from the start    wake these waiters
//! ```
//!
//! The waiter looks and enters under one lock, and each change wakes all waiters, so no change is missed. A
//! wake-up carries no grant, so a waiter that leaves takes nothing with it. The queue has the protocol and
//! its models; there is no further one here.

#![allow(unsafe_code)]

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use sched::budget;
use sched::park::{Waiting, unwind_if_cancelled};
use sched::{Cancel, Outcome, Why};
use waits::locks::Patience;
use waits::queue::{Lock, Queue, WaitFuture, Wakes, wait};

/// Waits with `wait`, which has no deadline of its own, and returns its value. Unwinds a caller that is
/// cancelled or whose time-out is over.
pub(super) fn wait_or_unwind<T>(mut wait: impl FnMut(Patience) -> Result<T, Outcome>) -> T {
    loop {
        match wait(Patience::LONG) {
            Ok(value) => return value,
            // The cancellation or time-out may no longer hold, and then this does not unwind. The loop waits
            // again.
            Err(_) => unwind_if_cancelled(),
        }
    }
}

/// Selects the queue in which a waiter waits for a change of `S`.
pub(super) type QueueOf<S> = fn(&mut S) -> &mut Queue<()>;

/// Takes all waiters out of the queue. Drop the result after the lock is released: that wakes them.
pub(super) fn all(queue: &mut Queue<()>) -> Wakes {
    let mut wakes = Wakes::new();
    while let Some(wake) = queue.wake_first(|()| ()) {
        wakes.add(wake);
    }
    wakes
}

/// Returns what `look` finds in the state. Parks the caller until `look` finds something. Returns `None` if
/// `deadline` passes first. `look` runs under the lock, so it runs no user code. Unwinds a caller that is
/// cancelled or whose time-out is over.
pub(super) fn wait_for<S, R>(
    lock: &Lock<S>,
    queue: QueueOf<S>,
    why: Why,
    deadline: Option<Instant>,
    mut look: impl FnMut(&mut S) -> Option<R>,
) -> Option<R> {
    loop {
        let mut state = lock.lock();
        if let Some(found) = look(&mut state) {
            return Some(found);
        }
        match wait(state, queue, Waiting::begin_for(why, Cancel::Ends), deadline, ()) {
            Ok(()) => {}
            Err(mut ended) if ended.outcome == Outcome::TimedOut => return look(&mut ended.guard),
            Err(ended) => {
                drop(ended);
                unwind_if_cancelled();
            }
        }
    }
}

/// Returns what `look` finds in the state, in a future that waits until then. `look` runs under the lock, so
/// it runs no user code.
pub(super) async fn wait_for_async<S, R>(
    lock: &Lock<S>,
    queue: QueueOf<S>,
    mut look: impl FnMut(&mut S) -> Option<R>,
) -> R {
    let mut waits = pin!(WaitFuture::new(lock, queue, ()));
    std::future::poll_fn(|cx| poll_for(waits.as_mut(), cx, &mut look)).await
}

fn poll_for<S, R>(
    mut waits: Pin<&mut WaitFuture<'_, S, (), ()>>,
    cx: &mut Context<'_>,
    look: &mut impl FnMut(&mut S) -> Option<R>,
) -> Poll<R> {
    budget::poll(cx, |cx| {
        if waits.is_waiting() {
            ready!(waits.as_mut().poll_granted(cx));
        }
        let waker = cx.waker().clone();
        let mut state = waits.lock().lock();
        match look(&mut state) {
            Some(found) => Poll::Ready(found),
            None => {
                waits.enter(state, waker, ());
                Poll::Pending
            }
        }
    })
}

/// A wait of a future that shares the lock with others in an `Arc`, and so has no lifetime. It allocates when
/// it first waits.
pub(super) struct OwnedWait<O, S: 'static>(Option<Pin<Box<Owned<O, S>>>>);

struct Owned<O, S: 'static> {
    /// Refers to the lock in `_owner`. Pinned with this value, and dropped before `_owner`.
    waits: WaitFuture<'static, S, (), ()>,
    _owner: Arc<O>,
}

impl<O, S: 'static> OwnedWait<O, S> {
    pub(super) const fn new() -> Self {
        OwnedWait(None)
    }

    /// Polls for what `look` finds in the state under the lock that `lock` selects. `look` runs under that
    /// lock, so it runs no user code. `owner`, `lock` and `queue` are the same in each call.
    pub(super) fn poll<R>(
        &mut self,
        owner: &Arc<O>,
        lock: fn(&O) -> &Lock<S>,
        queue: QueueOf<S>,
        cx: &mut Context<'_>,
        mut look: impl FnMut(&mut S) -> Option<R>,
    ) -> Poll<R> {
        let owned = self.0.get_or_insert_with(|| {
            let owner = Arc::clone(owner);
            // SAFETY: `lock` selects a part of the value in the `Arc`, which does not move. `Owned` keeps the
            // `Arc` until `waits` is dropped, because fields are dropped in the order of their declaration.
            // No reference of this lifetime leaves `Owned`: `waits` is private, and `poll_for` returns `R`
            // alone.
            let lock: &'static Lock<S> = unsafe { &*std::ptr::from_ref(lock(&owner)) };
            Box::pin(Owned { waits: WaitFuture::new(lock, queue, ()), _owner: owner })
        });
        // SAFETY: `waits` is pinned because the box is; nothing moves it out of the box.
        let waits = unsafe { owned.as_mut().map_unchecked_mut(|owned| &mut owned.waits) };
        poll_for(waits, cx, &mut look)
    }
}
