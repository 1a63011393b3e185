//! Values of the user with destructors that panic. The runtime drops them on behalf of a thread, and the
//! panic goes no further.

use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::context::Context;
use runtime::sync::Barrier;
use runtime::thread::{Cancelled, JoinSet, park};
use runtime::time::timeout;
use runtime::{channel, spawn, thread};
use tests::{ON_PURPOSE, OnDrop, everywhere, on_each, quiet_panics_on_purpose, wait_until, with};

const HOUR: Duration = Duration::from_secs(3600);

/// Counts its drops, and panics at each of them.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, SeqCst);
        panic_any(ON_PURPOSE);
    }
}

/// Calls `way` with what makes bombs. Checks that it returns, and that each bomb is dropped in the end.
fn contains(way: impl FnOnce(&dyn Fn() -> Bomb)) {
    quiet_panics_on_purpose();
    let (made, drops) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    way(&|| {
        made.fetch_add(1, SeqCst);
        Bomb(drops.clone())
    });
    wait_until("each bomb is dropped", || drops.load(SeqCst) == made.load(SeqCst));
}

/// The handle of an ended thread drops the result, and so does a thread that ends later.
#[test]
fn results_of_dropped_handles() {
    everywhere(|| {
        for ended in [true, false] {
            contains(|bomb| {
                let (result, payload) = (bomb(), bomb());
                let threads = [
                    spawn(move || {
                        if !ended {
                            park();
                        }
                        result
                    }),
                    spawn(move || {
                        if !ended {
                            park();
                        }
                        resume_unwind(Box::new(payload))
                    }),
                ];
                wait_until("both have ended", || !ended || threads.iter().all(|thread| thread.is_finished()));
                let handles = threads.each_ref().map(|thread| thread.thread().clone());
                drop(threads);
                handles.iter().for_each(|thread| thread.unpark());
            });
        }
    });
}

/// Several results of one set: a second panic during the unwind of the first would end the process.
#[test]
fn results_of_a_join_set() {
    /// Without `ended` the members may be cancelled before they begin. The set then has none of these
    /// results.
    fn full(bomb: &dyn Fn() -> Bomb, ended: bool) -> JoinSet<Bomb> {
        let mut set = JoinSet::new();
        for _ in 0..3 {
            let (result, payload) = (bomb(), bomb());
            let members = [set.spawn(move || result), set.spawn(move || resume_unwind(Box::new(payload)))];
            wait_until("both have ended", || !ended || members.iter().all(|member| member.is_finished()));
        }
        set
    }
    let ways: [fn(JoinSet<Bomb>); 4] = [
        drop,
        |mut set| set.shutdown(),
        |mut set| set.detach_all(),
        // The payload with which `join_all` unwinds is the test's to drop.
        |set| _ = catch_unwind(AssertUnwindSafe(|| drop(catch_unwind(AssertUnwindSafe(|| set.join_all()))))),
    ];
    everywhere(|| {
        for ended in [true, false] {
            ways.iter().for_each(|way| contains(|bomb| way(full(bomb, ended))));
        }
    });
    // `join_all` has taken results when it is cancelled.
    on_each(|| {
        contains(|bomb| {
            let (result, (told, tells)) = (bomb(), channel::bounded(1));
            let joins = spawn(move || {
                let mut set = JoinSet::new();
                let first = set.spawn(move || Some(result));
                wait_until("the first has ended", || first.is_finished());
                set.spawn(|| {
                    thread::park();
                    None
                });
                told.send(()).unwrap();
                set.join_all().len()
            });
            tells.recv().unwrap();
            runtime::sleep(Duration::from_millis(1));
            joins.cancel();
            assert!(joins.join().unwrap_err().is::<Cancelled>());
        });
    });
}

