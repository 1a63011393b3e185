//! The raw reader-writer lock: the traits of `lock_api`, implemented by the lock of `sched`.

#![allow(unsafe_code)]

use std::panic::Location;
use std::time::{Duration, Instant};

use lock_api::{GuardSend, RawRwLock as _, RawRwLockUpgrade as _};
use sched::park::unwind_if_cancelled;
use sched::{Cancel, Outcome};
use waits::locks::{self, Patience, Wants};

use crate::sync::relock::is_relock;

/// The raw lock of [`RwLock`](super::RwLock), for types that are generic over the traits of `lock_api`.
///
/// With `RECURSIVE` it is the raw lock of [`RecursiveRwLock`](super::RecursiveRwLock).
///
/// ```
/// use runtime::sync::{RawRwLock, lock_api};
///
/// let count = lock_api::RwLock::<RawRwLock, i32>::new(1);
/// assert_eq!(*count.read(), 1);
/// ```
#[derive(Debug, Default)]
pub struct RawRwLock<const RECURSIVE: bool = false>(locks::RwLock<RECURSIVE>);

/// The raw lock of [`RecursiveRwLock`](super::RecursiveRwLock).
///
/// ```
/// use runtime::sync::{RawRwLockRecursive, lock_api};
///
/// let count = lock_api::RwLock::<RawRwLockRecursive, i32>::new(1);
/// assert_eq!(*count.read(), *count.read());
/// ```
pub type RawRwLockRecursive = RawRwLock<true>;

impl<const RECURSIVE: bool> RawRwLock<RECURSIVE> {
    /// Returns the lock of `sched`, for futures.
    pub(in crate::sync) fn sched_lock(&self) -> &locks::RwLock<RECURSIVE> {
        &self.0
    }

    /// Waits for the lock, which was not free when `caller` asked for it.
    #[cold]
    fn lock_slow(&self, wants: Wants, caller: &'static Location<'static>) {
        while self.0.lock_slow(wants, Patience::LONG).is_err() {
            if is_relock(caller) {
                return self.0.lock_anyway(wants);
            }
            // The cancellation or time-out may no longer hold, and then this does not unwind. The loop waits
            // again.
            unwind_if_cancelled();
        }
    }

    #[cold]
    fn lock_until(&self, wants: Wants, deadline: Option<Instant>) -> Option<GuardSend> {
        crate::point();
        loop {
            match self.0.lock_slow(wants, Patience { deadline, ..Patience::LONG }) {
                Ok(()) => return Some(GuardSend::new()),
                // As in `lock_slow`: the loop waits again if this does not unwind.
                Err(Outcome::Cancelled) => unwind_if_cancelled(),
                Err(_) => return None,
            }
        }
    }

    /// Upgrades the caller's share. Returns `false` if `deadline` has passed. Unwinds a cancelled caller,
    /// unless `caller` is in `lock_api` itself (`sync/relock.rs`).
    ///
    /// # Safety
    /// The caller has the upgradable share. It has none if this unwinds.
    #[cold]
    unsafe fn upgrade_slow(&self, deadline: Option<Instant>, caller: &'static Location<'static>) -> bool {
        let mut cancel = Cancel::Ends;
        loop {
            // SAFETY: the caller has the upgradable share, by the contract of this function.
            match unsafe { self.0.upgrade_slow(Patience { cancel, deadline }) } {
                Ok(()) => return true,
                Err(Outcome::Cancelled) if is_relock(caller) => cancel = Cancel::Waits,
                Err(Outcome::Cancelled) => {
                    let share = ReleaseOnUnwind(&self.0);
                    unwind_if_cancelled();
                    // As in `lock_slow`: the loop waits again if `unwind_if_cancelled` does not unwind.
                    std::mem::forget(share);
                }
                Err(_) => return false,
            }
        }
    }
}

/// Releases an upgradable share when its owner unwinds.
struct ReleaseOnUnwind<'l, const RECURSIVE: bool>(&'l locks::RwLock<RECURSIVE>);

impl<const RECURSIVE: bool> Drop for ReleaseOnUnwind<'_, RECURSIVE> {
    fn drop(&mut self) {
        // SAFETY: `upgrade_slow` made this value of its caller's share, which is not used after the
        // unwinding.
        unsafe { self.0.unlock_upgradable() };
    }
}

fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}

