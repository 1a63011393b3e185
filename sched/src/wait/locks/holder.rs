//! Which thread took a lock, for dumps and for the search for deadlocks. Recorded only after [`track`].
//!
//! A lock that one thread has alone has a [`Holder`]. A share of a reader-writer lock is recorded by its reader, in a list of the
//! reader's own: a lock has no room for all its readers. A dumper reads the list of a thread that it holds parked.
//!
//! The taker records itself after it took the lock, and clears the record before it unlocks. So a record never names a thread that
//! has unlocked; a lock without a record may be taken. A guard may be sent to another thread: the record then still names the taker.
//! A thread that unlocks what another thread took is noted ([`guards_travel`]), and the records are taken for guesses from then on.
//!
//! Off, that costs a load and a branch for each lock and unlock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::api::park::{me, my_id};

// Relaxed everywhere: a lock that was taken at the moment of `track` has no record, which is allowed. A reader that needs a true
// record holds the recorded thread in its parked wait, and so sees all that this thread has done.
static TRACKED: AtomicBool = AtomicBool::new(false);
static TRAVEL: AtomicBool = AtomicBool::new(false);

/// From now on locks record the thread that takes them.
pub fn track() {
    TRACKED.store(true, Ordering::Relaxed);
}

/// Returns `true` after the first call of [`track`].
pub fn are_tracked() -> bool {
    // Relaxed: a hint.
    TRACKED.load(Ordering::Relaxed)
}

/// Returns `true` if a thread was seen to unlock what another thread had locked.
pub fn guards_travel() -> bool {
    TRAVEL.load(Ordering::Relaxed)
}

/// In a share: its reader may upgrade it. Locks are aligned, so the bit is free in their address.
pub const UPGRADABLE_SHARE: usize = 1;

/// Records that the caller has a share of the lock at `address`. *Runs on: the thread that has just taken the share.*
#[inline(always)]
pub(super) fn took_share(address: usize, upgradable: bool) {
    if TRACKED.load(Ordering::Relaxed) {
        add_share(address | if upgradable { UPGRADABLE_SHARE } else { 0 });
    }
}

#[cold]
#[inline(never)]
fn add_share(share: usize) {
    me().rare_or_new().shares.borrow_mut().push(share);
}

/// Removes what `took_share` has recorded. *Runs on: the thread that is about to give the share back.*
#[inline(always)]
pub(super) fn gives_share_back(address: usize, upgradable: bool) {
    if TRACKED.load(Ordering::Relaxed) {
        remove_share(address | if upgradable { UPGRADABLE_SHARE } else { 0 });
    }
}

#[cold]
#[inline(never)]
fn remove_share(share: usize) {
    let mut shares = me().rare_or_new().shares.borrow_mut();
    match shares.iter().rposition(|&other| other == share) {
        Some(at) => _ = shares.swap_remove(at),
        // Taken before `track`, or by another thread: its record stays.
        None => TRAVEL.store(true, Ordering::Relaxed),
    }
}

/// The record of one lock: the id of its taker, or 0.
pub(super) struct Holder(AtomicU64);

impl Holder {
    pub(super) const fn new() -> Holder {
        Holder(AtomicU64::new(0))
    }

    /// Records the caller. *Runs on: the thread that has just taken the lock.*
    #[inline(always)]
    pub(super) fn took(&self) {
        if TRACKED.load(Ordering::Relaxed) {
            self.record();
        }
    }

    #[cold]
    #[inline(never)]
    fn record(&self) {
        self.0.store(my_id(), Ordering::Relaxed);
    }

    /// Clears the record. *Runs on: the thread that is about to unlock.*
    #[inline(always)]
    pub(super) fn unlocks(&self) {
        if TRACKED.load(Ordering::Relaxed) {
            self.clear();
        }
    }

    #[cold]
    #[inline(never)]
    fn clear(&self) {
        let taker = self.0.load(Ordering::Relaxed);
        if taker != 0 {
            if taker != my_id() {
                TRAVEL.store(true, Ordering::Relaxed);
            }
            self.0.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the id of the taker, if it is recorded.
    pub(super) fn id(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&id| id != 0)
    }
}
