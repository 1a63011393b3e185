//! Threads perform all operations at once. The number of armings must equal the number of firings, deletions
//! and modifications of pending timers.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;

use fastrand::Rng;
use timers::clock::NEVER;
use timers::{Handle, Heaps, Timer};

const PS: usize = 3;
const TIMERS: usize = 300;
const ROUNDS: u64 = 1_000_000;

#[derive(Clone)]
struct Alarm(Arc<(Timer, AtomicU64)>);

impl Handle for Alarm {
    fn timer(&self) -> &Timer {
        &self.0.0
    }
}

#[derive(Default)]
struct Sums {
    armed: AtomicU64,
    superseded: AtomicU64,
    deleted: AtomicU64,
    fired: AtomicU64,
}

struct World {
    heaps: Heaps<Alarm>,
    alarms: Vec<Alarm>,
    clock: AtomicU64,
    sums: Sums,
}

impl World {
    fn check(&self, p: usize, own: bool) {
        let now = self.clock.load(Relaxed);
        self.heaps.check(p, now, own, &mut |alarm: Alarm, seq, when| {
            // The seq is the time for which the timer was armed.
            assert_eq!(seq, when);
            assert!(when <= now, "fired {} early", when - now);
            alarm.0.1.fetch_add(1, Relaxed);
            self.sums.fired.fetch_add(1, Relaxed);
        });
    }

    fn step(&self, p: usize, random: &mut Rng) {
        let alarm = &self.alarms[random.usize(..TIMERS)];
        let now = self.clock.fetch_add(1, Relaxed);
        match random.u32(..16) {
            0..8 => {
                let when = now + random.u64(..2_000);
                let modified = self.heaps.modify(p, alarm, when, 0, when);
                self.sums.armed.fetch_add(1, Relaxed);
                self.sums.superseded.fetch_add(u64::from(modified.was_pending), Relaxed);
            }
            8..12 => {
                let deleted = self.heaps.delete(alarm.timer());
                self.sums.deleted.fetch_add(u64::from(deleted), Relaxed);
            }
            12..14 => self.check(p, true),
            14 => self.check(random.usize(..PS), false),
            _ if random.u32(..100) == 0 => {
                let from = random.usize(..PS);
                self.heaps.move_all(from, (from + 1) % PS);
            }
            _ => self.heaps.verify(random.usize(..PS)),
        }
    }
}

#[test]
fn each_arming_ends_by_firing_deletion_or_modification() {
    let alarm = || Alarm(Arc::new((Timer::new(), AtomicU64::new(0))));
    let world = World {
        heaps: Heaps::new(PS),
        alarms: (0..TIMERS).map(|_| alarm()).collect(),
        clock: AtomicU64::new(0),
        sums: Sums::default(),
    };
    (0..PS).for_each(|p| world.heaps.open(p));
    let start = Barrier::new(PS + 1);
    let done = AtomicBool::new(false);

    thread::scope(|scope| {
        let workers: Vec<_> = (0..PS)
            .map(|p| {
                let (world, start) = (&world, &start);
                scope.spawn(move || {
                    let mut random = Rng::with_seed(p as u64);
                    start.wait();
                    (0..ROUNDS).for_each(|_| world.step(p, &mut random));
                })
            })
            .collect();
        // A thread that only reads the times, as sysmon does.
        scope.spawn(|| {
            start.wait();
            while !done.load(Relaxed) {
                std::hint::black_box(world.heaps.time_sleep_until());
                thread::yield_now();
            }
        });
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Relaxed);
        results.into_iter().for_each(|result| result.unwrap());
    });

    (0..PS).for_each(|p| world.heaps.verify_idle(p));
    world.clock.store(NEVER - 1, Relaxed);
    (0..PS).for_each(|p| world.check(p, true));
    (0..PS).for_each(|p| world.heaps.verify_idle(p));
    assert_eq!(world.heaps.time_sleep_until(), NEVER);

    let Sums { armed, superseded, deleted, fired } = &world.sums;
    let [armed, superseded, deleted, fired] =
        [armed, superseded, deleted, fired].map(|sum| sum.load(Relaxed));
    assert_eq!(
        armed,
        superseded + deleted + fired,
        "{superseded} superseded, {deleted} deleted, {fired} fired"
    );
    assert!(superseded > 1_000 && deleted > 1_000 && fired > 1_000, "all three were tried");
    let each: u64 = world.alarms.iter().map(|alarm| alarm.0.1.load(Relaxed)).sum();
    assert_eq!(each, fired);
    assert!(world.alarms.iter().all(|alarm| Arc::strong_count(&alarm.0) == 1), "no heap keeps an entry");
}
