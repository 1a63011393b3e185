//! Counted handles of a channel: the last handle of a side disconnects the channel. The second side that is
//! gone, or the last weak handle, frees it.
//!
//! A handle is one word. Weak handles belong to no side. They keep the memory of the channel alone.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use sched::{Awaited, On};

/// What a channel does when all handles of one side are gone, and what dumps see of it.
pub(super) trait Disconnect: Sized {
    /// Returns the counts of the handles.
    fn ends(&self) -> &Ends;
    fn ends_mut(&mut self) -> &mut Ends;
    /// Returns how many messages lie in the channel, and for how many it has room. Takes no lock, so the
    /// first number may be out of date.
    fn fill(&self) -> (usize, Option<usize>);
    /// Called when the last sender is gone. Receivers get the messages that are left, and then an error.
    fn senders_gone(&self);
    /// Called when the last receiver is gone. Senders get an error, and the messages are dropped.
    fn receivers_gone(&self);
}

/// How many handles a channel has, and how a dump looks at the channel.
pub(super) struct Ends {
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// `new` sets it, before another thread knows the channel. The models' channels have no handles, and name
    /// nothing.
    on: On,
}

impl Ends {
    pub(super) fn new() -> Ends {
        Ends { senders: AtomicUsize::new(1), receivers: AtomicUsize::new(1), on: On::new(&(), |()| None) }
    }

    /// Returns what a waiter names as the object of its wait. It lies in the channel, and so lasts as long as
    /// the channel.
    pub(super) fn on(&self) -> &On {
        &self.on
    }
}

/// Tells a dump about a channel. *Runs on: any thread.*
pub(super) fn look<C: Disconnect>(channel: &C) -> Option<Awaited> {
    let (ends, (messages, capacity)) = (channel.ends(), channel.fill());
    Some(Awaited::Channel {
        address: std::ptr::from_ref(channel).addr(),
        // Relaxed: the answer may be out of date on return.
        senders: ends.senders.load(Ordering::Relaxed),
        receivers: ends.receivers.load(Ordering::Relaxed),
        messages,
        capacity,
    })
}

pub(super) struct Counted<C> {
    /// What keeps the memory: 1 for the sending side and 1 for the receiving side, until they use the channel
    /// no more, and `WEAK` for each weak handle. The one that brings it to 0 frees the channel.
    keepers: AtomicUsize,
    channel: C,
}

/// A weak handle, in `keepers`.
const WEAK: usize = 4;

impl<C> Counted<C> {
    fn weak_count(&self) -> usize {
        // Relaxed: the answer may be out of date on return.
        self.keepers.load(Ordering::Relaxed) / WEAK
    }

    /// Counts another weak handle. The caller has a handle, so the channel lasts meanwhile.
    fn keep_weakly(&self) {
        // Relaxed: as in `Handle::clone`.
        if self.keepers.fetch_add(WEAK, Ordering::Relaxed) > isize::MAX as usize {
            abort();
        }
    }

    /// Ends what a side or a weak handle counts for in `keepers`, and frees the channel after the last one.
    ///
    /// # Safety
    /// `new` made `counted`, and the caller, which counts for `part`, does not use it again.
    unsafe fn give_up(counted: NonNull<Counted<C>>, part: usize) {
        // Release: what the caller did happens before the channel is freed. Acquire: the one that frees it
        // sees that. Partner: this operation of the others.
        // SAFETY: the caller still counts, so the channel is not freed.
        if unsafe { counted.as_ref() }.keepers.fetch_sub(part, Ordering::AcqRel) == part {
            // SAFETY: nothing counts any more, so there is no handle. `new` made the pointer from a box.
            drop(unsafe { Box::from_raw(counted.as_ptr()) });
        }
    }
}

/// The side of a handle: the type decides which count is used.
pub(super) trait Side {
    fn count(ends: &Ends) -> &AtomicUsize;
    fn gone(channel: &impl Disconnect);
}

/// The side of senders.
pub(super) struct Sending;
/// The side of receivers.
pub(super) struct Receiving;

impl Side for Sending {
    fn count(ends: &Ends) -> &AtomicUsize {
        &ends.senders
    }

    fn gone(channel: &impl Disconnect) {
        channel.senders_gone();
    }
}

impl Side for Receiving {
    fn count(ends: &Ends) -> &AtomicUsize {
        &ends.receivers
    }

    fn gone(channel: &impl Disconnect) {
        channel.receivers_gone();
    }
}

/// A counted handle of one side.
pub(super) struct Handle<C: Disconnect, S: Side> {
    counted: NonNull<Counted<C>>,
    _side: PhantomData<(Box<Counted<C>>, S)>,
}

// SAFETY: like an `Arc`, many threads use the channel through handles, and any of them may free it. So the
// channel must be `Send + Sync`.
unsafe impl<C: Disconnect + Send + Sync, S: Side> Send for Handle<C, S> {}
// SAFETY: a shared `Handle` gives `&C` and clones of itself; `C: Send + Sync` allows both on any thread.
unsafe impl<C: Disconnect + Send + Sync, S: Side> Sync for Handle<C, S> {}

