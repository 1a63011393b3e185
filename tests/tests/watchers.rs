//! Timers and sockets while green threads compute: the M of an idle P watches them; if all Ps compute, sysmon does.
//!
//! Each test excludes all triggers but the one it is named for, and prints how late the waiter was (`--nocapture`).

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::{Builder, Handle, Runtime, spawn};
use tests::sockets::connected;
use tests::{until_it_waits, with_built};

/// A hog gives up after this: the waiter it waits for was not woken.
const PATIENCE: Duration = Duration::from_secs(10);
/// A bound on lateness that a loaded machine keeps, too; far below `PATIENCE`.
const LATE: Duration = Duration::from_secs(5);

/// What a round counted, from the moment at which all hogs computed until the waiter ran.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    rescues: u64,
    timers_fired: u64,
    timers_stolen: u64,
    net_wakeups: u64,
}

impl Counts {
    fn now(handle: &Handle) -> Counts {
        let metrics = handle.metrics();
        Counts {
            rescues: metrics.rescues_computing + metrics.rescues_blocked,
            timers_fired: metrics.timers_fired,
            timers_stolen: metrics.timers_stolen,
            net_wakeups: metrics.net_wakeups,
        }
    }

    fn since(self, before: Counts) -> Counts {
        Counts {
            rescues: self.rescues - before.rescues,
            timers_fired: self.timers_fired - before.timers_fired,
            timers_stolen: self.timers_stolen - before.timers_stolen,
            net_wakeups: self.net_wakeups - before.net_wakeups,
        }
    }
}

/// The lateness of some rounds, and what all of them counted.
#[derive(Debug, Default)]
struct Rounds {
    late: Vec<Duration>,
    counts: Vec<Counts>,
}

impl Rounds {
    fn add(&mut self, late: Duration, counts: Counts) {
        self.late.push(late);
        self.counts.push(counts);
    }

    fn sum(&self, count: impl Fn(&Counts) -> u64) -> u64 {
        self.counts.iter().map(count).sum()
    }

    fn each(&self, condition: impl Fn(&Counts) -> bool) -> bool {
        self.counts.iter().all(condition)
    }

    /// Prints the figures, and checks the bound that holds on any machine.
    fn report(&mut self, name: &str) {
        self.late.sort();
        let (rounds, at) =
            (self.late.len(), |percent: usize| self.late[(self.late.len() * percent).div_ceil(100) - 1]);
        eprintln!(
            "{name}: {rounds} rounds, late p50 {:?}, p90 {:?}, max {:?}; {} rescues, {} of {} timers stolen",
            at(50),
            at(90),
            at(100),
            self.sum(|counts| counts.rescues),
            self.sum(|counts| counts.timers_stolen),
            self.sum(|counts| counts.timers_fired),
        );
        assert!(at(100) < LATE, "late by {:?}", at(100));
    }
}

/// Computes until `done`; `false` after `PATIENCE`.
fn computes_until(done: &AtomicBool, patience: Duration) -> bool {
    let start = Instant::now();
    while !done.load(SeqCst) {
        if start.elapsed() > patience {
            return false;
        }
        std::hint::spin_loop();
    }
    true
}

fn built(procs: usize, sysmon: bool, main: impl FnOnce(&Runtime)) {
    with_built(Builder::new().procs(procs).sysmon(sysmon), main);
}

/// Rounds in which one green thread sleeps for `time`, and another for 1 ms and then computes until the first has woken. Three
/// Ps are idle.
fn far_timers(sysmon: bool, rounds: u64) {
    let mut all = Rounds::default();
    built(4, sysmon, |runtime| {
        let handle = runtime.handle();
        for round in 0..rounds {
            let time = Duration::from_millis(40 + round * 7 % 20);
            let before = Counts::now(&handle);
            let late = runtime.block_on(move || {
                let woken = Arc::new(AtomicBool::new(false));
                let told = woken.clone();
                let sleeper = spawn(move || {
                    let start = Instant::now();
                    runtime::sleep(time);
                    let late = start.elapsed() - time;
                    told.store(true, SeqCst);
                    late
                });
                runtime::sleep(Duration::from_millis(1));
                assert!(computes_until(&woken, PATIENCE), "no M watches a timer {time:?} away");
                sleeper.join().unwrap()
            });
            all.add(late, Counts::now(&handle).since(before));
        }
    });
    all.report(if sysmon { "far timers" } else { "far timers, no sysmon" });
    assert!(all.each(|counts| counts.rescues == 0), "{all:?}");
    assert!(all.sum(|counts| counts.timers_stolen) > 0, "{all:?}");
}

