//! The blocked poller: the time until which it blocks, and the break that makes it return early. (Protocol 2
//! in `lib.rs`.)

use crate::sync::{AtomicBool, AtomicU64, CacheLine, Ordering, broken, fence};

/// The published time while no thread blocks.
const NONE: u64 = 0;

/// The answer to a request that the poller look at the timers by some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeBy {
    /// A thread blocks in the poller and returns by that time anyway.
    Served,
    /// A thread blocked until a later time. A break makes that thread return now.
    Broken,
    /// No thread blocks. A thread that is about to block sees the timer before it blocks.
    NobodyBlocks,
}

/// How a break was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// The caller wrote to the waker.
    Written,
    /// The caller wrote nothing: the poller has not noticed an earlier break yet, and that break serves this
    /// one, too.
    Saved,
}

pub(crate) struct Blocker {
    // Threads that add timers read `until` often, and every poll changes `pending`: each has its own cache
    // line.
    /// Until when the poller blocks; `NONE` while no thread blocks.
    until: CacheLine<AtomicU64>,
    /// True if the poller has not noticed a requested break yet: the waker was written to, or is about to be.
    pending: CacheLine<AtomicBool>,
    /// True if a thread has the right to block.
    claimed: AtomicBool,
}

impl Blocker {
    pub(crate) fn new() -> Blocker {
        Blocker {
            until: CacheLine(AtomicU64::new(NONE)),
            pending: CacheLine(AtomicBool::new(false)),
            claimed: AtomicBool::new(false),
        }
    }

    /// Takes the right to block. Returns `false` if another thread has it. *Runs on: any thread.*
    pub(crate) fn claim(&self) -> bool {
        // Acquire: the partner is `yield_claim`. The thread that blocked before has withdrawn its time before
        // this thread publishes.
        !self.claimed.swap(true, Ordering::Acquire)
    }

    /// Gives up the right to block. *Runs on: the thread that has the right.*
    pub(crate) fn yield_claim(&self) {
        // Release: the partner is `claim`.
        self.claimed.store(false, Ordering::Release);
    }

    /// Publishes until when the caller will block. Afterwards the caller must look at timers and queues: it
    /// sees all that was published by a thread that read an older time here. *Runs on: the thread that has
    /// the right.*
    pub(crate) fn publish(&self, until: u64) {
        self.until.0.store(until.max(NONE + 1), Ordering::Relaxed);
        // The partner is the fence in `published`: either that thread reads this time, or the caller sees its
        // timer.
        if !broken!("netpoll_publish_no_fence") {
            fence(Ordering::SeqCst);
        }
    }

    /// Returns until when a thread blocks; `None` if no thread does. The caller has made a timer visible
    /// before. *Runs on: any thread.*
    pub(crate) fn published(&self) -> Option<u64> {
        // The partners are the fences in `publish` and `withdraw`.
        fence(Ordering::SeqCst);
        match self.until.0.load(Ordering::Relaxed) {
            NONE => None,
            until => Some(until),
        }
    }

    /// Returns `true` if a thread blocks. The answer may be stale at once.
    pub(crate) fn is_blocked(&self) -> bool {
        self.until.0.load(Ordering::Relaxed) != NONE
    }

    /// Withdraws the published time. A thread that read that time relies on the caller to look at the timers
    /// after this. *Runs on: the thread that has the right.*
    pub(crate) fn withdraw(&self) {
        self.until.0.store(NONE, Ordering::Relaxed);
        // The partner is the fence in `published`: a thread that read the old time has a timer that the
        // caller now sees.
        if !broken!("netpoll_withdraw_no_fence") {
            fence(Ordering::SeqCst);
        }
    }

    /// Blocks by `wait`, then withdraws the published time. *Runs on: the thread that has the right.*
    pub(crate) fn block<T>(&self, wait: impl FnOnce() -> T) -> T {
        let outcome = self.poll(wait);
        self.withdraw();
        outcome
    }

    /// Polls by `wait`, then notices breaks. The caller looks at timers and queues only after this. *Runs on:
    /// the thread that has the poller's lock.*
    pub(crate) fn poll<T>(&self, wait: impl FnOnce() -> T) -> T {
        if broken!("netpoll_break_clear_late") {
            // Too late for the previous wait: its caller has looked already.
            self.notice_breaks();
            return wait();
        }
        let outcome = wait();
        self.notice_breaks();
        outcome
    }

