//! Atomics and switches that loom models of the channels replace, and helpers that the models share.

pub(super) use sched::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
pub(super) use sched::sync::cell::UnsafeCell;

/// `true` when a model runs with `BROKEN=name` in the environment. The step marked by that name is then wrong
/// on purpose, and its model must fail. In every other build this is `false`, and the compiler drops the
/// wrong branch.
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
pub(super) use broken;

/// Helpers of the models.
#[cfg(all(test, loom))]
pub(super) mod helpers {
    use std::time::{Duration, Instant};

    use loom::sync::Arc;
    use loom::thread::{self, JoinHandle};
    use sched::modelled::Sleeper;

    /// Explores the interleavings with at most `preemptions` involuntary switches.
    pub(in super::super) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        // It has `LOOM_MAX_PREEMPTIONS`, by which ci/models.sh may allow fewer.
        let allowed = builder.preemption_bound.unwrap_or(preemptions);
        builder.preemption_bound = Some(allowed.min(preemptions));
        builder.max_branches = 100_000;
        builder.check(model);
    }

    /// Makes the calling thread able to wait. The returned value must be kept until all threads have ended.
    pub(in super::super) fn allow_waiting() -> Arc<Sleeper> {
        let sleeper = Sleeper::new();
        Sleeper::is_me(&sleeper);
        sleeper
    }

    /// A thread of a model that may wait, and its sleeper.
    pub(in super::super) struct ModelThread<T> {
        pub(in super::super) sleeper: Arc<Sleeper>,
        thread: JoinHandle<T>,
    }

    /// Starts a thread that may wait.
    pub(in super::super) fn spawn_waiter<T: 'static>(does: impl FnOnce() -> T + 'static) -> ModelThread<T> {
        let sleeper = Sleeper::new();
        let its = sleeper.clone();
        let thread = thread::spawn(move || {
            Sleeper::is_me(&its);
            does()
        });
        ModelThread { sleeper, thread }
    }

    impl<T> ModelThread<T> {
        /// Returns the result of the thread. No waker may still be about to wake it.
        pub(in super::super) fn end(self) -> T {
            self.thread.join().unwrap()
        }
    }

    /// A deadline that comes only by `Sleeper::time_out`.
    pub(in super::super) fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }
}
