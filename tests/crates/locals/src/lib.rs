//! Crates that keep what belongs to a thread, in closures with thread-locals of their own. `LOCALS=os` gives
//! the closures those of the OS thread instead: most tests then fail, and some with undefined behaviour.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use runtime::{Builder, Migration, ThreadLocals, scope, sleep, spawn, yield_now};

/// Runs `main` on runtimes with 1, 2 and 8 Ps, whose closures may move at each park.
pub fn on_all(main: impl Fn() + Send + Sync) {
    on_all_with(Migration::Anytime, main);
}

/// As [`on_all`], with another mode of migration.
pub fn on_all_with(migration: Migration, main: impl Fn() + Send + Sync) {
    let whose = match std::env::var("LOCALS").as_deref() {
        Ok("os") => ThreadLocals::OfOsThread,
        _ => ThreadLocals::OfGreenThread,
    };
    for procs in [1, 2, 8] {
        let runtime = Builder::new().procs(procs).migration(migration).thread_locals(whose).build().unwrap();
        runtime.block_on(&main);
    }
}

/// Runs `body` in `count` closures at once, each with its number.
pub fn in_many(count: usize, body: impl Fn(usize) + Send + Sync) {
    scope(|s| {
        for number in 0..count {
            let body = &body;
            s.spawn(move || body(number));
        }
    });
}

/// Parks in one of several ways.
pub fn park(n: usize) {
    let before = os_thread();
    match n % 4 {
        0 => sleep(Duration::from_micros(50)),
        1 => sleep(Duration::from_millis(1)),
        2 => drop(spawn(yield_now).join()),
        _ => yield_now(),
    }
    MOVES.fetch_add(usize::from(os_thread() != before), Relaxed);
}

/// How often `park` has returned on another OS thread.
pub static MOVES: AtomicUsize = AtomicUsize::new(0);

fn os_thread() -> i64 {
    // SAFETY: the call has no requirements.
    unsafe { libc::syscall(libc::SYS_gettid) }
}