/// A scope drops the value of its closure if a thread of it has panicked.
#[test]
fn the_value_of_a_scope() {
    everywhere(|| {
        contains(|bomb| {
            let failed = catch_unwind(AssertUnwindSafe(|| {
                runtime::scope(|s| {
                    s.spawn(|| panic_any(ON_PURPOSE));
                    bomb()
                });
            }));
            assert!(failed.is_err());
        });
        contains(|bomb| {
            let error = runtime::try_scope(|s| {
                s.spawn(|| Err::<(), _>("the first error"));
                Ok::<_, &str>(bomb())
            });
            assert_eq!(error.map(std::mem::forget), Err("the first error"));
        });
    });
}

/// A scope returns one failure, and drops the value and the other errors.
#[test]
fn what_a_scope_that_fails_keeps_to_itself() {
    type Outcome = Result<(), Bomb>;
    everywhere(|| {
        // Both threads fail although the first failure cancels the other: neither fails before both have
        // begun.
        let both = Barrier::new(2);
        let meet = || _ = thread::uncancellable(|| both.wait());
        contains(|bomb| {
            let (value, error) = (bomb(), bomb());
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                runtime::try_scope(|s| {
                    s.spawn(move || {
                        meet();
                        Err::<(), _>(error)
                    });
                    s.spawn(|| -> Outcome {
                        meet();
                        panic_any(ON_PURPOSE)
                    });
                    Ok(value)
                })
            }));
            assert!(panicked.is_err());
        });
        contains(|bomb| {
            let errors = [bomb(), bomb()];
            let failed = runtime::try_scope(|s| {
                for error in errors {
                    s.spawn(move || {
                        meet();
                        Err::<(), _>(error)
                    });
                }
                Ok(())
            });
            assert!(catch_unwind(AssertUnwindSafe(|| drop(failed.unwrap_err()))).is_err());
        });
        // The closure of the scope panics after a thread has failed.
        contains(|bomb| {
            let error = bomb();
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                runtime::try_scope(|s| -> Outcome {
                    let fails = s.spawn(move || Err::<(), _>(error));
                    wait_until("the error is kept", || fails.is_finished());
                    panic_any(ON_PURPOSE)
                })
            }));
            assert!(panicked.is_err());
        });
    });
}

/// A context drops a function that was stopped, and starts others.
#[test]
fn functions_of_contexts() {
    type Way = fn(Context, &dyn Fn() -> Bomb);
    everywhere(|| {
        let ways: [Way; 4] = [
            |context, bomb| {
                let bombs = [bomb(), bomb()];
                let functions = bombs.map(|bomb| context.after_func(move || drop(bomb)));
                assert!(functions.iter().all(|function| function.stop()));
            },
            // The drop of the handle ends the context, and the functions panic on green threads of their own.
            |context, bomb| {
                for bomb in [bomb(), bomb()] {
                    context.after_func(move || drop(bomb));
                }
            },
            |context, bomb| {
                let (context, cancel) = context.with_cancel();
                for bomb in [bomb(), bomb()] {
                    context.after_func(move || resume_unwind(Box::new(bomb)));
                }
                cancel.cancel();
            },
            // The runtime of the function has ended, so the canceller runs it.
            |context, bomb| {
                let ((context, cancel), bomb) = (context.with_cancel(), bomb());
                let thread = std::thread::spawn(move || {
                    with(1, |runtime| {
                        runtime.block_on(|| context.after_func(move || resume_unwind(Box::new(bomb))));
                    });
                });
                runtime::blocking(|| thread.join()).unwrap();
                cancel.cancel();
            },
        ];
        for way in ways {
            contains(|bomb| {
                let (context, cancel) = Context::background().with_cancel();
                way(context, bomb);
                drop(cancel);
            });
        }
    });
}

/// The handle drops the function of a stopped timer. A run drops the function of a handle that is gone.
#[test]
fn functions_of_timers() {
    everywhere(|| {
        for time in [HOUR, Duration::ZERO, Duration::from_micros(20)] {
            for _ in 0..20 {
                contains(|bomb| {
                    let bomb = bomb();
                    drop(runtime::time::after_func(time, move || _ = &bomb));
                });
            }
        }
    });
}

