//! The atomics and the lock that the protocol files use: the real ones, or loom's when a model runs.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic;

#[cfg(loom)]
pub(crate) use loom::sync::atomic;

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

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

/// True when the named transition is broken on purpose (`BROKEN=name`), to see its loom model fail.
macro_rules! broken {
    ($name:literal) => {
        cfg!(loom) && matches!(option_env!("BROKEN"), Some($name))
    };
}
pub(crate) use broken;

/// The full fence of a store-then-look handshake. Its partner is named where it is called.
#[inline]
pub(crate) fn full_fence() {
    atomic::fence(atomic::Ordering::SeqCst);
}
