//! The end of a thread and of the process: destructors of std's thread-locals, `atexit`, and `exit` on a
//! green thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::{Builder, Handle, spawn, thread};
use tests::{Watchdog, calls, child, everywhere, panics_with};
#[cfg(unix)]
use tests::{on, wait_until};

const MILLI: Duration = Duration::from_millis(1);

/// A value in a std thread-local. Its destructor runs a closure.
struct AtEnd(RefCell<Option<Box<dyn FnOnce()>>>);

impl Drop for AtEnd {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

std::thread_local!(static AT_END: AtEnd = const { AtEnd(RefCell::new(None)) });

/// Arranges that `f` runs when this OS thread ends. Never inlined, because it uses a std thread-local.
#[inline(never)]
fn at_end(f: impl FnOnce() + 'static) {
    AT_END.with(|end| end.0.replace(Some(Box::new(f))));
}

runtime::thread_local!(static NUMBER: Cell<u32> = const { Cell::new(1) });

/// Thread-locals are destroyed in the reverse order of their creation: std's destructor runs before those of
/// the runtime, or after.
#[test]
#[cfg_attr(windows, ignore = "Windows starts no thread while a destructor runs, so waits there can deadlock")]
fn destructors_of_std_on_a_plain_thread() {
    let _dog = Watchdog::new();
    let (done, mut calls) = (Arc::new(AtomicUsize::new(0)), 0);
    for uses_it_first in [false, true] {
        let alive = if uses_it_first { calls::WHILE_THE_THREAD_LIVES } else { &[] };
        for &(name, call) in calls::ANYWHERE.iter().chain(alive) {
            calls += 1;
            let done = done.clone();
            let thread = std::thread::spawn(move || {
                if uses_it_first {
                    runtime::sleep(MILLI);
                    NUMBER.set(2);
                }
                at_end(move || {
                    println!("{name}");
                    call();
                    done.fetch_add(1, SeqCst);
                });
                if !uses_it_first {
                    runtime::sleep(MILLI);
                }
            });
            thread.join().unwrap();
        }
    }
    assert_eq!(done.load(SeqCst), calls);
}

/// Values of a plain thread that were destroyed are not made again.
#[test]
#[cfg_attr(
    all(windows, target_env = "gnu"),
    ignore = "std destroys values there in the order in which the process first used their variables"
)]
fn destroyed_values_of_a_plain_thread_stay_inaccessible() {
    let _dog = Watchdog::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let sees = seen.clone();
    let thread = std::thread::spawn(move || {
        // Registered first, so its destructor runs last.
        at_end(move || {
            assert!(NUMBER.try_with(|_| ()).is_err());
            panics_with("destruction", || NUMBER.get());
            sees.fetch_add(1, SeqCst);
        });
        NUMBER.set(2);
    });
    thread.join().unwrap();
    assert_eq!(seen.load(SeqCst), 1);
}

/// A green thread leaves a value on an OS thread of the runtime. Its destructor runs when the OS thread ends,
/// and is then on a plain thread.
#[test]
#[cfg_attr(windows, ignore = "Windows starts no thread while a destructor runs, so waits there can deadlock")]
fn destructors_of_std_on_a_thread_of_the_runtime() {
    if tests::has_own_locals() {
        // The value is the green thread's, and its destructor runs there.
        return;
    }
    for (name, call) in calls::everything() {
        println!("{name}");
        let _dog = Watchdog::new();
        let runtime = Builder::new().procs(1).build().unwrap();
        let handle = runtime.handle();
        let done = Arc::new(AtomicUsize::new(0));
        let counts = done.clone();
        runtime.block_on(move || {
            at_end(move || {
                assert!(Handle::try_current().is_none());
                panics_with("shut down", || handle.spawn(|| ()));
                call();
                counts.fetch_add(1, SeqCst);
            });
        });
        drop(runtime);
        assert_eq!(done.load(SeqCst), 1);
    }
}

/// Runs `body` in a child process that must end well and print "its last word" in an exit handler or
/// destructor.
fn says_last(test: &str, case: &str, body: impl FnOnce()) {
    let watched = || {
        let _dog = Watchdog::new();
        body();
    };
    child::run(test, case, watched, |output| {
        assert!(output.status.success(), "{case}: {}\n{}", output.status, child::text(output));
        assert!(child::stderr(output).contains("its last word"), "{case}: {}", child::text(output));
    });
}

fn calls_everything() {
    for (name, call) in calls::ANYWHERE {
        eprintln!("{name}");
        call();
    }
    eprintln!("its last word");
}

/// `exit` runs the destructors of the calling thread.
#[test]
#[cfg_attr(target_env = "musl", ignore = "musl runs no destructor of a thread-local when a process ends")]
#[cfg_attr(
    windows,
    ignore = "Windows has ended the other threads when the destructors run, so they wait in vain"
)]
fn destructors_of_std_when_the_process_ends() {
    for used in [false, true] {
        says_last("destructors_of_std_when_the_process_ends", &format!("{used}"), move || {
            if used {
                everywhere(|| runtime::sleep(MILLI));
            }
            at_end(calls_everything);
        });
    }
}

#[cfg(unix)]
extern "C" fn last_of_all() {
    calls_everything();
}

#[cfg(unix)]
#[test]
fn exit_handlers() {
    for case in ["unused", "used", "on a green thread", "of its own", "while others run"] {
        says_last("exit_handlers", case, move || {
            // SAFETY: `last_of_all` may run at exit: nothing that it uses is destroyed before that.
            assert_eq!(unsafe { libc::atexit(last_of_all) }, 0);
            match case {
                "unused" => {}
                "used" => runtime::sleep(MILLI),
                "on a green thread" => runtime::block_on(|| std::process::exit(0)),
                "of its own" => on(1, || std::process::exit(0)),
                _ => {
                    for _ in 0..100 {
                        spawn(|| {
                            loop {
                                thread::yield_now();
                            }
                        });
                    }
                    wait_until("the threads run", || runtime::metrics::snapshot().yields > 1000);
                }
            }
        });
    }
}

/// `exit` waits for no green thread.
#[test]
fn a_process_ends_with_green_threads_in_every_state() {
    child::passes("a_process_ends_with_green_threads_in_every_state", "", || {
        spawn(|| runtime::sleep(Duration::from_secs(3600)));
        spawn(thread::park);
        spawn(runtime::time::sleep_async(Duration::from_secs(3600)));
        spawn(|| runtime::blocking(|| std::thread::sleep(Duration::from_secs(3600))));
        spawn(|| while !thread::cancelled() {});
        for i in 0..100 {
            spawn(move || {
                loop {
                    if i % 2 == 0 { thread::yield_now() } else { runtime::sleep(MILLI / 20) }
                }
            });
        }
        runtime::sleep(5 * MILLI);
    });
}
