//! `Context::run`: a context that is over ends every wait inside, and no other wait.

use std::cell::Cell;
use std::future::pending;
use std::io::Read;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::channel::{bounded, unbounded};
use runtime::context::{CancelCauseOnDrop, Context, ContextError, Ended};
use runtime::net::{TcpListener, TcpStream};
use runtime::sync::{Condvar, Mutex, Notify, RwLock, Semaphore};
use runtime::thread::{self, Cancelled};
use runtime::time::{Elapsed, sleep_async, timeout};
use runtime::{scope, select, spawn};
use tests::futures::drive_on_plain_thread;
use tests::{Drops, OnDrop, Random, child, everywhere, on_each, spin, wait_until};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

fn cancellable() -> (Context, CancelCauseOnDrop) {
    Context::background().with_cancel_cause()
}

/// Cancels a context with a cause, on another thread, `time` after `begun` is set.
fn cancel_later(cancel: CancelCauseOnDrop, begun: Arc<AtomicBool>, time: Duration) {
    spawn(move || {
        wait_until("the code has begun", || begun.load(SeqCst));
        runtime::sleep(time);
        cancel.cancel("later");
    });
}

/// Checks that the end of a context ends `f`, which waits without end.
fn is_ended<T: std::fmt::Debug>(f: impl FnOnce() -> T) {
    let (context, cancel) = cancellable();
    let (begun, drops) = (Arc::new(AtomicBool::new(false)), Drops::default());
    let token = drops.token();
    cancel_later(cancel, begun.clone(), MILLI);
    let result = context.run(|| {
        let _token = token;
        begun.store(true, SeqCst);
        f()
    });
    let ended = result.expect_err("the closure waits without end");
    assert_eq!((ended.error(), ended.cause().to_string().as_str()), (ContextError::Canceled, "later"));
    assert_eq!(drops.count(), 1, "the destructors have run");
}

/// Checks that waits last as long as they should: no earlier end hits them.
fn waits_as_before() {
    let start = Instant::now();
    runtime::sleep(MILLI / 4);
    assert!(start.elapsed() >= MILLI / 4);
    assert_eq!(spawn(|| 3).join().unwrap(), 3);
}

#[test]
fn the_end_ends_a_wait_of_every_kind() {
    everywhere(|| {
        is_ended(|| runtime::sleep(HOUR));
        is_ended(|| {
            loop {
                thread::park()
            }
        });
        is_ended(|| {
            loop {
                runtime::sleep(Duration::from_micros(50))
            }
        });
        is_ended(|| spawn(|| runtime::sleep(HOUR)).join());
        let (s, r) = unbounded::<u8>();
        is_ended(|| r.recv());
        is_ended(|| select! { recv(r) -> _ => (), default(HOUR) => () });
        drop(s);
        let (s, r) = bounded::<u8>(0);
        is_ended(|| s.send(1));
        assert!(r.try_recv().is_err());
        let mutex = Mutex::new(1);
        let held = mutex.lock();
        is_ended(|| *mutex.lock());
        drop(held);
        assert_eq!(*mutex.lock(), 1);
        let lock = RwLock::new(2);
        let held = lock.write();
        is_ended(|| *lock.read());
        drop(held);
        assert_eq!(*lock.write(), 2);
        let condvar = Condvar::new();
        is_ended(|| condvar.wait(&mut mutex.lock()));
        is_ended(|| Notify::new().notified());
        let semaphore = Semaphore::new(1);
        let permit = semaphore.acquire();
        is_ended(|| semaphore.acquire().unwrap().forget());
        drop(permit);
        assert!(semaphore.try_acquire().is_ok());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        is_ended(|| listener.accept());
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        is_ended(|| client.read(&mut [0; 4]));
        waits_as_before();
    });
    on_each(|| is_ended(|| runtime::block_on(pending::<()>())));
}