// SAFETY: `locks::RwLock` has readers, or one writer. Its word is taken with Acquire and released with
// Release.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLock for RawRwLock<RECURSIVE> {
    #[allow(clippy::declare_interior_mutable_const, reason = "the trait asks for it")]
    const INIT: Self = RawRwLock(locks::RwLock::new());

    // The lock belongs to no thread, so guards may be sent.
    type SharedGuard = GuardSend;
    type ExclusiveGuard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock_shared(&self) -> GuardSend {
        crate::point();
        if !self.0.try_lock_shared() {
            self.lock_slow(Wants::Shared, Location::caller());
        }
        GuardSend::new()
    }

    #[inline]
    fn try_lock_shared(&self) -> Option<GuardSend> {
        crate::point();
        self.0.try_lock_shared().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_shared(&self, _guard: GuardSend) {
        crate::point_in_drop();
        // SAFETY: the caller has a share; it passes the guard as the proof.
        unsafe { self.0.unlock_shared() };
    }

    #[inline]
    #[track_caller]
    fn lock_exclusive(&self) -> GuardSend {
        crate::point();
        if !self.0.try_lock_alone() {
            self.lock_slow(Wants::Alone, Location::caller());
        }
        GuardSend::new()
    }

    #[inline]
    fn try_lock_exclusive(&self) -> Option<GuardSend> {
        crate::point();
        self.0.try_lock_alone().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self, _guard: GuardSend) {
        crate::point_in_drop();
        // SAFETY: the caller is the writer; it passes the guard as the proof.
        unsafe { self.0.unlock_alone() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        crate::point();
        self.0.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_alone()
    }
}

// SAFETY: a fair unlock makes the woken waiters the owners. The `bump`s do not unwind, so the caller's guard
// stays valid.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockFair for RawRwLock<RECURSIVE> {
    #[inline]
    unsafe fn unlock_shared_fair(&self, _guard: GuardSend) {
        // SAFETY: the caller has a share, by the contract of the trait.
        unsafe { self.0.unlock_fair(Wants::Shared) };
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self, _guard: GuardSend) {
        // SAFETY: the caller is the writer, by the contract of the trait.
        unsafe { self.0.unlock_fair(Wants::Alone) };
    }

    #[inline]
    unsafe fn bump_shared(&self, _guard: &mut GuardSend) {
        // SAFETY: the caller has a share, by the contract of the trait.
        unsafe { self.bump(Wants::Shared) };
    }

    #[inline]
    unsafe fn bump_exclusive(&self, _guard: &mut GuardSend) {
        // SAFETY: the caller is the writer, by the contract of the trait.
        unsafe { self.bump(Wants::Alone) };
    }
}

impl<const RECURSIVE: bool> RawRwLock<RECURSIVE> {
    /// # Safety
    /// The caller has the lock as `has` says. It has it again when this returns.
    #[inline]
    unsafe fn bump(&self, has: Wants) {
        if self.0.is_waited_for() {
            // SAFETY: the caller has the lock as `has` says, by the contract of this function. Neither call
            // unwinds.
            unsafe { self.0.unlock_fair(has) };
            self.0.lock_anyway(has);
        }
    }
}

// SAFETY: `downgrade` releases what the writer wrote, and leaves the caller a share.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockDowngrade for RawRwLock<RECURSIVE> {
    #[inline]
    unsafe fn downgrade(&self, guard: GuardSend) -> GuardSend {
        crate::point_in_drop();
        // SAFETY: the caller is the writer, by the contract of the trait.
        unsafe { self.0.downgrade(Wants::Alone, Wants::Shared) };
        guard
    }
}

// SAFETY: `true` is returned only if the caller got the lock, as in `RawRwLock`.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockTimed for RawRwLock<RECURSIVE> {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_shared_for(&self, timeout: Duration) -> Option<GuardSend> {
        self.try_lock_shared().or_else(|| self.lock_until(Wants::Shared, after(timeout)))
    }

    #[inline]
    fn try_lock_shared_until(&self, deadline: Instant) -> Option<GuardSend> {
        self.try_lock_shared().or_else(|| self.lock_until(Wants::Shared, Some(deadline)))
    }

    #[inline]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> Option<GuardSend> {
        self.try_lock_exclusive().or_else(|| self.lock_until(Wants::Alone, after(timeout)))
    }

    #[inline]
    fn try_lock_exclusive_until(&self, deadline: Instant) -> Option<GuardSend> {
        self.try_lock_exclusive().or_else(|| self.lock_until(Wants::Alone, Some(deadline)))
    }
}

