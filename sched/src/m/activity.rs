//! Traces of activity: counts that change when a thread parks or is woken, and a look at everything between
//! two reads of them.
//!
//! ```text
//!   a plain thread that parks                 the thread that looks
//!   commit its wait                           read the traces
//!   count it as parked                        look at everything: does no thread run?
//!   sleep                                     read the traces again: are they equal?
//!
//!   its waker
//!   decide its wait
//!   count it as woken
//!   wake it: it goes on only then (`m/thread_parker.rs`)
//! ```
//!
//! A thread that may run is never counted as asleep. A thread is counted as parked only after its last
//! action, and as woken before its waker does anything else. So a thread that is about to wake a parked
//! thread either runs, and is seen, or has left a trace in between. The sleeper must not count itself as
//! woken: between the wake and that count the waker could go to sleep (the model shows this).

use crate::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    broken,
};

/// The numbers of parks that have begun and ended.
pub(crate) struct Parks {
    began: AtomicU64,
    ended: AtomicU64,
}

/// Counts the plain threads of this process that wait for something of a runtime's, without a time-out.
#[cfg(not(loom))]
pub(crate) static PARKS: Parks = Parks::new();

/// True while one thread is counted as parked or is about to be.
#[derive(Debug, Default)]
pub(crate) struct Counted(AtomicBool);

impl Parks {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Parks { began: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Parks { began: AtomicU64::new(0), ended: AtomicU64::new(0) }
    }

    /// Commits a wait by `commit` and counts the thread as parked if that succeeded. Returns what `commit`
    /// returned. *Runs on: the thread that parks.*
    pub(crate) fn commit(&self, thread: &Counted, commit: impl FnOnce() -> bool) -> bool {
        // Relaxed: the Release of the commit publishes it to the thread that decides the wait.
        thread.0.store(true, Ordering::Relaxed);
        if broken!("deadlock_counted_before_commit") {
            self.began.fetch_add(1, Ordering::SeqCst);
        }
        let committed = commit();
        if !committed {
            thread.0.store(false, Ordering::Relaxed);
        } else if !broken!("deadlock_counted_before_commit") {
            // SeqCst, like every access to a trace: the thread that looks and sees this count sees all that
            // was done before. A park costs a system call anyway.
            self.began.fetch_add(1, Ordering::SeqCst);
        }
        committed
    }

    /// Counts the thread as woken if it was counted as parked. *Runs on: the thread that has just decided its
    /// wait, before it does anything else.*
    pub(crate) fn wakes(&self, thread: &Counted) {
        // Relaxed: the commit of the wait published the flag, and the wake-up publishes its reset to the
        // sleeper.
        if !broken!("deadlock_sleeper_counts_itself") && thread.0.swap(false, Ordering::Relaxed) {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Counts the calling thread as parked while `wait` waits for something outside of the runtime, such as a
    /// signal. It may count itself as woken, because its waker has nothing to do with green threads. *Runs
    /// on: a plain thread that does nothing that could wake a waiter until the count is back.*
    #[cfg(not(loom))]
    pub(crate) fn around<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.begin();
        let result = wait();
        self.end();
        result
    }

    /// Counts a service thread as parked (`m/service.rs`).
    #[cfg(not(loom))]
    pub(crate) fn begin(&self) {
        self.began.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a service thread as woken.
    #[cfg(not(loom))]
    pub(crate) fn end(&self) {
        self.ended.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns the trace: how many parks have begun and ended.
    pub(crate) fn trace(&self) -> (u64, u64) {
        (self.began.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst))
    }
}

/// Returns `true` if `look` returns `true` and the traces did not change during the call. Then all that
/// `look` saw held at one moment.
pub(crate) fn at_one_moment<T: PartialEq>(traces: impl Fn() -> T, look: impl FnOnce(&T) -> bool) -> bool {
    let before = traces();
    look(&before) && (broken!("deadlock_traces_read_once") || traces() == before)
}

#[cfg(all(test, loom))]
mod models {
    use super::{Counted, Parks, at_one_moment};
    use crate::g::wait::{Cancel, Decision, Outcome, Wait};
    use crate::m::thread_parker::ThreadParker;
    use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use crate::sync::broken;
    use crate::sync::models::{Reached, explore};
    use loom::sync::Arc;
    use loom::thread;

    /// A process with one P, its queue, and one plain thread.
    struct Machine {
        queue: AtomicUsize,
        idle: AtomicBool,
        tick: AtomicUsize,
        parks: Parks,
        counted: Counted,
        wait: Wait,
        parker: ThreadParker,
        /// The number of plain threads.
        threads: AtomicUsize,
    }

    impl Machine {
        fn new() -> Arc<Machine> {
            Arc::new(Machine {
                queue: AtomicUsize::new(0),
                idle: AtomicBool::new(true),
                tick: AtomicUsize::new(0),
                parks: Parks::new(),
                counted: Counted::default(),
                wait: Wait::new(),
                parker: ThreadParker::default(),
                threads: AtomicUsize::new(1),
            })
        }

        /// Does what an M with the P does: runs the G, which wakes the plain thread.
        fn runs(&self, number: u32) {
            self.tick.fetch_add(1, SeqCst);
            self.queue.fetch_sub(1, SeqCst);
            if self.wait.decide(number, Outcome::Woken) == Decision::Parked {
                self.parks.wakes(&self.counted);
                self.parker.wake();
            }
            self.idle.swap(true, SeqCst);
        }

        fn nobody_runs(&self) -> bool {
            let traces = || (self.tick.load(SeqCst), self.parks.trace());
            at_one_moment(traces, |&(_, (began, ended))| {
                let quiet = self.queue.load(SeqCst) == 0 && self.idle.load(SeqCst);
                quiet && self.threads.load(SeqCst) as u64 == began.wrapping_sub(ended)
            })
        }
    }

    /// Does what the plain thread does: makes a G runnable, and waits for it.
    fn spawns_and_waits(machine: &Arc<Machine>) {
        let number = machine.wait.arm(Cancel::Waits);
        machine.queue.fetch_add(1, SeqCst);
        machine.idle.swap(false, SeqCst);
        let its = machine.clone();
        let m = thread::spawn(move || its.runs(number));
        if machine.parks.commit(&machine.counted, || machine.wait.commit()) {
            machine.parker.sleep();
            if broken!("deadlock_sleeper_counts_itself") {
                machine.parks.ended.fetch_add(1, SeqCst);
            }
        }
        machine.threads.fetch_sub(1, SeqCst);
        m.join().unwrap();
    }

    #[test]
    fn a_thread_that_may_run_is_never_counted_as_asleep() {
        static ENDED: Reached = Reached::new();
        explore(3, || {
            let machine = Machine::new();
            let plain = machine.clone();
            let plain = thread::spawn(move || spawns_and_waits(&plain));
            if machine.nobody_runs() {
                assert_eq!(machine.threads.load(SeqCst), 0, "a false alarm");
            }
            plain.join().unwrap();
            ENDED.note(machine.nobody_runs());
        });
        ENDED.assert();
    }
}
