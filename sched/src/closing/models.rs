//! Loom models of the end of a runtime.

use super::*;
use crate::g::{life::Life, wait::Cancel, wait::Decision, wait::Wait};
use crate::idle::Idle;
use crate::models::{Turns, explore};
use crate::sync::Mutex;
use loom::{sync::Arc, thread};

/// One green thread, as the table knows it.
struct G {
    life: Life,
    wait: Wait,
}

/// A runtime of two Ps, whose table holds one G. What is queued nobody runs.
struct World {
    closing: Closing,
    counters: [Counters; 2],
    g: G,
    queued: AtomicU64,
    turns: Turns,
}

impl World {
    fn new() -> Arc<World> {
        let counters = [Counters::default(), Counters::default()];
        let g = G { life: Life::new(), wait: Wait::new() };
        let queued = AtomicU64::new(0);
        Arc::new(World { closing: Closing::default(), counters, g, queued, turns: Turns::default() })
    }

    fn counts_and_queues(&self) {
        self.counters[0].spawn(|| _ = self.queued.fetch_add(1, Ordering::Release));
    }

    /// As `spawn::begin` does it.
    fn begin(&self) {
        self.g.wait.reset();
        self.g.life.begin();
        if self.closing.is_closing() {
            self.g.wait.cancel();
        }
    }

    fn spawn_from_outside(&self) -> bool {
        self.turns.take();
        let Some(admitted) = self.closing.enter_from_outside() else { return false };
        self.begin();
        admitted.come();
        self.queued.fetch_add(1, Ordering::Release);
        true
    }

    /// As `shutdown.rs` does it: one look at the whole table.
    fn cancel_all(&self) {
        self.turns.take();
        if self.g.life.try_retain() {
            if !self.g.life.is_done() {
                self.g.wait.cancel();
            }
            self.g.life.release();
        }
    }

    fn seal_if_empty(&self) -> bool {
        self.turns.take();
        self.closing.seal_if_empty(|| self.counters.iter())
    }

    fn live(&self) -> u64 {
        self.closing.live(|| self.counters.iter())
    }
}

#[test]
fn a_spawn_from_outside_is_refused_or_waited_for() {
    loom::model(|| {
        let world = World::new();
        let outside = world.clone();
        let outside = thread::spawn(move || outside.spawn_from_outside());
        assert!(world.closing.begin());
        world.cancel_all();
        let sealed = world.seal_if_empty();
        let came = outside.join().unwrap();
        assert_eq!(world.queued.load(Ordering::Relaxed), u64::from(came));
        assert!(!(sealed && came), "a green thread that nobody will run");
        assert_eq!(world.live(), u64::from(came), "refused, yet waited for; or not counted");
        if came {
            world.cancel_all();
            assert!(world.g.wait.is_cancelled(), "it lives on, for nobody cancels it");
            world.closing.ended_without_p();
        }
        assert!(world.seal_if_empty());
        assert!(!world.spawn_from_outside(), "too late");
        assert_eq!(world.live(), 0);
    });
}

#[test]
fn two_spawns_from_outside_and_the_seal() {
    explore(3, || {
        let world = World::new();
        let others = [0, 1].map(|_| {
            let world = world.clone();
            thread::spawn(move || {
                world.turns.take();
                world.closing.enter_from_outside().map(Admitted::come).is_some()
            })
        });
        let sealed = world.seal_if_empty();
        let came = others.into_iter().map(|o| o.join().unwrap()).filter(|came| *came).count();
        assert!(!(sealed && came > 0), "a green thread that nobody will run");
        assert_eq!(world.live(), came as u64);
    });
}

#[test]
fn one_that_was_made_is_seen_to_live_when_its_maker_has_ended() {
    loom::model(|| {
        let world = World::new();
        world.counters[0].spawned.one();
        let maker = world.clone();
        // Spawns on one P, and ends on another.
        let maker = thread::spawn(move || {
            maker.turns.take();
            maker.counters[0].spawned.one();
            maker.counters[1].ended.one_release();
        });
        assert!(!world.seal_if_empty(), "sealed while a green thread lives");
        maker.join().unwrap();
        assert_eq!(world.live(), 1);
    });
}

#[test]
fn one_that_loses_its_p_is_counted_too() {
    loom::model(|| {
        let world = World::new();
        world.counters[0].spawned.one();
        let maker = world.clone();
        let maker = thread::spawn(move || {
            maker.turns.take();
            // It spawns without a P, gets one and spawns again, and ends without one.
            maker.closing.spawn_without_p(|| ());
            maker.counters[1].spawned.one();
            maker.closing.ended_without_p();
        });
        assert!(!world.seal_if_empty(), "sealed while two green threads live");
        maker.join().unwrap();
        assert_eq!(world.live(), 2);
    });
}

