//! Green threads and plain OS threads that do something together, in runtimes of every kind.

use std::thread;

use runtime::sync::WaitGroup;
use runtime::{Builder, Migration, Runtime};

use crate::{PROCS, Watchdog, with_built};

/// Runs `main` with a runtime of each number of Ps, in the default mode and in strict mode, from a plain thread.
pub fn with_each(main: impl Fn(&Runtime)) {
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        for procs in PROCS {
            with_built(Builder::new().procs(procs).migration(migration), &main);
        }
    }
}

/// Runs `main` as a green thread of each of those, and on a plain thread.
pub fn in_each(main: impl Fn() + Send + Sync) {
    with_each(|runtime| runtime.block_on(&main));
    let _dog = Watchdog::new();
    main();
}

/// Runs `does` on so many green threads, each with its number, and on so many plain threads with the numbers that follow;
/// all have ended when it returns. *On a green thread, or a plain one.*
pub fn crowd(greens: usize, plains: usize, does: impl Fn(usize) + Send + Sync) {
    let does = &does;
    runtime::scope(|s| {
        if plains > 0 {
            s.spawn(move || {
                // std's scope waits for its threads by its own OS thread's parking, so it must stay on one.
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
                    // Parked, not blocked: in strict mode some that they wait for may be at home on this very thread.
                    all.wait();
                });
            });
        }
        for i in 0..greens {
            s.spawn(move || does(i));
        }
    });
}
