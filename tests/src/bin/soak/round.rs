//! A round: workers perform operations for some seconds. Then all threads, values and descriptors of the
//! round must be gone.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread as os;
use std::time::{Duration, Instant};

use runtime::{Handle, Runtime};
use tests::{Random, system, wait_until};

use crate::actor::{Actor, Unborn, by_itself};
use crate::board::{self, Other, Place};
use crate::late;
use crate::mode::Mode;
use crate::ops;
use crate::settings::Settings;
use crate::site::Site;
use crate::world::{Crew, World};

/// What a round counted.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) operations: u64,
    pub(crate) threads: u64,
    pub(crate) refused: u64,
}

/// Runs a round on `procs` Ps. The choices of its workers follow from `seed`.
pub(crate) fn run(
    settings: &Settings,
    procs: usize,
    mode: &'static Mode,
    time: Duration,
    seed: u64,
) -> Totals {
    let place = Place::take(None);
    let default = default_site();
    let (base, before, spawned) = (Base::settled(), board::finished(), default.began());
    let (runtime, home) = Site::start(procs, mode).expect("a runtime");
    let crew = Crew::start(&runtime, home.clone(), default.clone(), procs);
    place.rests(Other::Round);
    let start = Instant::now();
    work(crew.world(), start + time, seed, settings.workers);
    let took = start.elapsed();
    place.works(Other::CrewEnds);
    let world = crew.end();
    comes_out_even(&world, &place);
    let now = home.handle.metrics();
    if !settings.sysmon {
        tests::assert_no_rescue(&home.handle);
    }
    place.works(Other::RuntimeEnds);
    end_runtime(runtime, seed);
    home.comes_out_even(true);
    let totals = Totals {
        operations: board::finished() - before,
        threads: home.began() + default.began() - spawned,
        refused: world.refused.load(SeqCst),
    };
    place.works(Other::BaseIsBack);
    // The last handles hold the runtime's descriptors.
    drop((world, home));
    base.is_back(settings.patience / 2);
    println!(
        "{procs} Ps, {}: {:.1} s, {} operations, {} green threads; {} steals, {} hand-offs, {} rescues, {} threads, {} MiB",
        mode.name,
        took.as_secs_f64(),
        totals.operations,
        totals.threads,
        now.steals,
        now.hand_offs,
        now.rescues_computing + now.rescues_blocked,
        now.threads,
        system::resident_bytes() >> 20,
    );
    totals
}

fn default_site() -> Arc<Site> {
    // The default runtime lasts as long as the process. Threads that it spawned earlier count as begun and
    // ended.
    Site::of(Handle::current(), &crate::mode::MODES[0])
}

fn work(world: &Arc<World>, end: Instant, seed: u64, workers: usize) {
    let seeds = (0..workers as u64).map(|i| seed.wrapping_mul(1_000_003).wrapping_add(i));
    let (mut green, mut plain) = (Vec::new(), Vec::new());
    for (i, seed) in seeds.enumerate() {
        let world = world.clone();
        if i % 6 == 5 {
            let thread = os::Builder::new().name("soak-worker".into());
            let worker = thread.spawn(move || performs(&mut Actor::plain(&world, seed), seed, end));
            plain.push(worker.expect("a thread"));
        } else {
            let unborn = Unborn::new(&world, &world.home, seed);
            green.push(world.home.spawn(move || performs(&mut unborn.begin(), seed, end)));
        }
    }
    plain.into_iter().for_each(|worker| by_itself(worker.join()));
    green.into_iter().for_each(|worker| by_itself(worker.join()));
}

/// Performs operations until `end`. Their sequence follows from `seed` alone, whatever random numbers the
/// operations use.
fn performs(actor: &mut Actor, seed: u64, end: Instant) {
    let mut random = Random::new(seed);
    while Instant::now() < end {
        let seed = random.number();
        actor.perform(ops::choose(&mut Random::new(seed), 0), seed);
    }
}

/// Checks, after all workers have ended, that every thread has ended and every token is dropped.
fn comes_out_even(world: &World, place: &Place) {
    place.works(Other::AllEnd);
    world.home.comes_out_even(true);
    world.default.comes_out_even(true);
    place.works(Other::AllDrops);
    wait_until("everything is dropped", || world.drops.alive() == 0);
    let count = |f: fn(&board::Counts) -> u64| board::COUNTS.iter().map(f).sum::<u64>();
    let ended = count(|counts| counts.finished.load(SeqCst) + counts.interrupted.load(SeqCst));
    assert_eq!(count(|counts| counts.begun.load(SeqCst)), ended, "operations begun and ended");
}

fn end_runtime(runtime: Runtime, seed: u64) {
    if seed.is_multiple_of(2) {
        drop(runtime);
    } else {
        assert!(runtime.shutdown_timeout(Duration::from_secs(3600)), "no green thread is left to wait for");
    }
}

/// The descriptors and OS threads of the process, without the OS threads of runtimes that last.
#[derive(Debug, PartialEq)]
struct Base {
    descriptors: usize,
    threads: usize,
}

impl Base {
    fn now() -> Base {
        if !cfg!(target_os = "linux") {
            return Base { descriptors: 0, threads: 0 };
        }
        // The first pin in the default runtime starts a thread that stays.
        let template = system::threads_named("green-start").len();
        let staying = Handle::current().metrics().threads + late::threads() + template;
        // The default runtime keeps its near pollers. With the feature `interpose` an OS thread of it that
        // waited for a foreign socket keeps an epoll instance.
        let descriptors = if cfg!(feature = "interpose") {
            system::descriptors_but_anonymous()
        } else {
            system::descriptors() - 2 * Handle::current().metrics().near_pollers
        };
        Base { descriptors, threads: system::threads().saturating_sub(staying) }
    }

    /// Looks until ten looks in a row are equal. A runtime counts its OS threads down just before they end,
    /// so a single look may count an OS thread that is about to end.
    fn settled() -> Base {
        let (mut base, mut equal) = (Base::now(), 0);
        while equal < 10 {
            os::sleep(Duration::from_millis(1));
            let now = Base::now();
            equal = if now == base { equal + 1 } else { 0 };
            base = now;
        }
        base
    }

    fn is_back(&self, patience: Duration) {
        let start = Instant::now();
        while Base::now() != *self {
            let now = Base::now();
            assert!(start.elapsed() < patience, "the round began with {self:?} and ended with {now:?}");
            os::sleep(Duration::from_millis(1));
        }
    }
}
