//! The atomics and the lock that the protocols use: those of std and parking_lot, or those of loom in a
//! model.

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

/// loom's mutex with parking_lot's signatures. No code panics under a lock here, so poison cannot occur.
#[cfg(loom)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Mutex<T> {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().expect("no code panics under this lock")
    }
}

/// A value apart from all others: on two cache lines of its own, because the processor fetches lines in
/// pairs.
#[repr(align(128))]
pub(crate) struct CacheLine<T>(pub(crate) T);

/// True if a model runs with `BROKEN=name` in the environment. The protocol step of that name is then wrong
/// on purpose, to see its model fail. In every other build it is `false`, and the compiler drops the wrong
/// branch.
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

#[cfg(all(test, loom))]
pub(crate) mod model {
    //! The gate at which threads of the models wait.

    use loom::sync::{Condvar, Mutex};

    /// A gate for one waiting thread. An opened gate stays open until a thread has waited at it, as a waker
    /// keeps a write.
    pub(crate) struct Gate {
        opened: Mutex<bool>,
        changed: Condvar,
    }

    impl Gate {
        pub(crate) fn new() -> Gate {
            Gate { opened: Mutex::new(false), changed: Condvar::new() }
        }

        pub(crate) fn open(&self) {
            *self.opened.lock().unwrap() = true;
            self.changed.notify_one();
        }

        pub(crate) fn wait(&self) {
            let mut opened = self.opened.lock().unwrap();
            while !*opened {
                opened = self.changed.wait(opened).unwrap();
            }
            *opened = false;
        }
    }
}
