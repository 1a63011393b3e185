//! Counted handles of a channel: the last handle of a side disconnects the channel, and the last of all frees it.
//!
//! A handle is one word: the address of the channel plus the mark of its side. A channel is aligned to words, so no other pointer
//! of the program has that value. A search for deadlocks finds the handles of a side in memory by that (`dump/handles.rs`). The
//! processor adds the mark in the address of each access, so it costs nothing.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::offset_of;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sched::{Awaited, On};

/// What a channel does when all handles of one side are gone, and what dumps see of it.
pub(super) trait Disconnect: Sized {
    /// Returns the counts of the handles.
    fn ends(&self) -> &Ends;
    fn ends_mut(&mut self) -> &mut Ends;
    /// Returns how many messages lie in the channel, and for how many it has room. Takes no lock, so the first number may be out of
    /// date.
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
    /// `new` sets it, before another thread knows the channel. The models' channels have no handles, and name nothing.
    on: On,
}

impl Ends {
    pub(super) fn new() -> Ends {
        Ends { senders: AtomicUsize::new(1), receivers: AtomicUsize::new(1), on: On::new(&(), |()| None) }
    }

    /// Returns what a waiter names as the object of its wait. It lies in the channel, and so lasts as long as the channel.
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
    /// One side is gone and uses the channel no more. The other side frees it.
    half_gone: AtomicBool,
    channel: C,
}

/// The side of a handle: the type decides which count is used.
pub(super) trait Side {
    /// What a handle of this side adds to the address of the channel.
    const MARK: usize;
    fn count(ends: &Ends) -> &AtomicUsize;
    fn gone(channel: &impl Disconnect);
}

/// The side of senders.
pub(super) struct Sending;
/// The side of receivers.
pub(super) struct Receiving;

/// See [`Side::MARK`].
pub(crate) const SENDER: usize = 1;
/// See [`Side::MARK`].
pub(crate) const RECEIVER: usize = 2;

impl Side for Sending {
    const MARK: usize = SENDER;

    fn count(ends: &Ends) -> &AtomicUsize {
        &ends.senders
    }

    fn gone(channel: &impl Disconnect) {
        channel.senders_gone();
    }
}

impl Side for Receiving {
    const MARK: usize = RECEIVER;

    fn count(ends: &Ends) -> &AtomicUsize {
        &ends.receivers
    }

    fn gone(channel: &impl Disconnect) {
        channel.receivers_gone();
    }
}

/// A counted handle of one side.
pub(super) struct Handle<C: Disconnect, S: Side> {
    /// The channel in its `Counted`, plus the mark of the side.
    marked: NonNull<u8>,
    _side: PhantomData<(Box<Counted<C>>, S)>,
}

// SAFETY: like an `Arc`, many threads use the channel through handles, and any of them may free it. So the channel
// must be `Send + Sync`.
unsafe impl<C: Disconnect + Send + Sync, S: Side> Send for Handle<C, S> {}
// SAFETY: a shared `Handle` gives `&C` and clones of itself; `C: Send + Sync` allows both on any thread.
unsafe impl<C: Disconnect + Send + Sync, S: Side> Sync for Handle<C, S> {}

/// Returns the first handle of each side.
pub(super) fn new<C: Disconnect>(channel: C) -> (Handle<C, Sending>, Handle<C, Receiving>) {
    let counted = Box::new(Counted { half_gone: AtomicBool::new(false), channel });
    let mut counted = NonNull::from(Box::leak(counted));
    // SAFETY: the box was just made, and no handle of it exists yet.
    let on = On::new(unsafe { &counted.as_ref().channel }, look::<C>);
    // SAFETY: as above; the reference of the line before is gone, and `on` keeps an address alone.
    unsafe { counted.as_mut() }.channel.ends_mut().on = on;
    (Handle::of(counted), Handle::of(counted))
}

impl<C: Disconnect, S: Side> Handle<C, S> {
    /// The distance of the marked address from the `Counted`. A side's count alone is larger than a mark.
    const OFFSET: usize = {
        assert!(align_of::<C>() > RECEIVER && size_of::<C>() > RECEIVER);
        offset_of!(Counted<C>, channel) + S::MARK
    };

    fn of(counted: NonNull<Counted<C>>) -> Self {
        // SAFETY: the marked address lies in the channel, which is larger than a mark (`OFFSET`).
        Handle { marked: unsafe { counted.cast::<u8>().byte_add(Self::OFFSET) }, _side: PhantomData }
    }

    #[inline]
    fn pointer(&self) -> NonNull<Counted<C>> {
        // SAFETY: `of` has added the distance to a pointer to the `Counted`.
        unsafe { self.marked.byte_sub(Self::OFFSET) }.cast()
    }

    #[inline]
    fn counted(&self) -> &Counted<C> {
        // SAFETY: the channel is freed when no handle is left (`Drop`), and `self` is a handle.
        unsafe { self.pointer().as_ref() }
    }

    /// Returns `true` if both handles are of the same channel.
    pub(super) fn same(&self, other: &Self) -> bool {
        self.marked == other.marked
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
            // Billions of handles were forgotten. A count that overflowed would free a channel that is in use.
            abort();
        }
        Handle { marked: self.marked, _side: PhantomData }
    }
}

impl<C: Disconnect, S: Side> Drop for Handle<C, S> {
    fn drop(&mut self) {
        crate::point_in_drop();
        let counted = self.counted();
        // Release: what was done through this handle happens before the end of its side. Acquire: the last handle of
        // the side sees what was done through the others. Partner: this operation of the other handles.
        if S::count(counted.channel.ends()).fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        S::gone(&counted.channel);
        // Release: what this side did happens before the other side frees the channel. Acquire: the side that frees
        // it sees that. Partner: this swap on the other side.
        if counted.half_gone.swap(true, Ordering::AcqRel) {
            // SAFETY: no handle is left on this side, and `half_gone` says that none is left on the other. `new` made
            // the pointer from a box.
            drop(unsafe { Box::from_raw(self.pointer().as_ptr()) });
        }
    }
}
