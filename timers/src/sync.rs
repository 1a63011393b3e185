//! The primitives the protocols are built from: std's and parking_lot's, or loom's when a model runs.

#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    thread::yield_now,
};

#[cfg(loom)]
pub(crate) use loom::{
    sync::{
        MutexGuard,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    thread::yield_now,
};

/// loom's mutex with parking_lot's face: a lock that a panic does not poison.
#[cfg(loom)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
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
