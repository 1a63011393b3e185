//! How many of the runtime's locks an OS thread holds. A hog is not paused while it holds one (`m/pause.rs`).
//!
//! ```text
//!   the thread                     the handler of the signal, on the same thread, between any two steps
//!   1  begin: count + 1            the count is not 0? refuse the pause
//!   2  take the lock
//!   3  release the lock
//!   4  end: count - 1
//! ```
//!
//! So no thread ever waits for a lock of the runtime because its holder is paused. `Counted` keeps the order
//! of the steps. A thread that waits for a lock counts, too: it soon has the lock.
//!
//! Each [`Mutex`](super::Mutex) is counted. `unpaused` counts for the locks of `netpoll` and `timers`, where
//! the M has not entered the runtime. (Inside of the runtime no M is paused.) The spin locks under channels
//! are not counted, because that costs too much. A locker that waits for one lets all paused hogs go
//! (`api/backoff.rs`).

#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::broken;

#[cfg(not(loom))]
thread_local! {
    static HOLDS: Holds = const { Holds(AtomicU32::new(0)) };
}

// The threads of a model share one OS thread.
#[cfg(loom)]
loom::thread_local! {
    static HOLDS: Holds = Holds(AtomicU32::new(0));
}

/// The count of one OS thread.
#[derive(Debug)]
pub(crate) struct Holds(AtomicU32);

impl Holds {
    /// Returns `true` if the thread holds a lock of the runtime, or is about to. *Runs on: that thread, in
    /// the handler of the signal.*
    pub(crate) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

/// Calls `look` with the count of this OS thread.
pub(crate) fn of_this_thread<R>(look: impl FnOnce(&Holds) -> R) -> R {
    HOLDS.with(look)
}

/// Counts a lock of this OS thread, and returns the count's place.
///
/// Never inlined, and not pure because of the fence. In an inlined or pure call the compiler may keep the
/// address of a thread-local across a switch of stacks. After the switch another thread may run the code.
#[inline(never)]
fn begin() -> *const Holds {
    let holds = mine();
    // SAFETY: the place is this thread's, and a thread-local without a destructor lives as long as its
    // thread.
    unsafe { add(holds, 1) };
    // Before the lock is taken. The partner is the handler on the same thread.
    compiler_fence(Ordering::SeqCst);
    holds
}

#[inline]
fn mine() -> *const Holds {
    HOLDS.with(std::ptr::from_ref)
}

/// Adds `change`, which is 1 or `u32::MAX`, to the count.
///
/// # Safety
/// `holds` is the count of this OS thread.
#[inline]
unsafe fn add(holds: *const Holds, change: u32) {
    if broken!("pause_uncounted") {
        return;
    }
    // SAFETY: this contract.
    let count = unsafe { &(*holds).0 };
    // Relaxed: only this thread uses the count. The handler sees what this thread has done.
    count.store(count.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
}

/// Counts a lock of this thread until it is dropped. Not `Send`: a guard stays on its thread.
#[derive(Debug)]
struct Hold(*const Holds);

impl Hold {
    #[inline]
    fn begin() -> Hold {
        Hold(begin())
    }
}

impl Drop for Hold {
    #[inline]
    fn drop(&mut self) {
        #[cfg(not(loom))]
        debug_assert!(std::ptr::eq(self.0, mine()), "a lock is released on the thread that took it");
        // After the lock was released. The partner is the handler on the same thread.
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `begin` returned the count of its thread. A `Hold` is not `Send`, and the holder of a lock
        // does not switch stacks, so this is the same thread.
        unsafe { add(self.0, u32::MAX) };
    }
}

/// The guard `G` of a lock, which is counted until the guard has released the lock.
#[derive(Debug)]
pub struct Counted<G> {
    // Dropped first.
    guard: G,
    _hold: Hold,
}

impl<G> Counted<G> {
    /// Takes a lock by `take`.
    #[inline]
    pub(crate) fn take(take: impl FnOnce() -> G) -> Self {
        let early = if broken!("pause_counted_late") { None } else { Some(Hold::begin()) };
        let guard = take();
        Counted { guard, _hold: early.unwrap_or_else(Hold::begin) }
    }

    /// Takes a lock by `take`, if that is possible at once.
    #[cfg(not(loom))]
    #[inline]
    pub(crate) fn try_take(take: impl FnOnce() -> Option<G>) -> Option<Self> {
        let hold = Hold::begin();
        take().map(|guard| Counted { guard, _hold: hold })
    }

    /// Returns the guard of the lock.
    #[cfg(not(loom))]
    pub(crate) fn guard(&mut self) -> &mut G {
        &mut self.guard
    }
}

impl<G: Deref> Deref for Counted<G> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Counted<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

/// Calls `f`, which takes locks that are not counted. The thread is not paused during the call.
#[cfg(not(loom))]
pub fn unpaused<R>(f: impl FnOnce() -> R) -> R {
    let _hold = Hold::begin();
    f()
}