#[test]
fn a_far_timer_is_watched_by_an_idle_p() {
    far_timers(true, 20);
}

#[test]
fn a_far_timer_is_watched_by_an_idle_p_without_sysmon() {
    far_timers(false, 20);
}

/// A round: a green thread waits by `wait`, and then as many hogs as there are Ps compute until it has woken. `wake` runs on the
/// test's own OS thread once all of them compute. `wait` gives how late it was; `None`: the hogs' patience ended first.
fn while_all_compute(
    runtime: &Runtime,
    patience: Duration,
    wait: impl FnOnce() -> Duration + Send + 'static,
    wake: impl FnOnce(),
) -> Option<(Duration, Counts)> {
    let (handle, procs) = (runtime.handle(), runtime.handle().metrics().procs);
    let (woken, computing) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let told = woken.clone();
    let waiter = runtime.spawn(move || {
        let late = wait();
        told.store(true, SeqCst);
        late
    });
    until_it_waits(&waiter);
    let before = Counts::now(&handle);
    let hogs: Vec<_> = (0..procs)
        .map(|_| {
            let (woken, computing) = (woken.clone(), computing.clone());
            runtime.spawn(move || {
                computing.fetch_add(1, SeqCst);
                computes_until(&woken, patience)
            })
        })
        .collect();
    while computing.load(SeqCst) < procs {
        std::thread::yield_now();
    }
    wake();
    let in_time = hogs.into_iter().map(|hog| hog.join().unwrap()).fold(true, |all, one| all & one);
    let late = waiter.join().unwrap();
    let counts = Counts::now(&handle).since(before);
    in_time.then_some((late, counts))
}

/// Both Ps compute, their queues are empty, no socket is there: only a timer is pending.
fn pending_timer(runtime: &Runtime, patience: Duration) -> Option<(Duration, Counts)> {
    let time = Duration::from_millis(30);
    let sleeps = move || {
        let start = Instant::now();
        runtime::sleep(time);
        start.elapsed() - time
    };
    while_all_compute(runtime, patience, sleeps, || ())
}

/// Both Ps compute, their queues are empty, no timer is pending: only a byte comes, 15 ms after the hogs have begun, from a plain
/// OS thread.
fn lone_byte(runtime: &Runtime, patience: Duration) -> Option<(Duration, Counts)> {
    let (mut client, mut server) = connected();
    let (sent, sent_at) = std::sync::mpsc::channel::<Instant>();
    let reads = move || {
        client.read_exact(&mut [0]).unwrap();
        sent_at.recv().unwrap().elapsed()
    };
    while_all_compute(runtime, patience, reads, || {
        std::thread::sleep(Duration::from_millis(15));
        sent.send(Instant::now()).unwrap();
        server.write_all(&[7]).unwrap();
    })
}

#[test]
fn a_timer_fires_while_all_ps_compute() {
    let mut all = Rounds::default();
    built(2, true, |runtime| {
        for _ in 0..20 {
            let (late, counts) = pending_timer(runtime, PATIENCE).expect("sysmon takes a P for a timer");
            all.add(late, counts);
        }
    });
    all.report("a timer, all Ps compute");
    assert!(all.each(|counts| counts.net_wakeups == 0), "{all:?}");
    assert!(all.sum(|counts| counts.rescues) > 0, "{all:?}");
    // The P with the due timer is taken, and its next M fires it. Only an M that happens to be between two Gs steals one.
    assert!(2 * all.sum(|counts| counts.timers_stolen) < all.sum(|counts| counts.timers_fired), "{all:?}");
}

#[test]
fn a_byte_arrives_while_all_ps_compute() {
    let mut all = Rounds::default();
    built(2, true, |runtime| {
        for _ in 0..20 {
            let (late, counts) = lone_byte(runtime, PATIENCE).expect("sysmon polls the network");
            all.add(late, counts);
        }
    });
    all.report("a byte, all Ps compute");
    assert!(all.each(|counts| counts.timers_fired == 0 && counts.timers_stolen == 0), "{all:?}");
    assert!(all.sum(|counts| counts.rescues) > 0, "{all:?}");
}

#[test]
fn without_sysmon_a_timer_and_a_byte_wait_for_a_p() {
    let patience = Duration::from_millis(150);
    built(2, false, |runtime| {
        assert!(pending_timer(runtime, patience).is_none());
        assert!(lone_byte(runtime, patience).is_none());
    });
}