// SAFETY: an upgrade acquires what the readers released. An upgrade that unwinds has released its share
// before.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgrade for RawRwLock<RECURSIVE> {
    type UpgradableGuard = GuardSend;

    #[inline]
    #[track_caller]
    fn lock_upgradable(&self) -> GuardSend {
        crate::point();
        if !self.0.try_lock_upgradable() {
            self.lock_slow(Wants::Upgradable, Location::caller());
        }
        GuardSend::new()
    }

    #[inline]
    fn try_lock_upgradable(&self) -> Option<GuardSend> {
        crate::point();
        self.0.try_lock_upgradable().then(GuardSend::new)
    }

    #[inline]
    unsafe fn unlock_upgradable(&self, _guard: GuardSend) {
        crate::point_in_drop();
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        unsafe { self.0.unlock_upgradable() };
    }

    #[inline]
    #[track_caller]
    unsafe fn upgrade(&self, guard: GuardSend) -> GuardSend {
        crate::point();
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        unsafe {
            if !self.0.try_upgrade() {
                let upgraded = self.upgrade_slow(None, Location::caller());
                debug_assert!(upgraded);
            }
        }
        guard
    }

    #[inline]
    unsafe fn try_upgrade(&self, guard: GuardSend) -> Result<GuardSend, GuardSend> {
        crate::point();
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        if unsafe { self.0.try_upgrade() } { Ok(guard) } else { Err(guard) }
    }
}

// SAFETY: a fair unlock makes the woken waiters the owners. `bump_upgradable` does not unwind.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeFair for RawRwLock<RECURSIVE> {
    #[inline]
    unsafe fn unlock_upgradable_fair(&self, _guard: GuardSend) {
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        unsafe { self.0.unlock_fair(Wants::Upgradable) };
    }

    #[inline]
    unsafe fn bump_upgradable(&self, _guard: &mut GuardSend) {
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        unsafe { self.bump(Wants::Upgradable) };
    }
}

// SAFETY: `downgrade` releases what the writer wrote, and leaves the caller the weaker share.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeDowngrade for RawRwLock<RECURSIVE> {
    #[inline]
    unsafe fn downgrade_upgradable(&self, guard: GuardSend) -> GuardSend {
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        unsafe { self.0.downgrade(Wants::Upgradable, Wants::Shared) };
        guard
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self, guard: GuardSend) -> GuardSend {
        // SAFETY: the caller is the writer, by the contract of the trait.
        unsafe { self.0.downgrade(Wants::Alone, Wants::Upgradable) };
        guard
    }
}

// SAFETY: an upgrade that times out leaves the caller its upgradable share.
unsafe impl<const RECURSIVE: bool> lock_api::RawRwLockUpgradeTimed for RawRwLock<RECURSIVE> {
    #[inline]
    fn try_lock_upgradable_for(&self, timeout: Duration) -> Option<GuardSend> {
        self.try_lock_upgradable().or_else(|| self.lock_until(Wants::Upgradable, after(timeout)))
    }

    #[inline]
    fn try_lock_upgradable_until(&self, deadline: Instant) -> Option<GuardSend> {
        self.try_lock_upgradable().or_else(|| self.lock_until(Wants::Upgradable, Some(deadline)))
    }

    #[inline]
    #[track_caller]
    unsafe fn try_upgrade_for(&self, guard: GuardSend, timeout: Duration) -> Result<GuardSend, GuardSend> {
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        let upgraded =
            unsafe { self.0.try_upgrade() || self.upgrade_slow(after(timeout), Location::caller()) };
        if upgraded { Ok(guard) } else { Err(guard) }
    }

    #[inline]
    #[track_caller]
    unsafe fn try_upgrade_until(&self, guard: GuardSend, deadline: Instant) -> Result<GuardSend, GuardSend> {
        // SAFETY: the caller has the upgradable share, by the contract of the trait.
        let upgraded =
            unsafe { self.0.try_upgrade() || self.upgrade_slow(Some(deadline), Location::caller()) };
        if upgraded { Ok(guard) } else { Err(guard) }
    }
}
