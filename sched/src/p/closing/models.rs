//! Loom models of the end of a runtime: spawns from outside against the seal, the counts, and Ms that go to
//! sleep.

use super::*;
use crate::asleep::idle::Idle;
use crate::g::{life::Life, wait::Cancel, wait::Decision, wait::Wait};
use crate::sync::Mutex;
use crate::sync::models::{Turns, explore};
use loom::{sync::Arc, thread};

/// One G, as the table of Gs has it.
struct G {
    life: Life,
    wait: Wait,
}

/// A runtime with two Ps and one G in its table. No thread runs what is queued.
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

    /// Models `spawn::begin`.
    fn begin(&self) {
        self.g.wait.reset();
        self.g.life.begin();
        if self.closing.is_closing() {
            self.g.wait.cancel();
        }
    }

    fn spawn_from_outside(&self, p: Option<usize>) -> bool {
        self.turns.take();
        let admitted = match p {
            None => self.closing.enter_from_outside(),
            Some(p) => self.closing.enter_from_p(&self.counters[p]),
        };
        let Some(admitted) = admitted else { return false };
        self.begin();
        admitted.commit();
        self.queued.fetch_add(1, Ordering::Release);
        true
    }

    /// Models one look at the whole table in `end/shutdown.rs`.
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
    is_refused_or_waited_for(None);
}

#[test]
fn a_spawn_by_a_timer_is_refused_or_waited_for() {
    is_refused_or_waited_for(Some(1));
}

fn is_refused_or_waited_for(p: Option<usize>) {
    loom::model(move || {
        let world = World::new();
        let outside = world.clone();
        let outside = thread::spawn(move || outside.spawn_from_outside(p));
        assert!(world.closing.begin());
        world.cancel_all();
        let sealed = world.seal_if_empty();
        let came = outside.join().unwrap();
        assert_eq!(world.queued.load(Ordering::Relaxed), u64::from(came));
        assert!(!(sealed && came), "a G was admitted after the seal");
        assert_eq!(world.live(), u64::from(came), "a refused G is counted, or an admitted G is not");
        if came {
            world.cancel_all();
            assert!(world.g.wait.is_cancelled(), "a living G was not cancelled");
            world.closing.ended_without_p();
        }
        assert!(world.seal_if_empty());
        assert!(!world.spawn_from_outside(p), "a spawn was admitted after the seal");
        assert_eq!(world.live(), 0);
    });
}

#[test]
fn two_spawns_from_outside_are_refused_or_waited_for() {
    explore(3, || {
        let world = World::new();
        let others = [0, 1].map(|_| {
            let world = world.clone();
            thread::spawn(move || {
                world.turns.take();
                world.closing.enter_from_outside().map(Admitted::commit).is_some()
            })
        });
        let sealed = world.seal_if_empty();
        let came = others.into_iter().map(|o| o.join().unwrap()).filter(|came| *came).count();
        assert!(!(sealed && came > 0), "a G was admitted after the seal");
        assert_eq!(world.live(), came as u64);
    });
}

#[test]
fn a_spawned_g_is_counted_when_its_spawner_has_ended() {
    loom::model(|| {
        let world = World::new();
        world.counters[0].spawned.one();
        let maker = world.clone();
        // The spawner counts the spawn on one P and its own end on another.
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
fn a_g_that_loses_its_p_is_counted() {
    loom::model(|| {
        let world = World::new();
        world.counters[0].spawned.one();
        let maker = world.clone();
        let maker = thread::spawn(move || {
            maker.turns.take();
            // The G spawns without a P, gets a P and spawns again, and ends without a P.
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
fn the_end_of_a_short_lived_g_is_not_counted_before_its_spawn() {
    loom::model(|| {
        let world = World::new();
        // The spawner lives throughout.
        world.counters[0].spawned.one();
        let (maker, other) = (world.clone(), world.clone());
        let maker = thread::spawn(move || {
            maker.turns.take();
            maker.counts_and_queues();
        });
        // Another M steals the new G and runs it to its end.
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
fn what_a_cancelled_g_spawns_is_born_cancelled() {
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
            assert!(
                !cancelled || maker.g.wait.is_cancelled(),
                "a G spawned by a destructor of a cancelled G is not cancelled"
            );
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

/// Places where Ms sleep, and how they are woken. An M that sleeps never leaves by itself: in the end it must
/// have been woken.
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

    /// Models `Sched::park_m`. Returns `true` if the M sleeps.
    fn park(&self, m: usize) -> bool {
        self.turns.take();
        let ((), exiting) = self.closing.then_check_exit(|| self.idle.park(m));
        !exiting
    }

    /// Models `Note::wake`.
    fn wake(&self, m: usize) {
        self.woken[m].swap(true, Ordering::AcqRel);
    }

    /// Models `Sched::end_threads`.
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
            assert!(!sleeps || beds.woken[m].load(Ordering::Relaxed), "an M sleeps for ever");
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
                // The M was handed a P, finds nothing to run, and parks again unless it sees that it is to
                // end.
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
        assert!(!sleeps || beds.woken[0].load(Ordering::Relaxed), "an M sleeps for ever");
    });
}

#[test]
fn a_sysmon_that_just_begins_does_not_sleep_through_the_end() {
    loom::model(|| {
        let beds = Beds::new();
        let (sysmon, enabled) = (beds.clone(), Arc::new(AtomicBool::new(false)));
        let begins = enabled.clone();
        // Models `Monitor::new` and `Monitor::sleep`.
        let sysmon = thread::spawn(move || {
            sysmon.turns.take();
            let ((), exiting) = sysmon.closing.then_check_exit(|| begins.store(true, Ordering::Relaxed));
            !exiting
        });
        beds.turns.take();
        beds.closing.exit(|| {
            // Models `Watch::wake`.
            if enabled.load(Ordering::Relaxed) {
                beds.wake(0);
            }
        });
        let sleeps = sysmon.join().unwrap();
        assert!(!sleeps || beds.woken[0].load(Ordering::Relaxed), "sysmon sleeps for ever");
    });
}

#[test]
fn an_m_that_is_started_meanwhile_is_joined() {
    loom::model(|| {
        let ms = Arc::new((Closing::default(), Mutex::new(0)));
        let starter = ms.clone();
        // Models `Sched::new_m`.
        let starter = thread::spawn(move || {
            let (closing, joins) = &*starter;
            let (mut joins, exiting) = closing.then_check_exit(|| joins.lock());
            if !exiting {
                *joins += 1;
            }
        });
        let (closing, joins) = &*ms;
        closing.exit(|| _ = std::mem::take(&mut *joins.lock()));
        starter.join().unwrap();
        assert_eq!(*joins.lock(), 0, "a started thread is never joined");
    });
}

#[test]
fn the_m_in_the_netpoller_returns_when_ms_are_to_end() {
    loom::model(|| {
        // The `Mutex` is the poller's lock; its value is true while an M blocks in the poller. The
        // `AtomicBool` is a kept break.
        let world = Arc::new((Closing::default(), Mutex::new(false), AtomicBool::new(false)));
        let (blocks, looks) = (world.clone(), world.clone());
        // Models `Sched::turn_to_block`: first the turn to poll, then the look.
        let blocks = thread::spawn(move || {
            let (closing, poller, _) = &*blocks;
            let (mut blocked, exiting) = closing.then_check_exit(|| poller.lock());
            *blocked = !exiting;
        });
        // Another M polls without blocking, and takes a break that was meant for the blocked M.
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
        assert!(!*poller.lock() || broken.load(Ordering::Relaxed), "an M blocks in the netpoller for ever");
    });
}