#[test]
fn code_that_is_in_time_returns_its_value() {
    everywhere(|| {
        let (context, cancel) = cancellable();
        for i in 0..200u64 {
            let value = context.run(|| {
                runtime::sleep(Duration::from_micros(i % 20));
                spawn(move || i).join().unwrap()
            });
            assert_eq!(value.unwrap(), i);
        }
        assert_eq!(Context::background().run(|| 5).unwrap(), 5);
        cancel.cancel("done");
        waits_as_before();
        // A context that is over ends only code that waits.
        assert_eq!(context.run(|| 6).unwrap(), 6);
        assert_eq!(context.run(|| runtime::blocking(|| std::thread::sleep(MILLI))).map_err(|_| ()), Ok(()));
        assert_eq!(context.run(|| runtime::sleep(Duration::ZERO)).unwrap_err().cause().to_string(), "done");
        waits_as_before();
    });
}

#[test]
fn a_deadline_ends_waits() {
    everywhere(|| {
        let start = Instant::now();
        let (context, _c) = Context::background().with_timeout_cause(3 * MILLI, "slow");
        let ended = context.with_value(1u8).run(|| runtime::sleep(HOUR)).unwrap_err();
        assert!(start.elapsed() >= 3 * MILLI);
        assert_eq!(
            (ended.error(), ended.cause().to_string().as_str()),
            (ContextError::DeadlineExceeded, "slow")
        );
        waits_as_before();
    });
}

#[test]
fn the_end_goes_to_the_outermost_run_whose_context_is_over() {
    everywhere(|| {
        for which in 0..3 {
            let (outer, cancel_outer) = cancellable();
            let (inner, cancel_inner) = if which == 2 { outer.with_cancel_cause() } else { cancellable() };
            let (middle, _m) = cancellable();
            let went_on = Cell::new(false);
            let result = outer.run(|| {
                let inner = middle.run(|| {
                    inner.run(|| {
                        match which {
                            0 => cancel_inner.cancel("inner"),
                            _ => cancel_outer.cancel("outer"),
                        }
                        thread::park();
                    })
                });
                went_on.set(true);
                let inner = inner.unwrap().unwrap_err();
                waits_as_before();
                inner.cause().to_string()
            });
            match which {
                0 => assert_eq!(result.unwrap(), "inner"),
                _ => {
                    assert_eq!(result.unwrap_err().cause().to_string(), "outer");
                    assert!(!went_on.get(), "the inner runs pass the unwind on");
                }
            }
            waits_as_before();
        }
    });
}

#[test]
fn an_inner_end_leaves_the_outer_run_going() {
    everywhere(|| {
        let (outer, cancel) = cancellable();
        let result = outer.run(|| {
            for _ in 0..20 {
                let (inner, cancel) = outer.with_cancel_cause();
                cancel.cancel("inner");
                assert_eq!(inner.run(thread::park).unwrap_err().cause().to_string(), "inner");
                waits_as_before();
            }
            // The inner run is over. Its end must not hide that of the outer one.
            let (inner, cancel_inner) = outer.with_cancel_cause();
            let caught = inner.run(|| {
                cancel_inner.cancel("inner");
                cancel.cancel("outer");
                catch_unwind(thread::park).unwrap_err().is::<Ended>()
            });
            assert!(caught.unwrap());
            thread::park();
        });
        assert_eq!(result.unwrap_err().cause().to_string(), "outer");
        waits_as_before();
    });
}

#[test]
fn time_outs_and_runs_nest() {
    everywhere(|| {
        let (context, _c) = Context::background().with_timeout(2 * MILLI);
        let inner = timeout(HOUR, || context.run(|| runtime::sleep(HOUR)));
        assert_eq!(inner.unwrap().unwrap_err().error(), ContextError::DeadlineExceeded);
        let (context, cancel) = cancellable();
        assert!(matches!(context.run(|| timeout(2 * MILLI, || runtime::sleep(HOUR))), Ok(Err(Elapsed))));
        assert_eq!(timeout(2 * MILLI, || context.run(|| runtime::sleep(HOUR)).is_ok()), Err(Elapsed));
        cancel.cancel("now");
        let passed = context.run(|| _ = timeout(HOUR, || runtime::sleep(HOUR)));
        assert_eq!(passed.unwrap_err().error(), ContextError::Canceled);
        waits_as_before();
    });
}

