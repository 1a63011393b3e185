//! The atomics and the lock that the protocol files use: the real ones, or loom's when a model runs.

#[cfg(not(loom))]
pub use std::sync::atomic;

#[cfg(loom)]
pub use loom::sync::atomic;

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, MutexGuard};

/// A cell whose accesses loom can watch.
#[cfg(loom)]
pub use loom::cell;

/// The same face over the real cell.
#[cfg(not(loom))]
pub mod cell {
    #![allow(unsafe_code)]

    /// `std`'s, with loom's face.
    #[derive(Debug)]
    #[repr(transparent)]
    pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        /// Around a value.
        pub const fn new(value: T) -> Self {
            UnsafeCell(std::cell::UnsafeCell::new(value))
        }

        /// Calls `f` with a pointer to read.
        #[inline]
        pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
            f(self.0.get())
        }

        /// Calls `f` with a pointer to write.
        #[inline]
        pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
            f(self.0.get())
        }

        /// The value. *Runs on: its only owner.*
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }

        /// Likewise, by value.
        pub fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }
}

/// loom's mutex with `parking_lot`'s face.
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

/// Waits on a condition, for so long at most; it may also return for no reason. In a model the time never runs out.
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

/// True when a model is run with `BROKEN=name` in the environment: the one transition so named is then wrong on purpose,
/// to see its model fail. In every other build the compiler drops the wrong branch.
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
pub(crate) use broken;

/// The full fence of a store-then-look handshake. Its partner is named where it is called.
///
/// A lock, or an Acquire and a Release, must order the plain data that the handshake leads to. ThreadSanitizer ignores fences.
#[inline]
pub(crate) fn full_fence() {
    atomic::fence(atomic::Ordering::SeqCst);
}
