//! Atomics, locks and cells for the protocol files: the real ones, or loom's in a model.
//!
//! Also here: `wait_on`, a wait on a condition; `full_fence`, the fence of the handshakes; and `broken!`,
//! which breaks one step in a model. That model must then fail.

pub(crate) mod hold;
#[cfg(loom)]
pub mod models;

#[cfg(not(loom))]
pub use std::sync::atomic;

#[cfg(loom)]
pub use loom::sync::atomic;

#[cfg(not(loom))]
pub use counted::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub use hold::unpaused;

/// `parking_lot`'s mutex, counted while it is held (`hold.rs`).
#[cfg(not(loom))]
mod counted {
    use std::time::{Duration, Instant};

    use parking_lot::WaitTimeoutResult;

    use super::hold::Counted;

    /// A mutex of `parking_lot` that is counted while it is held.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(parking_lot::Mutex<T>);

    /// The guard of a [`Mutex`].
    pub type MutexGuard<'l, T> = Counted<parking_lot::MutexGuard<'l, T>>;

    impl<T> Mutex<T> {
        /// Makes a free mutex around `value`.
        pub const fn new(value: T) -> Self {
            Mutex(parking_lot::Mutex::new(value))
        }

        /// Takes the lock.
        #[inline]
        pub fn lock(&self) -> MutexGuard<'_, T> {
            Counted::take(|| self.0.lock())
        }

        /// Takes the lock if it is free at once.
        #[inline]
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            Counted::try_take(|| self.0.try_lock())
        }

        /// Returns the value, which `&mut self` keeps from all other threads.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }

        /// Returns the value. *Runs on: the only owner.*
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    /// A condition variable for the guards of a [`Mutex`].
    #[derive(Debug, Default)]
    pub struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Makes a condition variable.
        pub const fn new() -> Self {
            Condvar(parking_lot::Condvar::new())
        }

        /// Releases the mutex, waits for a notification, and takes the mutex again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            self.0.wait(guard.guard());
        }

        /// As `wait`, for at most `time`.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
            self.0.wait_for(guard.guard(), time)
        }

        /// As `wait`, until `end` at the latest.
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, end: Instant) -> WaitTimeoutResult {
            self.0.wait_until(guard.guard(), end)
        }

        /// Wakes one waiter.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes all waiters.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, MutexGuard};

/// Cells with accesses that loom can check.
#[cfg(loom)]
pub use loom::cell;

/// The real cell, with loom's interface.
#[cfg(not(loom))]
pub mod cell {
    #![allow(unsafe_code)]

    /// `std::cell::UnsafeCell` with loom's interface.
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Makes a cell around a value.
        pub const fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        /// Calls `f` with a pointer for reading.
        #[inline]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Calls `f` with a pointer for writing.
        #[inline]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }

        /// Returns the value. *Runs on: the only owner.*
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }

        /// Returns the value and consumes the cell.
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }
}

/// loom's mutex with `parking_lot`'s interface.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no model panics while it holds a lock")
    }
}

/// Waits on a condition, for at most `time`. May return without a notification. In a model the time never
/// runs out.
pub(crate) fn wait_on<'l, T>(
    condition: &Condvar,
    #[cfg_attr(loom, expect(unused_mut, reason = "loom takes it by value"))] mut guard: MutexGuard<'l, T>,
    time: Option<std::time::Duration>,
) -> MutexGuard<'l, T> {
    #[cfg(loom)]
    {
        let _ = time;
        condition.wait(guard).expect("no model panics while it holds a lock")
    }
    #[cfg(not(loom))]
    {
        match time {
            Some(time) => _ = condition.wait_for(&mut guard, time),
            None => condition.wait(&mut guard),
        }
        guard
    }
}

/// True in a model that runs with `BROKEN=name` in the environment. The transition of that name is then wrong
/// on purpose, and its model must fail. In every other build the compiler removes the wrong branch.
#[macro_export]
macro_rules! broken {
    ($name:literal) => {{
        #[cfg(loom)]
        {
            static BROKEN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
            *BROKEN.get_or_init(|| std::env::var("BROKEN").is_ok_and(|name| name == $name))
        }
        #[cfg(not(loom))]
        false
    }};
}
pub use broken;

/// The full fence of a handshake in which each side stores and then loads. The caller's comment names the
/// partner.
///
/// A lock, or an Acquire and a Release, must order the plain data that the handshake leads to.
/// ThreadSanitizer ignores fences.
#[inline]
pub(crate) fn full_fence() {
    atomic::fence(atomic::Ordering::SeqCst);
}

/// The cheap half of an asymmetric barrier: the place at which the barrier takes effect that another thread
/// imposes (`impose_barrier`). It orders the compiler only.
#[inline]
pub(crate) fn imposed_barrier() {
    #[cfg(not(loom))]
    atomic::compiler_fence(atomic::Ordering::SeqCst);
    // loom has no barrier that one thread imposes on another. A fence in both threads has the same effect.
    #[cfg(loom)]
    full_fence();
}

/// The other half of the barrier. Returns `true` if every other thread of the process has passed a full fence
/// since the call.
pub(crate) fn impose_barrier() -> bool {
    full_fence();
    #[cfg(not(loom))]
    return crate::sys::barrier::impose();
    #[cfg(loom)]
    true
}

/// Returns which pairs of cache lines a field touches: `lines!(Type, field)`. The processor fetches lines in
/// pairs of 128 bytes. With 32 bits `CachePadded` keeps apart what is in different lines of 64 bytes.
#[cfg(all(test, not(loom)))]
macro_rules! lines {
    ($of:ty, $field:ident) => {{
        const LINES: usize = if cfg!(target_pointer_width = "64") { 128 } else { 64 };
        const { assert!(align_of::<$of>() >= LINES, "its lines depend on where it lies") };
        fn size_of_field<F>(_: fn(&$of) -> &F) -> usize {
            size_of::<F>()
        }
        let begin = std::mem::offset_of!($of, $field);
        begin / LINES..(begin + size_of_field(|it| &it.$field)).div_ceil(LINES)
    }};
}
#[cfg(all(test, not(loom)))]
pub(crate) use lines;

/// Returns `true` if two fields have no line in common.
#[cfg(all(test, not(loom)))]
pub(crate) fn apart(one: &std::ops::Range<usize>, other: &std::ops::Range<usize>) -> bool {
    one.end <= other.start || other.end <= one.start
}
