//! The one who blocks: until when it has said it will, and whether it has been told to come back.

use crate::sync::{AtomicBool, AtomicU64, Ordering, broken, fence};

const NOBODY: u64 = 0;

/// What became of a wish that somebody look at the timers by some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeBy {
    /// Somebody blocks and wakes by then anyway.
    Served,
    /// Somebody blocked for longer and has been told to come back.
    Broken,
    /// Nobody blocks. Whoever is about to will see the timer before it does.
    NobodyBlocks,
}

/// What became of a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    Written,
    /// An earlier break has not been noticed yet: it serves this one too.
    Saved,
}

// Adders of timers read `until` all the time, and every poll changes `pending`: each has its own line.
#[repr(align(128))]
struct Line<T>(T);

pub(crate) struct Blocker {
    /// Zero: nobody blocks.
    until: Line<AtomicU64>,
    /// A break has been asked for that nobody has noticed: the waker is, or is about to be, written to.
    pending: Line<AtomicBool>,
    /// Somebody has the right to block.
    claimed: AtomicBool,
}

impl Blocker {
    pub(crate) fn new() -> Blocker {
        Blocker {
            until: Line(AtomicU64::new(NOBODY)),
            pending: Line(AtomicBool::new(false)),
            claimed: AtomicBool::new(false),
        }
    }

    /// Asks for the right to be the one who blocks. *Runs on: any thread.*
    pub(crate) fn claim(&self) -> bool {
        // Acquire: the partner is `yield_claim`. Who blocked before has taken its time back before we
        // publish.
        !self.claimed.swap(true, Ordering::Acquire)
    }

    /// Gives the right up. *Runs on: whoever has it.*
    pub(crate) fn yield_claim(&self) {
        // Release: the partner is `claim`.
        self.claimed.store(false, Ordering::Release);
    }

    /// Says until when its caller will block. What the caller looks at afterwards it sees as those did who
    /// read an older time here. *Runs on: whoever has the right.*
    pub(crate) fn publish(&self, until: u64) {
        self.until.0.store(until.max(NOBODY + 1), Ordering::Relaxed);
        // The partner is the fence in `published`: either they read this, or we see their timer.
        if !broken!("netpoll_publish_no_fence") {
            fence(Ordering::SeqCst);
        }
    }

    /// Until when somebody blocks, for a caller who has made a timer visible. *Runs on: any thread.*
    pub(crate) fn published(&self) -> Option<u64> {
        // The partners are the fences in `publish` and `withdraw`.
        fence(Ordering::SeqCst);
        match self.until.0.load(Ordering::Relaxed) {
            NOBODY => None,
            until => Some(until),
        }
    }

    /// Whether somebody blocks, for those who only want an opinion.
    pub(crate) fn somebody_blocks(&self) -> bool {
        self.until.0.load(Ordering::Relaxed) != NOBODY
    }

    /// Takes the published time back; whoever read it counts on the caller to look at the timers after this.
    /// *Runs on: whoever has the right.*
    pub(crate) fn withdraw(&self) {
        self.until.0.store(NOBODY, Ordering::Relaxed);
        // The partner is the fence in `published`: who read the old time has a timer that we now see.
        if !broken!("netpoll_withdraw_no_fence") {
            fence(Ordering::SeqCst);
        }
    }

    /// Blocks by `wait` until what was published. *Runs on: whoever has the right.*
    pub(crate) fn block<T>(&self, wait: impl FnOnce() -> T) -> T {
        let outcome = self.poll(wait);
        self.withdraw();
        outcome
    }

    /// Polls by `wait`; the caller looks at what breaks are for only after this. *Runs on: whoever has the
    /// poller.*
    pub(crate) fn poll<T>(&self, wait: impl FnOnce() -> T) -> T {
        if broken!("netpoll_break_clear_late") {
            // Late for the wait before this one: its caller has looked already.
            self.notice_breaks();
            return wait();
        }
        let outcome = wait();
        self.notice_breaks();
        outcome
    }

    /// Lowers the flag. After it comes the caller's look; before it, whatever the wait has taken from the
    /// waker.
    fn notice_breaks(&self) {
        // A swap, not a store, to acquire: whoever was told "saved" raised the flag before this and made its
        // work visible before that, so the look finds it. Its partner is the swap in `break_with`.
        if broken!("netpoll_break_clear_store") {
            self.pending.0.store(false, Ordering::Relaxed);
        } else {
            self.pending.0.swap(false, Ordering::Acquire);
        }
    }

    /// Makes the present or the next wait return, by `write` unless an earlier write still will. *Runs on:
    /// any thread.*
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

    /// What the blocker's caller and the others share. The gate is the waker: it keeps what was written to
    /// it.
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

        /// Makes piece `i` visible, as weakly as can be: the protocol must do the rest.
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
    fn a_timer_added_while_somebody_goes_to_block_is_seen_or_breaks_the_wait() {
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
                // Nobody else would ever end this wait: a lost timer is a deadlock here.
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
                    // Due no sooner than what is published: the adder leaves it at that.
                    world.blocker.published().is_some()
                }
            });
            // The time is up.
            world.blocker.block(|| ());
            let seen = world.sees(0);
            let served = adder.join().unwrap();
            assert!(seen || !served, "the adder counted on a look that did not find its timer");
        });
    }

    #[test]
    fn of_two_breaks_none_is_lost_whether_written_or_saved() {
        loom::model(|| {
            let world = World::new();
            let breakers = [0, 1].map(|i| {
                let world = Arc::clone(&world);
                thread::spawn(move || {
                    world.add(i);
                    world.break_poll()
                })
            });
            // No look before the wait: here only breaks end waits.
            while !(world.sees(0) && world.sees(1)) {
                world.blocker.poll(|| world.waker.wait());
            }
            for breaker in breakers {
                breaker.join().unwrap();
            }
        });
    }

    #[test]
    fn only_one_has_the_right_to_block() {
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
                assert_eq!(world.blocker.published(), Some(7), "somebody else's time, or none");
                world.blocker.withdraw();
                world.blocker.yield_claim();
            }
            other.join().unwrap();
        });
    }
}
