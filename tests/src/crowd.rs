//! Crowds: green threads and plain OS threads that run the same closure, in runtimes of every kind.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use runtime::sync::WaitGroup;
use runtime::{Builder, JoinHandle, Migration, Runtime};

use crate::{PROCS, Watchdog, spin, with_built};

/// Runs `main` on the calling thread with a runtime for each number of Ps, by default and strict.
pub fn with_each(main: impl Fn(&Runtime)) {
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        for procs in PROCS {
            with_built(Builder::new().procs(procs).migration(migration), &main);
        }
    }
}

/// Runs `main` as a green thread of each of these runtimes, and on a plain OS thread.
pub fn in_each(main: impl Fn() + Send + Sync) {
    with_each(|runtime| runtime.block_on(&main));
    let _dog = Watchdog::new();
    main();
}

/// Runs `does` on `greens` green threads and `plains` plain OS threads, each with its number, the green
/// threads first. Returns when all have ended. The caller is a green or a plain thread.
pub fn crowd(greens: usize, plains: usize, does: impl Fn(usize) + Send + Sync) {
    let does = &does;
    runtime::scope(|s| {
        if plains > 0 {
            s.spawn(move || {
                // std's scope parks its OS thread, so the green thread must stay on that OS thread.
                let _pin = runtime::thread::pin();
                thread::scope(|os| {
                    let all = WaitGroup::new();
                    for i in greens..greens + plains {
                        let its = all.clone();
                        os.spawn(move || {
                            does(i);
                            drop(its);
                        });
                    }
                    // `all.wait` parks, where std's scope blocks: in a strict runtime, threads that the plain
                    // ones wait for may be bound to this M.
                    all.wait();
                });
            });
        }
        for i in 0..greens {
            s.spawn(move || does(i));
        }
    });
}

/// Green threads that compute and yield until the value is dropped, so that no P is idle.
#[derive(Debug)]
pub struct Spinners {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Spinners {
    /// Spawns `number` threads. The caller is a green thread.
    pub fn new(number: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let spinner = |_| {
            let stop = stop.clone();
            runtime::spawn(move || {
                while !stop.load(SeqCst) {
                    spin(Duration::from_micros(300));
                    runtime::yield_now();
                }
            })
        };
        Spinners { threads: (0..number).map(spinner).collect(), stop }
    }
}

impl Drop for Spinners {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}
