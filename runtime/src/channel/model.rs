//! What loom replaces when a model runs, and what a model breaks.

pub(super) use sched::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
pub(super) use sched::sync::cell::UnsafeCell;

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
pub(super) use broken;

/// What the models share.
#[cfg(all(test, loom))]
pub(super) mod people {
    use std::time::{Duration, Instant};

    use loom::sync::Arc;
    use loom::thread::{self, JoinHandle};
    use sched::queue::modelled::Sleeper;

    /// Explores the interleavings with at most so many involuntary switches.
    pub(in super::super) fn explore(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(preemptions);
        builder.max_branches = 100_000;
        builder.check(model);
    }

    /// Who may wait on the calling thread; to be kept until all threads have ended.
    pub(in super::super) fn i_may_wait() -> Arc<Sleeper> {
        let sleeper = Sleeper::new();
        Sleeper::is_me(&sleeper);
        sleeper
    }

    /// A thread of a model, and where it sleeps.
    pub(in super::super) struct Person<T> {
        pub(in super::super) sleeper: Arc<Sleeper>,
        thread: JoinHandle<T>,
    }

    /// Starts a thread that may wait.
    pub(in super::super) fn person<T: 'static>(does: impl FnOnce() -> T + 'static) -> Person<T> {
        let sleeper = Sleeper::new();
        let its = sleeper.clone();
        let thread = thread::spawn(move || {
            Sleeper::is_me(&its);
            does()
        });
        Person { sleeper, thread }
    }

    impl<T> Person<T> {
        /// What it came to. Nobody may be about to wake it then.
        pub(in super::super) fn end(self) -> T {
            self.thread.join().unwrap()
        }
    }

    /// A deadline that only `Sleeper::time_out` brings.
    pub(in super::super) fn far() -> Instant {
        Instant::now() + Duration::from_secs(3600)
    }
}
