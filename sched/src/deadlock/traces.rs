//! The traces that whoever runs leaves, and a look at everything between two looks at them.
//!
//! ```text
//!   a plain thread that parks                 who looks
//!   commit its wait                           read the traces
//!   count it as parked                        look at everything: it says that nobody runs
//!   sleep                                     read the traces again: the same?
//!
//!   whoever wakes it
//!   decide its wait
//!   count it as woken
//!   wake it: it goes on only then (`bed.rs`)
//! ```
//!
//! A thread is counted as parked only when it can do no more, and no more before its waker does anything else. So somebody who
//! is about to wake it runs, and is seen, or has left a trace in between. It does not count itself as woken: between its
//! saying that it will and its doing so, its waker could go to sleep (the model knows).

use crate::sync::{
    atomic::{AtomicBool, AtomicU64, Ordering},
    broken,
};

/// How many parks have begun and ended.
pub(crate) struct Parks {
    began: AtomicU64,
    ended: AtomicU64,
}

/// Whether one thread is counted, or about to be.
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

    /// It is about to commit its wait by `commit`, which says whether it did; gives what that gives. *Runs on: that thread.*
    pub(crate) fn commit(&self, thread: &Counted, commit: impl FnOnce() -> bool) -> bool {
        // Relaxed: the commit hands it on to whoever decides the wait.
        thread.0.store(true, Ordering::Relaxed);
        if broken!("deadlock_counted_before_commit") {
            self.began.fetch_add(1, Ordering::SeqCst);
        }
        let committed = commit();
        if !committed {
            thread.0.store(false, Ordering::Relaxed);
        } else if !broken!("deadlock_counted_before_commit") {
            // SeqCst, as for all traces: what was done before is seen by who sees this. A park costs a system call anyway.
            self.began.fetch_add(1, Ordering::SeqCst);
        }
        committed
    }

    /// It is about to be awake. *Runs on: whoever has just decided its wait, before it does anything else.*
    pub(crate) fn wakes(&self, thread: &Counted) {
        // Relaxed: the wait has handed it on, and its wake-up hands it back.
        if !broken!("deadlock_sleeper_counts_itself") && thread.0.swap(false, Ordering::Relaxed) {
            self.ended.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// The trace: how many parks have begun and ended.
    pub(crate) fn trace(&self) -> (u64, u64) {
        (self.began.load(Ordering::SeqCst), self.ended.load(Ordering::SeqCst))
    }
}

/// Whether `look` says yes, and nobody has left a trace meanwhile: then all that it saw was so at one moment.
pub(crate) fn at_one_moment<T: PartialEq>(traces: impl Fn() -> T, look: impl FnOnce(&T) -> bool) -> bool {
    let before = traces();
    look(&before) && (broken!("deadlock_traces_read_once") || traces() == before)
}

#[cfg(all(test, loom))]
mod models {
    use super::{Counted, Parks, at_one_moment};
    use crate::bed::Bed;
    use crate::g::wait::{Cancel, Decision, Outcome, Wait};
    use crate::models::{Reached, explore};
    use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use crate::sync::broken;
    use loom::sync::Arc;
    use loom::thread;

    /// One P, with a queue, and one plain thread.
    struct Machine {
        queue: AtomicUsize,
        idle: AtomicBool,
        tick: AtomicUsize,
        parks: Parks,
        counted: Counted,
        wait: Wait,
        bed: Bed,
        /// The plain threads that there are.
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
                bed: Bed::default(),
                threads: AtomicUsize::new(1),
            })
        }

        /// An M with the P: runs the G, which wakes the plain thread.
        fn runs(&self, number: u32) {
            self.tick.fetch_add(1, SeqCst);
            self.queue.fetch_sub(1, SeqCst);
            if self.wait.decide(number, Outcome::Woken) == Decision::Parked {
                self.parks.wakes(&self.counted);
                self.bed.wake();
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

    /// The plain thread: has a G run, and waits for it.
    fn spawns_and_waits(machine: &Arc<Machine>) {
        let number = machine.wait.arm(Cancel::Waits);
        machine.queue.fetch_add(1, SeqCst);
        machine.idle.swap(false, SeqCst);
        let its = machine.clone();
        let m = thread::spawn(move || its.runs(number));
        if machine.parks.commit(&machine.counted, || machine.wait.commit()) {
            machine.bed.sleep();
            if broken!("deadlock_sleeper_counts_itself") {
                machine.parks.ended.fetch_add(1, SeqCst);
            }
        }
        machine.threads.fetch_sub(1, SeqCst);
        m.join().unwrap();
    }

    #[test]
    fn nobody_is_taken_for_asleep() {
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
