//! Which thread took a lock, for dumps and for the search for deadlocks. Recorded only after [`track`], and
//! while a [`Tracking`] lives.
//!
//! A lock that one thread has alone has a [`Holder`]. A reader records its share of a reader-writer lock in a
//! list of its own, because a lock has no room for all its readers. A dumper reads the list of a thread that
//! it holds parked.
//!
//! The taker records itself after it took the lock, and clears the record before it unlocks. So a record
//! never names a thread that has unlocked; a lock without a record may be taken. A guard may be sent to
//! another thread: the record then still names the taker. A thread that unlocks what another thread took is
//! noted ([`guards_travel`]), and the records are taken for guesses from then on.
//!
//! Tracking may end while locks are taken. Each unlock clears the record of its lock all the same. The shares
//! of a reader belong to one period of tracking, and count in that period only.
//!
//! Off, that costs a load and a branch for each lock and unlock.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sched::park::my_id;
use sched::shares::{self, period, set_period};
use sched::sync::Mutex;

/// A thread was seen to unlock what another thread had locked. Relaxed, as all records here: a lock that was
/// taken at the moment of `track` has none, which is allowed.
static TRAVEL: AtomicBool = AtomicBool::new(false);

/// How many want tracking, and the number of the last period.
static WANTED: Mutex<(usize, u32)> = Mutex::new((0, 0));

/// While one lives, locks record the thread that takes them.
#[derive(Debug)]
pub struct Tracking(());

impl Tracking {
    /// Begins a period of tracking, unless there is one.
    pub fn begin() -> Tracking {
        let mut wanted = WANTED.lock();
        wanted.0 += 1;
        if wanted.0 == 1 {
            wanted.1 += 1;
            set_period(wanted.1);
        }
        Tracking(())
    }
}

impl Drop for Tracking {
    fn drop(&mut self) {
        let mut wanted = WANTED.lock();
        wanted.0 -= 1;
        if wanted.0 == 0 {
            set_period(0);
        }
    }
}

/// From now on locks record the thread that takes them, until the process ends.
pub fn track() {
    std::mem::forget(Tracking::begin());
}

/// Returns `true` if locks record the thread that takes them.
#[inline(always)]
pub fn are_tracked() -> bool {
    period() != 0
}

/// Returns `true` if a thread was seen to unlock what another thread had locked.
pub fn guards_travel() -> bool {
    TRAVEL.load(Ordering::Relaxed)
}

/// In a share: its reader may upgrade it. Locks are aligned, so the bit is free in their address.
pub const UPGRADABLE_SHARE: usize = 1;

/// Records that the caller has a share of the lock at `address`. *Runs on: the thread that has just taken the
/// share.*
#[inline(always)]
pub(super) fn took_share(address: usize, upgradable: bool) {
    if are_tracked() {
        shares::add(share(address, upgradable));
    }
}

/// Removes what `took_share` has recorded. *Runs on: the thread that is about to give the share back.*
#[inline(always)]
pub(super) fn gives_share_back(address: usize, upgradable: bool) {
    // A share without a record was taken before `track`, or by another thread: its record stays.
    if are_tracked() && !shares::remove(share(address, upgradable)) {
        TRAVEL.store(true, Ordering::Relaxed);
    }
}

#[inline(always)]
fn share(address: usize, upgradable: bool) -> usize {
    address | if upgradable { UPGRADABLE_SHARE } else { 0 }
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
        if are_tracked() {
            self.record();
        }
    }

    #[cold]
    #[inline(never)]
    fn record(&self) {
        self.0.store(my_id(), Ordering::Relaxed);
    }

    /// Clears the record, also if tracking has ended since. *Runs on: the thread that is about to unlock.*
    #[inline(always)]
    pub(super) fn unlocks(&self) {
        let taker = self.0.load(Ordering::Relaxed);
        if taker != 0 {
            self.clear(taker);
        }
    }

    #[cold]
    #[inline(never)]
    fn clear(&self, taker: u64) {
        if taker != my_id() {
            TRAVEL.store(true, Ordering::Relaxed);
        }
        self.0.store(0, Ordering::Relaxed);
    }

    /// Returns the id of the taker, if it is recorded.
    pub(super) fn id(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&id| id != 0)
    }
}