#[test]
fn a_cancelled_green_thread_unwinds_through_a_run() {
    on_each(|| {
        let (context, cancel) = cancellable();
        let (begun, its) = (Arc::new(AtomicBool::new(false)), context.clone());
        let begins = begun.clone();
        let thread = spawn(move || {
            let result = its.run(|| {
                begins.store(true, SeqCst);
                thread::park();
            });
            panic!("the run has returned {result:?}");
        });
        wait_until("the thread runs", || begun.load(SeqCst));
        thread.cancel();
        assert!(thread.join().unwrap_err().is::<Cancelled>());
        // Both: the cancellation ends the whole thread.
        cancel.cancel("now");
        let thread = spawn(move || {
            while !thread::cancelled() {
                thread::yield_now();
            }
            let _ = context.run(thread::park);
        });
        thread.cancel();
        assert!(thread.join().unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn a_scope_inside_is_cancelled_and_joined() {
    everywhere(|| {
        let (drops, begun, ended) = (Drops::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        for waits_in_closure in [false, true] {
            is_ended(|| {
                scope(|s| {
                    for _ in 0..10 {
                        let token = drops.token();
                        s.spawn(|| {
                            let _token = token;
                            begun.fetch_add(1, SeqCst);
                            let _last = OnDrop(|| _ = ended.fetch_add(1, SeqCst));
                            runtime::sleep(HOUR);
                        });
                    }
                    if waits_in_closure {
                        thread::park();
                    }
                });
            });
            assert_eq!(drops.alive(), 0);
        }
        assert_eq!(ended.load(SeqCst), begun.load(SeqCst));
        is_ended(|| {
            runtime::try_scope(|s| {
                s.spawn(|| {
                    runtime::sleep(HOUR);
                    Ok::<_, ()>(())
                });
                Ok(())
            })
        });
        waits_as_before();
    });
}

#[test]
fn green_threads_that_are_only_spawned_go_on() {
    everywhere(|| {
        let (context, cancel) = cancellable();
        let (s, r) = bounded::<u8>(0);
        let spawned = context.run(|| spawn(move || r.recv())).unwrap();
        cancel.cancel("now");
        s.send(7).unwrap();
        assert_eq!(spawned.join().unwrap(), Ok(7));
    });
}

#[test]
fn code_that_catches_the_end_is_ended_again_until_it_returns() {
    everywhere(|| {
        let (context, cancel) = cancellable();
        cancel.cancel("now");
        let ends = Cell::new(0);
        let result = context.run(|| {
            for _ in 0..5 {
                let payload = catch_unwind(|| runtime::sleep(HOUR)).unwrap_err();
                let ended: &Ended = payload.downcast_ref().expect("the payload is public");
                assert_eq!(ended.error(), ContextError::Canceled);
                ends.set(ends.get() + 1);
            }
            5
        });
        assert_eq!((result.unwrap(), ends.get()), (5, 5));
        waits_as_before();
        // A payload that is passed on later is that of another run.
        let mut kept = None;
        let _ = context.run(|| kept = catch_unwind(thread::park).err());
        let passed = catch_unwind(std::panic::AssertUnwindSafe(|| {
            context.run(|| resume_unwind(kept.take().unwrap()))
        }));
        assert!(passed.unwrap_err().is::<Ended>());
        waits_as_before();
    });
}

#[test]
fn a_panic_passes_out() {
    everywhere(|| {
        let (context, cancel) = cancellable();
        let panics = || catch_unwind(|| context.run(|| resume_unwind(Box::new(7u32)))).unwrap_err();
        assert_eq!(panics().downcast_ref::<u32>(), Some(&7));
        cancel.cancel("now");
        assert_eq!(panics().downcast_ref::<u32>(), Some(&7));
        waits_as_before();
    });
}

#[test]
fn destructors_of_an_unwinding_thread_are_not_ended() {
    everywhere(|| {
        let (context, cancel) = cancellable();
        cancel.cancel("now");
        let slept = Cell::new(0);
        let sleeps = || {
            let start = Instant::now();
            runtime::sleep(2 * MILLI);
            assert!(start.elapsed() >= 2 * MILLI);
            slept.set(slept.get() + 1);
        };
        let result = context.run(|| {
            let _again = OnDrop(|| context.run(sleeps).unwrap());
            let _last = OnDrop(sleeps);
            thread::park();
        });
        assert!(result.is_err());
        assert_eq!(slept.get(), 2);
    });
}

/// The end of the context comes while the code ends. It ends a wait of the code, or nothing.
#[test]
fn an_end_that_races_with_the_end_of_the_code_hits_no_later_wait() {
    let race = |seed| {
        let mut random = Random::new(seed);
        let mut ended = 0;
        for _ in 0..150 {
            let (outer, cancel_outer) = cancellable();
            let (context, cancel) = outer.with_cancel_cause();
            let (begin, begun) = bounded(1);
            let spins = random.below(60);
            let canceller = spawn(move || {
                begun.recv().unwrap();
                spin(Duration::from_micros(spins));
                cancel.cancel("race");
            });
            let time = Duration::from_micros(random.below(60));
            let result = outer.run(|| {
                let result = context.run(|| {
                    begin.send(()).unwrap();
                    match random.below(4) {
                        0 => _ = spin(time),
                        1 => runtime::sleep(time),
                        2 => thread::park_timeout(time),
                        _ => drop(spawn(move || spin(time)).join()),
                    }
                });
                // Neither these waits, which are in the outer run, nor those after it may end.
                waits_as_before();
                result
            });
            ended += usize::from(result.expect("the outer context is not over").is_err());
            canceller.join().unwrap();
            waits_as_before();
            drop(cancel_outer);
        }
        ended
    };
    let all = AtomicUsize::new(0);
    everywhere(|| {
        scope(|s| {
            for seed in 0..4 {
                let all = &all;
                s.spawn(move || _ = all.fetch_add(race(seed), SeqCst));
            }
        });
        all.fetch_add(race(9), SeqCst);
    });
    assert!(all.load(SeqCst) > 0, "no end has met a wait");
}

/// One context is the limit of many threads.
#[test]
fn one_context_ends_many_runs() {
    everywhere(|| {
        let (context, cancel) = cancellable();
        let (begun, started) = unbounded();
        let green: Vec<_> = (0..300)
            .map(|i| {
                let (context, begun) = (context.clone(), begun.clone());
                spawn(move || {
                    let result = context.run(|| {
                        begun.send(()).unwrap();
                        if i % 2 == 0 { thread::park() } else { runtime::sleep(HOUR) }
                    });
                    waits_as_before();
                    result.unwrap_err().cause().to_string()
                })
            })
            .collect();
        let plain: Vec<_> = (0..4)
            .map(|_| {
                let (context, begun) = (context.clone(), begun.clone());
                std::thread::spawn(move || {
                    let result = context.run(|| {
                        begun.send(()).unwrap();
                        loop {
                            thread::park()
                        }
                    });
                    waits_as_before();
                    result.unwrap_err().cause().to_string()
                })
            })
            .collect();
        (0..304).for_each(|_| started.recv().unwrap());
        cancel.cancel("all");
        assert!(green.into_iter().all(|thread| thread.join().unwrap() == "all"));
        assert!(plain.into_iter().all(|thread| thread.join().unwrap() == "all"));
    });
}

#[test]
fn runs_inside_polls_and_of_futures() {
    on_each(|| {
        let (context, cancel) = cancellable();
        let (begun, started) = unbounded();
        let threads: Vec<_> = (0..20)
            .map(|_| {
                let (context, begun) = (context.clone(), begun.clone());
                spawn(async move {
                    sleep_async(MILLI).await;
                    let parked = context.run(|| {
                        begun.send(()).unwrap();
                        thread::park();
                    });
                    sleep_async(MILLI).await;
                    waits_as_before();
                    let awaited = context.run_async(pending::<()>()).await;
                    (parked.is_err(), awaited.unwrap_err().cause().to_string())
                })
            })
            .collect();
        (0..20).for_each(|_| started.recv().unwrap());
        cancel.cancel("all");
        for thread in threads {
            assert_eq!(thread.join().unwrap(), (true, "all".to_string()));
        }
    });
}

#[test]
fn a_future_that_is_in_time_returns_its_value() {
    everywhere(|| {
        let (context, cancel) = cancellable();
        assert_eq!(runtime::block_on(context.run_async(async { 5 })).unwrap(), 5);
        assert_eq!(
            runtime::block_on(Context::background().run_async(sleep_async(MILLI))).map_err(|_| ()),
            Ok(())
        );
        let drops = Drops::default();
        let token = drops.token();
        let waits = context.run_async(async move {
            let _token = token;
            pending::<()>().await;
        });
        let awaiting = std::thread::spawn(|| drive_on_plain_thread(waits));
        cancel.cancel("now");
        assert_eq!(awaiting.join().unwrap().unwrap_err().cause().to_string(), "now");
        assert_eq!(drops.alive(), 0);
        assert_eq!(
            runtime::block_on(context.run_async(async { 6 })).unwrap(),
            6,
            "the future is polled first"
        );
    });
}

#[test]
fn an_end_prints_nothing() {
    let body = || {
        everywhere(|| {
            is_ended(|| runtime::sleep(HOUR));
            is_ended(|| scope(|s| drop(s.spawn(|| runtime::sleep(HOUR)))));
        });
    };
    child::run("an_end_prints_nothing", "", body, |output| {
        assert!(output.status.success(), "{}", child::text(output));
        assert_eq!(child::stderr(output), "");
    });
}

/// A context around a mask ends the next wait after the mask. A context with its `run` inside the mask ends
/// waits inside.
#[test]
fn uncancellable_code_is_ended_by_contexts_inside_only() {
    everywhere(|| {
        let sleeps = |time| {
            let start = Instant::now();
            runtime::sleep(time);
            assert!(start.elapsed() >= time);
        };
        for before in [true, false] {
            let (outer, cancel) = cancellable();
            let (middle, cancel_middle) = cancellable();
            if before {
                cancel.cancel("before");
            }
            let mut ended = 0;
            let result = outer.run(|| {
                thread::uncancellable(|| {
                    cancel.cancel("inside");
                    sleeps(MILLI);
                    // Another thread ends a wait of the inner stretch.
                    is_ended(|| runtime::sleep(HOUR));
                    let nested = middle.run(|| {
                        thread::uncancellable(|| {
                            cancel_middle.cancel("inside of the inner mask");
                            sleeps(MILLI);
                            is_ended(thread::park);
                        });
                        ended += 1;
                        runtime::sleep(HOUR);
                    });
                    assert_eq!(nested.unwrap_err().cause().to_string(), "inside of the inner mask");
                    sleeps(MILLI);
                    ended += 1;
                });
                runtime::sleep(HOUR);
            });
            let cause = if before { "before" } else { "inside" };
            assert_eq!(result.unwrap_err().cause().to_string(), cause);
            assert_eq!(ended, 2);
            waits_as_before();
        }
    });
}

/// A destructor that runs after the end of the closure: a context inside ends its waits.
#[test]
fn destructors_after_the_end_are_ended_by_contexts_inside() {
    on_each(|| {
        let waited = Arc::new(AtomicUsize::new(0));
        let counts = waited.clone();
        let ends = OnDrop(move || {
            is_ended(|| runtime::sleep(HOUR));
            counts.fetch_add(1, SeqCst);
        });
        let thread = spawn(move || {
            thread::park();
            ends
        });
        let handle = thread.thread().clone();
        drop(thread);
        handle.unpark();
        wait_until("the result is dropped", || waited.load(SeqCst) == 1);
    });
}

/// The context of an outer stretch ends at any moment around a mask.
#[test]
fn an_end_that_races_with_a_mask_ends_the_next_wait_after_it() {
    on_each(|| {
        let mut random = Random::new(9);
        for _ in 0..200 {
            let (context, cancel) = cancellable();
            let (begin, begun) = bounded(1);
            let spins = random.below(60);
            let canceller = spawn(move || {
                begun.recv().unwrap();
                spin(Duration::from_micros(spins));
                cancel.cancel("race");
            });
            let ended = context.run(|| {
                begin.send(()).unwrap();
                for _ in 0..random.below(4) {
                    thread::uncancellable(|| runtime::sleep(Duration::from_micros(10)));
                }
                runtime::sleep(HOUR);
            });
            assert!(ended.is_err());
            canceller.join().unwrap();
            waits_as_before();
        }
    });
}