/// Returns the first handle of each side.
pub(super) fn new<C: Disconnect>(channel: C) -> (Handle<C, Sending>, Handle<C, Receiving>) {
    let counted = Box::new(Counted { keepers: AtomicUsize::new(2), channel });
    let mut counted = NonNull::from(Box::leak(counted));
    // SAFETY: the box was just made, and no handle of it exists yet.
    let on = On::new(unsafe { &counted.as_ref().channel }, look::<C>);
    // SAFETY: as above; the reference of the line before is gone, and `on` keeps an address alone.
    unsafe { counted.as_mut() }.channel.ends_mut().on = on;
    (Handle { counted, _side: PhantomData }, Handle { counted, _side: PhantomData })
}

impl<C: Disconnect, S: Side> Handle<C, S> {
    #[inline]
    fn counted(&self) -> &Counted<C> {
        // SAFETY: the channel is freed when no handle is left (`Drop`), and `self` is a handle.
        unsafe { self.counted.as_ref() }
    }

    /// Returns how many handles of this side there are.
    pub(super) fn count(&self) -> usize {
        self.count_of::<S>()
    }

    /// Returns how many handles of side `O` there are.
    pub(super) fn count_of<O: Side>(&self) -> usize {
        // Relaxed: the answer may be out of date on return.
        O::count(self.ends()).load(Ordering::Relaxed)
    }

    /// Returns how many weak handles there are.
    pub(super) fn weak_count(&self) -> usize {
        self.counted().weak_count()
    }

    /// Returns a weak handle.
    pub(super) fn downgrade(&self) -> Weak<C> {
        self.counted().keep_weakly();
        Weak { counted: self.counted, _channel: PhantomData }
    }

    /// Returns `true` if both handles are of the same channel.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.counted == other.counted
    }
}

impl<C: Disconnect, S: Side> Deref for Handle<C, S> {
    type Target = C;

    #[inline]
    fn deref(&self) -> &C {
        &self.counted().channel
    }
}

impl<C: Disconnect, S: Side> Clone for Handle<C, S> {
    fn clone(&self) -> Self {
        // Relaxed: the caller has a handle, so the channel cannot end meanwhile.
        let count = S::count(self.ends()).fetch_add(1, Ordering::Relaxed);
        if count > isize::MAX as usize {
            // Billions of handles were forgotten. A count that overflowed would free a channel that is in
            // use.
            abort();
        }
        Handle { counted: self.counted, _side: PhantomData }
    }
}

impl<C: Disconnect, S: Side> Drop for Handle<C, S> {
    fn drop(&mut self) {
        crate::point_in_drop();
        let counted = self.counted();
        // Release: what was done through this handle happens before the end of its side. Acquire: the last
        // handle of the side sees what was done through the others. Partner: this operation of the other
        // handles.
        if S::count(counted.channel.ends()).fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        S::gone(&counted.channel);
        // SAFETY: no handle is left on this side, for which this call counts.
        unsafe { Counted::give_up(self.counted, 1) };
    }
}

/// A counted handle of no side: it keeps the memory of the channel.
pub(super) struct Weak<C: Disconnect> {
    counted: NonNull<Counted<C>>,
    _channel: PhantomData<Box<Counted<C>>>,
}

// SAFETY: as of `Handle`: it gives counts, and handles of `C: Send + Sync`, and may free the channel.
unsafe impl<C: Disconnect + Send + Sync> Send for Weak<C> {}
// SAFETY: as above.
unsafe impl<C: Disconnect + Send + Sync> Sync for Weak<C> {}

impl<C: Disconnect> Weak<C> {
    fn counted(&self) -> &Counted<C> {
        // SAFETY: the channel is freed when nothing counts in `keepers`, and `self` does.
        unsafe { self.counted.as_ref() }
    }

    /// Returns how many handles of side `S` there are.
    pub(super) fn count<S: Side>(&self) -> usize {
        // Relaxed: the answer may be out of date on return.
        S::count(self.counted().channel.ends()).load(Ordering::Relaxed)
    }

    /// Returns how many weak handles there are.
    pub(super) fn weak_count(&self) -> usize {
        self.counted().weak_count()
    }

    /// Returns a handle of side `S`, if that side has one.
    pub(super) fn upgrade<S: Side>(&self) -> Option<Handle<C, S>> {
        let count = S::count(self.counted().channel.ends());
        let add = |n: usize| if n == 0 { None } else { n.checked_add(1) };
        // Relaxed: the new handle finds the channel by this weak handle. As in `Handle::clone`, a side that
        // has a handle cannot end before this one is dropped.
        let before = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok()?;
        if before > isize::MAX as usize {
            abort();
        }
        Some(Handle { counted: self.counted, _side: PhantomData })
    }
}

impl<C: Disconnect> Clone for Weak<C> {
    fn clone(&self) -> Self {
        self.counted().keep_weakly();
        Weak { counted: self.counted, _channel: PhantomData }
    }
}

impl<C: Disconnect> Drop for Weak<C> {
    fn drop(&mut self) {
        // SAFETY: `self` counts for this, and is not used again.
        unsafe { Counted::give_up(self.counted, WEAK) };
    }
}
