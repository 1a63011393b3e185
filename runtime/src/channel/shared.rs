//! A channel between its handles: counted on each side, disconnected when one side is gone, freed when both are.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Deref;
use std::process::abort;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What a channel does when all handles of one side are gone.
pub(super) trait Disconnect {
    /// No sender is left: receivers get what there is, and then hear of it.
    fn senders_gone(&self);
    /// No receiver is left: senders hear of it, and what there is is dropped.
    fn receivers_gone(&self);
}

pub(super) struct Counted<C> {
    senders: AtomicUsize,
    receivers: AtomicUsize,
    /// One side is gone and done with it; the other one frees it.
    half_gone: AtomicBool,
    channel: C,
}

/// Which side a handle is of.
pub(super) trait Side {
    fn count<C>(counted: &Counted<C>) -> &AtomicUsize;
    fn gone(channel: &impl Disconnect);
}

/// A sender's side.
pub(super) struct Sending;
/// A receiver's side.
pub(super) struct Receiving;

impl Side for Sending {
    fn count<C>(counted: &Counted<C>) -> &AtomicUsize {
        &counted.senders
    }

    fn gone(channel: &impl Disconnect) {
        channel.senders_gone();
    }
}

impl Side for Receiving {
    fn count<C>(counted: &Counted<C>) -> &AtomicUsize {
        &counted.receivers
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

// SAFETY: as for an `Arc`: many threads use the channel, and any of them may free it.
unsafe impl<C: Disconnect + Send + Sync, S: Side> Send for Handle<C, S> {}
// SAFETY: likewise.
unsafe impl<C: Disconnect + Send + Sync, S: Side> Sync for Handle<C, S> {}

/// The first handle of each side.
pub(super) fn new<C: Disconnect>(channel: C) -> (Handle<C, Sending>, Handle<C, Receiving>) {
    let counted = Box::new(Counted {
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        half_gone: AtomicBool::new(false),
        channel,
    });
    let counted = NonNull::from(Box::leak(counted));
    (Handle { counted, _side: PhantomData }, Handle { counted, _side: PhantomData })
}

impl<C: Disconnect, S: Side> Handle<C, S> {
    fn counted(&self) -> &Counted<C> {
        // SAFETY: it is freed when no handle is left, and this is one.
        unsafe { self.counted.as_ref() }
    }

    /// Whether both are of the same channel.
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
        // Relaxed: the caller has a handle, so nothing ends meanwhile.
        let count = S::count(self.counted()).fetch_add(1, Ordering::Relaxed);
        if count > isize::MAX as usize {
            // Handles that were forgotten, by the billion: a count that runs over would free what is in use.
            abort();
        }
        Handle { counted: self.counted, _side: PhantomData }
    }
}

impl<C: Disconnect, S: Side> Drop for Handle<C, S> {
    fn drop(&mut self) {
        let counted = self.counted();
        // Release: what was done through this handle comes before the end; Acquire: the last one sees it all.
        if S::count(counted).fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        S::gone(&counted.channel);
        // Likewise: what this side did comes before the other one frees it.
        if counted.half_gone.swap(true, Ordering::AcqRel) {
            // SAFETY: no handle is left on this side, and the other side has been here before.
            drop(unsafe { Box::from_raw(self.counted.as_ptr()) });
        }
    }
}