#[test]
fn a_short_life_is_not_counted_before_it_began() {
    loom::model(|| {
        let world = World::new();
        // The maker lives all the while.
        world.counters[0].spawned.one();
        let (maker, other) = (world.clone(), world.clone());
        let maker = thread::spawn(move || {
            maker.turns.take();
            maker.counts_and_queues();
        });
        // Another M steals it, runs it to its end.
        let other = thread::spawn(move || {
            other.turns.take();
            if other.queued.load(Ordering::Acquire) == 1 {
                other.counters[1].ended.one_release();
            }
        });
        assert!(!world.seal_if_empty(), "sealed while the maker lives");
        maker.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn what_a_cancelled_one_makes_is_born_cancelled() {
    loom::model(|| {
        let world = World::new();
        let maker_wait = Arc::new(Wait::new());
        let (maker, wait) = (world.clone(), maker_wait.clone());
        let maker = thread::spawn(move || {
            maker.turns.take();
            wait.arm(Cancel::Ends);
            let parked = wait.commit();
            let cancelled = wait.is_cancelled();
            maker.begin();
            assert!(!cancelled || maker.g.wait.is_cancelled(), "made by a cancelled one, in its destructors");
            parked
        });
        world.closing.begin();
        world.turns.take();
        let decision = maker_wait.cancel();
        let parked = maker.join().unwrap();
        assert_eq!(parked, decision == Decision::Parked);
        world.cancel_all();
        assert!(world.g.wait.is_cancelled());
    });
}

/// Where Ms rest, and what wakes them. An M that sleeps stays where it is: at the end it must have been woken.
struct Beds {
    closing: Closing,
    idle: Idle<usize>,
    woken: [AtomicBool; 2],
    turns: Turns,
}

impl Beds {
    fn new() -> Arc<Beds> {
        let woken = [AtomicBool::new(false), AtomicBool::new(false)];
        Arc::new(Beds { closing: Closing::default(), idle: Idle::new(), woken, turns: Turns::default() })
    }

    /// As `Sched::park_m`; true if the M sleeps.
    fn park(&self, m: usize) -> bool {
        self.turns.take();
        let ((), exiting) = self.closing.look_after(|| self.idle.park(m));
        !exiting
    }

    /// As `Note::wake`.
    fn wake(&self, m: usize) {
        self.woken[m].swap(true, Ordering::AcqRel);
    }

    /// As `Sched::end_threads`.
    fn exit(&self) {
        self.turns.take();
        self.closing.exit(|| self.idle.unpark_all().into_iter().for_each(|m| self.wake(m)));
    }
}

#[test]
fn no_m_sleeps_through_the_end() {
    explore(3, || {
        let beds = Beds::new();
        let ms = [0, 1].map(|m| {
            let beds = beds.clone();
            thread::spawn(move || beds.park(m))
        });
        beds.exit();
        for (m, sleeper) in ms.into_iter().enumerate() {
            let sleeps = sleeper.join().unwrap();
            assert!(!sleeps || beds.woken[m].load(Ordering::Relaxed), "it sleeps for ever");
        }
    });
}

#[test]
fn an_m_that_is_woken_for_work_does_not_miss_the_end() {
    loom::model(|| {
        let beds = Beds::new();
        let (sleeper, waker) = (beds.clone(), beds.clone());
        let sleeper = thread::spawn(move || {
            let mut sleeps = sleeper.park(0);
            if sleeps && sleeper.woken[0].swap(false, Ordering::Acquire) {
                // It was handed a P, finds nothing to run, and rests again: unless it sees that it is to end.
                sleeps = !sleeper.closing.is_exiting() && sleeper.park(0);
            }
            sleeps
        });
        let waker = thread::spawn(move || {
            if let Some(m) = waker.idle.unpark() {
                waker.wake(m);
            }
        });
        beds.exit();
        let sleeps = sleeper.join().unwrap();
        waker.join().unwrap();
        assert!(!sleeps || beds.woken[0].load(Ordering::Relaxed), "it sleeps for ever");
    });
}

#[test]
fn a_sysmon_that_just_begins_does_not_sleep_through_the_end() {
    loom::model(|| {
        let beds = Beds::new();
        let (sysmon, enabled) = (beds.clone(), Arc::new(AtomicBool::new(false)));
        let begins = enabled.clone();
        // As `Monitor::new` and `Monitor::sleep`.
        let sysmon = thread::spawn(move || {
            sysmon.turns.take();
            let ((), exiting) = sysmon.closing.look_after(|| begins.store(true, Ordering::Relaxed));
            !exiting
        });
        beds.turns.take();
        beds.closing.exit(|| {
            // As `Watch::wake`.
            if enabled.load(Ordering::Relaxed) {
                beds.wake(0);
            }
        });
        let sleeps = sysmon.join().unwrap();
        assert!(!sleeps || beds.woken[0].load(Ordering::Relaxed), "it sleeps for ever");
    });
}

#[test]
fn an_m_that_is_started_meanwhile_is_joined() {
    loom::model(|| {
        let ms = Arc::new((Closing::default(), Mutex::new(0)));
        let starter = ms.clone();
        // As `Sched::new_m`.
        let starter = thread::spawn(move || {
            let (closing, joins) = &*starter;
            let (mut joins, exiting) = closing.look_after(|| joins.lock());
            if !exiting {
                *joins += 1;
            }
        });
        let (closing, joins) = &*ms;
        closing.exit(|| _ = std::mem::take(&mut *joins.lock()));
        starter.join().unwrap();
        assert_eq!(*joins.lock(), 0, "nobody joins this thread");
    });
}

#[test]
fn the_m_in_the_netpoller_comes_back() {
    loom::model(|| {
        // The poller, whose lock is held by whoever polls: true while somebody blocks in it. A break that is kept.
        let world = Arc::new((Closing::default(), Mutex::new(false), AtomicBool::new(false)));
        let (blocks, looks) = (world.clone(), world.clone());
        // As `Sched::turn_to_block`: first the turn, then the look.
        let blocks = thread::spawn(move || {
            let (closing, poller, _) = &*blocks;
            let (mut blocked, exiting) = closing.look_after(|| poller.lock());
            *blocked = !exiting;
        });
        // Somebody polls without blocking, and takes a break that was meant for the other.
        let looks = thread::spawn(move || {
            let (_, poller, broken) = &*looks;
            let blocked = poller.lock();
            if !*blocked {
                broken.swap(false, Ordering::Acquire);
            }
        });
        let (closing, poller, broken) = &*world;
        closing.exit(|| _ = broken.swap(true, Ordering::Release));
        blocks.join().unwrap();
        looks.join().unwrap();
        assert!(!*poller.lock() || broken.load(Ordering::Relaxed), "it blocks for ever");
    });
}