/// A destructor that waits is neither cancelled nor timed out with the thread that happens to run it.
#[test]
fn destructors_that_wait_are_not_ended_with_their_thread() {
    type Way = fn(OnDrop<Box<dyn FnMut() + Send>>);
    let ways: [Way; 4] = [
        |value| {
            let thread = spawn(move || value);
            wait_until_unended(|| thread.is_finished());
            drop(thread);
        },
        |value| {
            let mut set = JoinSet::new();
            set.spawn(move || value);
        },
        |value| {
            let value = std::sync::Mutex::new(value);
            drop(runtime::time::after_func(HOUR, move || _ = &value));
        },
        |value| {
            let (context, _cancel) = Context::background().with_cancel();
            assert!(context.after_func(move || drop(value)).stop());
        },
    ];
    fn wait_until_unended(condition: impl Fn() -> bool) {
        while !condition() {
            runtime::yield_now();
        }
    }
    on_each(|| {
        let swallowed = || runtime::Handle::current().metrics().swallowed_cancellations;
        let before = swallowed();
        for way in ways {
            for cancels in [true, false] {
                let done = Arc::new(AtomicUsize::new(0));
                let counts = done.clone();
                let waits = move || {
                    runtime::sleep(Duration::from_millis(1));
                    counts.fetch_add(1, SeqCst);
                };
                let value = OnDrop(Box::new(waits) as Box<dyn FnMut() + Send>);
                let (begins, begun) = channel::bounded(1);
                let thread = spawn(move || {
                    begins.send(()).unwrap();
                    let drops_late = || {
                        let start = std::time::Instant::now();
                        wait_until_unended(|| match cancels {
                            true => thread::cancelled(),
                            false => start.elapsed() > Duration::from_micros(100),
                        });
                        way(value);
                        park();
                    };
                    match cancels {
                        true => drops_late(),
                        false => assert!(timeout(Duration::from_micros(50), drops_late).is_err()),
                    }
                });
                if cancels {
                    begun.recv().unwrap();
                    thread.cancel();
                    assert!(thread.join().unwrap_err().is::<Cancelled>());
                } else {
                    thread.join().unwrap();
                }
                assert_eq!(done.load(SeqCst), 1, "the destructor has come to its end");
            }
        }
        assert_eq!(swallowed(), before);
    });
}

/// A panic in the destructor of a cancelled future is the result, as for a closure that is cancelled before
/// it began.
#[test]
fn a_panic_of_a_cancelled_future_is_its_result() {
    async fn panics(bomb: Bomb) {
        let _bomb = bomb;
        std::future::pending().await
    }
    fn is_panic<T>(result: thread::Result<T>) {
        assert_eq!(result.err().expect("it was cancelled").downcast_ref(), Some(&ON_PURPOSE));
    }
    on_each(|| {
        for polled in [true, false] {
            let wait = || {
                if polled {
                    runtime::sleep(Duration::from_millis(1));
                }
            };
            contains(|bomb| {
                let future = spawn(panics(bomb()));
                wait();
                future.cancel();
                is_panic(future.join());
            });
            contains(|bomb| {
                let mut set = JoinSet::new();
                (0..3).for_each(|_| drop(set.spawn(panics(bomb()))));
                wait();
                set.cancel_all();
                while let Some(result) = set.join_next() {
                    is_panic(result.map_err(|error| error.into_panic()));
                }
            });
            contains(|bomb| {
                let failed = catch_unwind(AssertUnwindSafe(|| {
                    runtime::scope(|s| {
                        let future = s.spawn(panics(bomb()));
                        wait();
                        future.cancel();
                    });
                }));
                assert!(failed.is_err(), "the scope tells of the panic");
            });
        }
    });
    contains(|bomb| {
        let mut futures = Vec::new();
        with(2, |runtime| {
            futures.extend((0..10).map(|_| runtime.spawn(panics(bomb()))));
            std::thread::sleep(Duration::from_millis(1));
        });
        futures.into_iter().for_each(|future| is_panic(future.join()));
    });
}
