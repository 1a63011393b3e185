//! Timers and sockets while green threads compute. The M of an idle P watches the timers. If all Ps compute,
//! sysmon takes a P for an overdue timer, or for a green thread that the network has woken. Until then an M
//! without a P, at least sysmon's spare M, waits in the netpoller.
//!
//! Each test prints the lateness of the waiter (`--nocapture`).

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::{Builder, Handle, Runtime, spawn};
use tests::sockets::connected;
use tests::{until_it_waits, with_built};

/// A hog ends after this time: the green thread that the hog waits for was not woken.
const PATIENCE: Duration = Duration::from_secs(10);
/// A bound on lateness that holds on a loaded machine too, and is far below `PATIENCE`.
const LATE: Duration = Duration::from_secs(5);

/// The counts of a round, from the moment when all hogs compute until the waiter runs.
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

/// The lateness and the counts of several rounds.
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

    /// Prints the figures, and checks the bound on lateness.
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

/// Computes until `done` is set. Returns `false` if `patience` has passed first.
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

/// Runs rounds with four Ps, of which three are idle. In each, a green thread sleeps for `time`. Another
/// sleeps for 1 ms and then computes until the first has woken.
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
    // Without an idle P each round needs a rescue. On a busy machine the system may not run the M of a busy P
    // for 10 ms, and sysmon takes that P.
    assert!(2 * all.sum(|counts| counts.rescues) < rounds, "{all:?}");
    assert!(all.sum(|counts| counts.timers_stolen) > 0, "{all:?}");
}

#[test]
fn a_far_timer_is_watched_by_an_idle_p_with_and_without_sysmon() {
    far_timers(true, 20);
    far_timers(false, 20);
}

/// The result of a round.
enum Round {
    /// The waiter was late by this time. The counts begin when all hogs compute.
    Woken(Duration, Counts),
    /// The hogs ended before the waiter woke.
    InVain,
    /// The waiter woke before all hogs computed. The machine is busy, and the round shows nothing.
    TooEarly,
}

/// Runs a round: a green thread waits in `wait`, which returns its lateness. Then as many hogs as there are
/// Ps compute until that thread has woken. `wake` runs on the test's own OS thread once all hogs compute.
fn while_all_compute(
    runtime: &Runtime,
    patience: Duration,
    wait: impl FnOnce() -> Duration + Send + 'static,
    wake: impl FnOnce(),
) -> Round {
    let (handle, procs) = (runtime.handle(), runtime.handle().metrics().procs);
    let (woken, computing) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let told = woken.clone();
    let waiter = runtime.spawn(move || {
        let late = wait();
        told.store(true, SeqCst);
        late
    });
    until_it_waits(&waiter);
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
    let before = Counts::now(&handle);
    let early = woken.load(SeqCst);
    wake();
    let in_time = hogs.into_iter().map(|hog| hog.join().unwrap()).fold(true, |all, one| all & one);
    let late = waiter.join().unwrap();
    match (early, in_time) {
        (true, _) => Round::TooEarly,
        (false, true) => Round::Woken(late, Counts::now(&handle).since(before)),
        (false, false) => Round::InVain,
    }
}

/// A round in which both Ps compute, with empty queues and without sockets: only a timer is pending. On a
/// busy machine the timer is made longer.
fn pending_timer(runtime: &Runtime, patience: Duration) -> Round {
    let sleeps = |time: Duration| {
        move || {
            let start = Instant::now();
            runtime::sleep(time);
            start.elapsed() - time
        }
    };
    let mut rounds = (0..8).map(|n| {
        let time = Duration::from_millis(30 << n);
        while_all_compute(runtime, time + patience, sleeps(time), || ())
    });
    rounds.find(|round| !matches!(round, Round::TooEarly)).expect("the hogs compute within four seconds")
}

/// A round in which both Ps compute, with empty queues and without timers. A byte from a plain OS thread
/// arrives 15 ms after the hogs have begun.
fn lone_byte(runtime: &Runtime, patience: Duration) -> Round {
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

/// Runs twenty rounds, and checks that each wakes its waiter.
fn twenty(name: &str, round: impl Fn(&Runtime, Duration) -> Round) -> Rounds {
    let mut all = Rounds::default();
    built(2, true, |runtime| {
        for _ in 0..20 {
            let Round::Woken(late, counts) = round(runtime, PATIENCE) else { panic!("{name}: not woken") };
            all.add(late, counts);
        }
    });
    all.report(name);
    assert!(all.sum(|counts| counts.rescues) > 0, "{all:?}");
    all
}

#[test]
fn a_timer_fires_while_all_ps_compute() {
    let all = twenty("a timer, all Ps compute", pending_timer);
    assert!(all.each(|counts| counts.net_wakeups == 0), "{all:?}");
    // Sysmon takes the P with the due timer, and the P's next M fires the timer. Only an M that is between
    // two Gs at that time steals the timer.
    assert!(2 * all.sum(|counts| counts.timers_stolen) < all.sum(|counts| counts.timers_fired), "{all:?}");
}

#[test]
fn a_byte_arrives_while_all_ps_compute() {
    let all = twenty("a byte, all Ps compute", lone_byte);
    assert!(all.each(|counts| counts.timers_fired == 0 && counts.timers_stolen == 0), "{all:?}");
}

#[test]
fn without_sysmon_a_timer_and_a_byte_wait_for_a_p() {
    let patience = Duration::from_millis(150);
    built(2, false, |runtime| {
        assert!(matches!(pending_timer(runtime, patience), Round::InVain));
        assert!(matches!(lone_byte(runtime, patience), Round::InVain));
    });
}