    /// Lowers `pending`. Runs after the wait has read the waker, and before the caller looks at timers and
    /// queues.
    fn notice_breaks(&self) {
        // Acquire, by a swap: the partner is the swap in `break_with`. A thread that got `Saved` has made its
        // work visible before its swap found the flag up. So the caller's look finds that work.
        if broken!("netpoll_break_clear_store") {
            self.pending.0.store(false, Ordering::Relaxed);
        } else {
            self.pending.0.swap(false, Ordering::Acquire);
        }
    }

    /// Makes the present or the next wait return: by `write`, unless an earlier write does so. *Runs on: any
    /// thread.*
    pub(crate) fn break_with(&self, write: impl FnOnce()) -> Break {
        // Release: the partner is the swap in `notice_breaks`.
        if self.pending.0.swap(true, Ordering::Release) {
            return Break::Saved;
        }
        write();
        Break::Written
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::sync::model::Gate;
    use loom::sync::Arc;
    use loom::thread;

    /// What the poller and the other threads share. The gate is the waker: it keeps a write until the next
    /// wait.
    struct World {
        blocker: Blocker,
        waker: Gate,
        work: [AtomicBool; 2],
    }

    impl World {
        fn new() -> Arc<World> {
            let work = [AtomicBool::new(false), AtomicBool::new(false)];
            Arc::new(World { blocker: Blocker::new(), waker: Gate::new(), work })
        }

        /// Makes piece `i` visible by a relaxed store: the protocol must order it.
        fn add(&self, i: usize) {
            self.work[i].store(true, Ordering::Relaxed);
        }

        fn sees(&self, i: usize) -> bool {
            self.work[i].load(Ordering::Relaxed)
        }

        fn break_poll(&self) -> Break {
            self.blocker.break_with(|| self.waker.open())
        }
    }

    #[test]
    fn a_timer_added_while_a_thread_goes_to_block_is_seen_or_breaks_the_wait() {
        loom::model(|| {
            let world = World::new();
            let adder = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    world.add(0);
                    if world.blocker.published().is_some() {
                        world.break_poll();
                    }
                }
            });
            assert!(world.blocker.claim());
            world.blocker.publish(10);
            if world.sees(0) {
                world.blocker.withdraw();
            } else {
                // Only the break ends this wait: a lost timer is a deadlock here.
                world.blocker.block(|| world.waker.wait());
            }
            world.blocker.yield_claim();
            assert!(world.sees(0));
            adder.join().unwrap();
        });
    }

    #[test]
    fn a_timer_that_the_published_time_serves_is_seen_after_the_wait() {
        loom::model(|| {
            let world = World::new();
            world.blocker.publish(10);
            let adder = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    world.add(0);
                    // The timer is due no sooner than the published time, so its adder breaks nothing.
                    world.blocker.published().is_some()
                }
            });
            // The wait ends by its time-out.
            world.blocker.block(|| ());
            let seen = world.sees(0);
            let served = adder.join().unwrap();
            assert!(seen || !served, "the adder relied on a look that missed its timer");
        });
    }

    #[test]
    fn a_written_break_and_a_saved_break_are_both_noticed() {
        loom::model(|| {
            let world = World::new();
            let breakers = [0, 1].map(|i| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    world.add(i);
                    world.break_poll()
                })
            });
            // This model does not look before the wait, so only breaks end waits.
            while !(world.sees(0) && world.sees(1)) {
                world.blocker.poll(|| world.waker.wait());
            }
            for breaker in breakers {
                breaker.join().unwrap();
            }
        });
    }

    #[test]
    fn one_thread_at_a_time_has_the_right_to_block() {
        loom::model(|| {
            let world = World::new();
            let other = thread::spawn({
                let world = Arc::clone(&world);
                move || {
                    let mine = world.blocker.claim();
                    if mine {
                        world.blocker.publish(1);
                        world.blocker.withdraw();
                        world.blocker.yield_claim();
                    }
                }
            });
            if world.blocker.claim() {
                world.blocker.publish(7);
                assert_eq!(world.blocker.published(), Some(7), "another thread has changed the time");
                world.blocker.withdraw();
                world.blocker.yield_claim();
            }
            other.join().unwrap();
        });
    }
}
