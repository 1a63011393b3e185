//! Cancellation: it ends any wait of a green thread, runs the destructors, and prints nothing to stderr.

use std::future::pending;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{Cancelled, JoinSet, cancelled, park, park_timeout, uncancellable};
use runtime::time::{sleep_async, timeout};
use runtime::{JoinHandle, spawn};
use tests::futures::{both, drive_on_plain_thread};
use tests::{Drops, OnDrop, Random, child, on, on_each, until_it_waits, wait_until, with};

const HOUR: Duration = Duration::from_secs(3600);

fn was_cancelled<T: std::fmt::Debug>(thread: JoinHandle<T>) {
    assert!(thread.join().unwrap_err().is::<Cancelled>());
}

/// Cancels the threads that `start` spawns: at once, soon, and after they have certainly parked.
fn is_cancelled_at_any_moment<T: std::fmt::Debug>(start: impl Fn(tests::Token) -> JoinHandle<T>) {
    let drops = Drops::default();
    let mut random = Random::new(5);
    for round in 0..60 {
        let thread = start(drops.token());
        match round % 4 {
            0 => {}
            1 => runtime::yield_now(),
            2 => runtime::sleep(Duration::from_micros(random.below(200))),
            _ => runtime::sleep(Duration::from_millis(1)),
        }
        thread.cancel();
        was_cancelled(thread);
    }
    assert_eq!((drops.count(), drops.alive()), (60, 0), "destructors have run");
}

#[test]
fn cancels_a_closure_that_parks_sleeps_or_drives_a_future() {
    let waits: [fn(); 4] = [
        || {
            loop {
                park();
            }
        },
        || runtime::sleep(HOUR),
        || {
            loop {
                park_timeout(Duration::from_micros(20));
            }
        },
        || _ = runtime::block_on(both(sleep_async(HOUR), pending::<()>())),
    ];
    on_each(|| {
        for wait in waits {
            is_cancelled_at_any_moment(|token| {
                spawn(move || {
                    let _token = token;
                    wait();
                })
            });
        }
    });
}

#[test]
fn a_cancelled_joiner_leaves_the_joined_thread_alone() {
    on_each(|| {
        let (ended, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        is_cancelled_at_any_moment(|token| {
            let (ended, stop) = (ended.clone(), stop.clone());
            let other = spawn(move || {
                while !stop.load(SeqCst) {
                    runtime::sleep(Duration::from_micros(500));
                }
                ended.fetch_add(1, SeqCst);
            });
            spawn(move || {
                let _token = token;
                other.join()
            })
        });
        stop.store(true, SeqCst);
        wait_until("the joined threads have ended", || ended.load(SeqCst) >= 45);
    });
}

#[test]
fn cancels_a_future() {
    on_each(|| {
        is_cancelled_at_any_moment(|token| {
            spawn(async move {
                let _token = token;
                pending::<()>().await;
            })
        });
        is_cancelled_at_any_moment(|token| {
            spawn(async move {
                let _token = token;
                both(sleep_async(HOUR), sleep_async(HOUR)).await
            })
        });
        is_cancelled_at_any_moment(|token| {
            spawn(async move {
                let _token = token;
                loop {
                    sleep_async(Duration::from_micros(10)).await;
                }
            })
        });
        // A future that blocks in its poll.
        is_cancelled_at_any_moment(|token| {
            spawn(async move {
                let _token = token;
                runtime::sleep(HOUR);
            })
        });
    });
}

#[test]
fn a_thread_cancelled_before_its_start_never_runs() {
    with(1, |runtime| {
        let (ran, drops) = (Arc::new(AtomicUsize::new(0)), Drops::default());
        let threads: Vec<_> = runtime.block_on(|| {
            let closures = (0..10).map(|_| {
                let (ran, token) = (ran.clone(), drops.token());
                spawn(move || drop((ran.fetch_add(1, SeqCst), token)))
            });
            let closures: Vec<_> = closures.collect();
            let (counts, token) = (ran.clone(), drops.token());
            let future = spawn(async move { drop((counts.fetch_add(1, SeqCst), token)) });
            // On the only P no spawned thread has run, unless sysmon took the P.
            closures.iter().chain([&future]).for_each(|thread| thread.cancel());
            closures.into_iter().chain([future]).collect()
        });
        let ended = threads.into_iter().map(|thread| thread.join());
        let cancelled = ended.filter(|result| result.is_err()).count();
        assert_eq!((cancelled + ran.load(SeqCst), drops.alive()), (11, 0));
    });
}

#[test]
fn cancels_accept_connect_read_and_write() {
    on_each(|| {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let addr = listener.local_addr().unwrap();
        is_cancelled_at_any_moment(|token| {
            let listener = listener.clone();
            spawn(move || {
                let _token = token;
                listener.accept().map(drop)
            })
        });
        let client = Arc::new(TcpStream::connect(addr).unwrap());
        let (server, _) = listener.accept().unwrap();
        is_cancelled_at_any_moment(|token| {
            let client = client.clone();
            spawn(move || {
                let _token = token;
                (&*client).read(&mut [0; 8])
            })
        });
        is_cancelled_at_any_moment(|token| {
            let client = client.clone();
            spawn(move || {
                let _token = token;
                loop {
                    // Without a reader the buffers fill up.
                    (&*client).write_all(&[1; 65536]).unwrap();
                }
            })
        });
        // The other direction still works.
        (&server).write_all(b"still here").unwrap();
        let mut text = [0; 10];
        (&*client).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"still here");
    });
}

#[test]
fn no_connection_is_lost_to_a_cancelled_accept() {
    on_each(|| {
        let listener = Arc::new(TcpListener::bind("127.0.0.1:0").unwrap());
        let addr = listener.local_addr().unwrap();
        for _ in 0..30 {
            let [first, second] = [0, 1].map(|_| {
                let listener = listener.clone();
                spawn(move || listener.accept().unwrap().1)
            });
            runtime::yield_now();
            first.cancel();
            let client = TcpStream::connect(addr).unwrap();
            let peer = match first.join() {
                Ok(peer) => {
                    second.cancel();
                    assert!(second.join().is_err());
                    peer
                }
                Err(_) => second.join().unwrap(),
            };
            assert_eq!(peer, client.local_addr().unwrap());
        }
    });
}

#[test]
fn a_caught_cancellation_repeats_at_the_next_wait() {
    on_each(|| {
        let (swallowed, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counts, begins) = (swallowed.clone(), begun.clone());
        let thread = spawn(move || {
            begins.store(true, SeqCst);
            let waits: [fn(); 8] = [
                park,
                || runtime::sleep(HOUR),
                || park_timeout(HOUR),
                || drop(spawn(park).join()),
                || runtime::block_on(pending()),
                || runtime::block_on(sleep_async(HOUR)),
                || {
                    let (_sender, receiver) = runtime::channel::bounded::<()>(1);
                    let _ = receiver.recv();
                },
                || runtime::scope(|s| drop(s.spawn(park))),
            ];
            for wait in [waits; 3].as_flattened() {
                let caught = catch_unwind(wait).unwrap_err();
                assert!(caught.is::<Cancelled>() && cancelled());
                counts.fetch_add(1, SeqCst);
                // Neither call is a wait that a cancellation ends.
                runtime::yield_now();
                runtime::blocking(|| std::thread::sleep(Duration::from_micros(50)));
            }
            "by itself"
        });
        wait_until("the thread has begun", || begun.load(SeqCst));
        thread.cancel();
        assert_eq!(thread.join().unwrap(), "by itself");
        assert_eq!(swallowed.load(SeqCst), 24);
    });
}

#[test]
fn a_cancelled_thread_that_does_not_wait_returns() {
    on_each(|| {
        let begun = Arc::new(AtomicBool::new(false));
        let begins = begun.clone();
        let thread = spawn(move || {
            begins.store(true, SeqCst);
            while !cancelled() {
                runtime::yield_now();
            }
            7
        });
        wait_until("the thread has begun", || begun.load(SeqCst));
        assert!(!cancelled());
        thread.cancel();
        assert_eq!(thread.join().unwrap(), 7);
        let over = spawn(|| 3);
        wait_until("the thread has ended", || over.is_finished());
        over.cancel();
        assert_eq!(over.join().unwrap(), 3);
    });
}

#[test]
fn destructors_of_a_cancelled_thread_may_wait() {
    on_each(|| {
        let waited = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..20)
            .map(|i| {
                let waited = waited.clone();
                spawn(move || {
                    let _waits = OnDrop(|| {
                        runtime::sleep(Duration::from_micros(200));
                        spawn(|| runtime::sleep(Duration::from_micros(100))).join().unwrap();
                        runtime::block_on(sleep_async(Duration::from_micros(i)));
                        waited.fetch_add(1, SeqCst);
                    });
                    park();
                })
            })
            .collect();
        runtime::sleep(Duration::from_millis(1));
        threads.iter().for_each(|thread| thread.cancel());
        let results: Vec<_> = threads.into_iter().map(JoinHandle::join).collect();
        // A thread that was cancelled before its start has made no `_waits`.
        assert!(results.iter().all(|result| result.as_ref().unwrap_err().is::<Cancelled>()));
        assert!(waited.load(SeqCst) <= 20);
    });
}

#[test]
fn a_reused_g_is_not_cancelled() {
    on_each(|| {
        for _ in 0..20 {
            let old: Vec<_> = (0..50).map(|_| spawn(park)).collect();
            old.iter().for_each(|thread| thread.cancel());
            old.into_iter().for_each(was_cancelled);
            let new: Vec<_> = (0..50).map(|_| spawn(|| runtime::sleep(Duration::from_micros(10)))).collect();
            new.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

#[test]
fn eight_plain_threads_cancel_while_others_wake() {
    for procs in tests::PROCS {
        with(procs, |runtime| {
            for _ in 0..50 {
                let drops = Drops::default();
                let token = drops.token();
                let thread = runtime.spawn(move || {
                    let _token = token;
                    loop {
                        park_timeout(Duration::from_micros(5));
                    }
                });
                std::thread::scope(|scope| {
                    for i in 0..8 {
                        let thread = &thread;
                        scope.spawn(
                            move || if i % 2 == 0 { thread.cancel() } else { thread.thread().unpark() },
                        );
                    }
                });
                was_cancelled(thread);
                assert_eq!(drops.alive(), 0);
            }
        });
    }
}

#[test]
fn an_awaited_handle_returns_the_cancellation() {
    on(2, || {
        let thread = spawn(park);
        thread.cancel();
        let result = drive_on_plain_thread_of_its_own(thread);
        assert!(result.unwrap_err().is::<Cancelled>());
    });
}

fn drive_on_plain_thread_of_its_own(thread: JoinHandle<()>) -> runtime::thread::Result<()> {
    let plain = std::thread::spawn(|| drive_on_plain_thread(thread));
    runtime::blocking(|| plain.join().unwrap())
}

#[test]
fn a_cancelled_main_unwinds_the_caller_of_block_on() {
    with(2, |runtime| {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            runtime.block_on(|| {
                // Only the end of the runtime cancels a main, which has no handle. `resume_unwind` looks the
                // same to the caller.
                std::panic::resume_unwind(Box::new(Cancelled))
            })
        }));
        assert!(caught.unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn a_cancellation_prints_nothing() {
    let body = || {
        on_each(|| {
            let closures: Vec<_> = (0..50)
                .map(|i| {
                    spawn(move || {
                        if i % 2 == 0 {
                            park();
                        }
                        runtime::sleep(HOUR);
                    })
                })
                .collect();
            let future = spawn(async { sleep_async(HOUR).await });
            runtime::sleep(Duration::from_millis(1));
            closures.into_iter().chain([future]).for_each(|thread| {
                thread.cancel();
                was_cancelled(thread);
            });
            drop(spawn(park));
        });
    };
    child::run("a_cancellation_prints_nothing", "", body, |output| {
        assert!(output.status.success(), "{}", child::text(output));
        assert_eq!(child::stderr(output), "");
    });
}

/// Code that passes a cancellation on is not counted: destructors, scopes, time-outs, contexts, sets,
/// futures.
#[test]
fn swallowed_cancellations_are_counted() {
    with(2, |runtime| {
        let swallowed = || runtime.handle().metrics().swallowed_cancellations;
        let cancelled = |thread: JoinHandle<()>| {
            until_it_waits(&thread);
            thread.cancel();
            thread.join()
        };
        runtime.block_on(|| {
            let passes = || {
                let _waits = OnDrop(|| runtime::sleep(Duration::from_micros(50)));
                runtime::scope(|s| {
                    s.spawn(|| runtime::sleep(HOUR));
                    let _ = runtime::try_scope(|s| {
                        s.spawn(|| -> Result<(), ()> {
                            let context = runtime::context::Context::background();
                            let _ = context.run(|| timeout(HOUR, || runtime::block_on(sleep_async(HOUR))));
                            Ok(())
                        });
                        let mut set = JoinSet::new();
                        set.spawn(park);
                        set.join_next();
                        Ok(())
                    });
                });
            };
            assert!(cancelled(spawn(passes)).is_err());
            assert!(cancelled(spawn(async { sleep_async(HOUR).await })).is_err());
            assert!(cancelled(spawn(async { runtime::sleep(HOUR) })).is_err());
            let never_began = spawn(park);
            never_began.cancel();
            assert!(never_began.join().is_err());
            assert_eq!(swallowed(), 0);

            let asks_again = cancelled(spawn(|| {
                assert!(catch_unwind(park).is_err());
                park();
            }));
            assert!(asks_again.is_err());
            assert_eq!(swallowed(), 1);
            let returns = cancelled(spawn(|| drop(catch_unwind(park).unwrap_err())));
            assert!(returns.is_ok());
            assert_eq!(swallowed(), 2);
            let both = cancelled(spawn(|| {
                assert!(catch_unwind(park).is_err());
                assert!(catch_unwind(park).is_err());
            }));
            assert!(both.is_ok());
            assert_eq!(swallowed(), 4);
            let page = runtime::metrics::prometheus(&runtime.handle().metrics());
            assert!(page.contains("\nruntime_cancellations_swallowed_total 4\n"), "{page}");
            // The green thread's slot is used again.
            (0..100).for_each(|_| spawn(|| ()).join().unwrap());
            assert_eq!(swallowed(), 4);
        });
    });
}

/// Spawns a thread that calls `f` uncancellable, cancels it in there, and checks that it ends by the next
/// wait.
fn goes_on(f: impl FnOnce() + Send + 'static) {
    let (begin, begun) = runtime::channel::bounded(1);
    let ended = Arc::new(AtomicBool::new(false));
    let ends = ended.clone();
    let thread = spawn(move || {
        let seven = uncancellable(|| {
            begin.send(()).unwrap();
            while !cancelled() {
                runtime::yield_now();
            }
            f();
            7
        });
        assert_eq!(seven, 7);
        ends.store(true, SeqCst);
        park();
        unreachable!("the wait after the mask ends");
    });
    begun.recv().unwrap();
    thread.cancel();
    was_cancelled(thread);
    assert!(ended.load(SeqCst), "the masked code has gone on to its end");
}

#[test]
fn uncancellable_waits_of_every_kind_go_on() {
    on_each(|| {
        const SHORT: Duration = Duration::from_micros(300);
        goes_on(|| ());
        goes_on(|| runtime::sleep(SHORT));
        goes_on(|| park_timeout(SHORT));
        goes_on(|| spawn(|| runtime::sleep(SHORT)).join().unwrap());
        goes_on(|| runtime::block_on(sleep_async(SHORT)));
        goes_on(|| runtime::block_on(async { sleep_async(SHORT).await }));
        goes_on(|| runtime::scope(|s| drop(s.spawn(|| runtime::sleep(SHORT)))));
        goes_on(|| assert_eq!(runtime::try_scope(|s| Ok::<_, ()>(s.spawn(|| Ok(3)).join())), Ok(3)));
        goes_on(|| assert!(runtime::channel::after(SHORT).recv().is_ok()));
        goes_on(|| {
            let (send, receive) = runtime::channel::bounded(0);
            let sends = spawn(move || {
                runtime::sleep(SHORT);
                send.send(5)
            });
            runtime::select! {
                recv(receive) -> five => assert_eq!(five, Ok(5)),
            }
            sends.join().unwrap().unwrap();
        });
        goes_on(|| {
            let mutex = runtime::sync::Mutex::new(());
            runtime::scope(|s| {
                let guard = mutex.lock();
                s.spawn(|| drop(mutex.lock()));
                runtime::sleep(SHORT);
                drop(guard);
                drop(mutex.lock());
            });
        });
        goes_on(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let connects = spawn(move || {
                runtime::sleep(SHORT);
                TcpStream::connect(address).unwrap().write_all(b"hi").unwrap();
            });
            let mut bytes = [0; 2];
            listener.accept().unwrap().0.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hi");
            connects.join().unwrap();
        });
        // Inside of a poll.
        goes_on(|| runtime::block_on(async { runtime::sleep(SHORT) }));
    });
}

/// Masks nest, and end by a panic, too.
#[test]
fn uncancellable_stretches_nest() {
    tests::quiet_panics_on_purpose();
    on_each(|| {
        goes_on(|| {
            uncancellable(|| runtime::sleep(Duration::from_micros(50)));
            runtime::sleep(Duration::from_micros(50));
            let panicked = catch_unwind(|| uncancellable(|| panic!("{}", tests::ON_PURPOSE)));
            assert!(panicked.is_err());
            runtime::sleep(Duration::from_micros(50));
        });
        let thread = spawn(|| {
            while !cancelled() {
                runtime::yield_now();
            }
            let panicked = catch_unwind(|| uncancellable(|| panic!("{}", tests::ON_PURPOSE)));
            assert!(panicked.is_err());
            runtime::sleep(HOUR);
        });
        thread.cancel();
        was_cancelled(thread);
    });
}

/// Cancellations at any moment: the masked part is whole or not there at all.
#[test]
fn uncancellable_code_is_whole() {
    on_each(|| {
        let (begun, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        is_cancelled_at_any_moment(|token| {
            let (begins, ends) = (begun.clone(), ended.clone());
            spawn(move || {
                let _token = token;
                loop {
                    uncancellable(|| {
                        begins.fetch_add(1, SeqCst);
                        runtime::sleep(Duration::from_micros(20));
                        spawn(|| ()).join().unwrap();
                        ends.fetch_add(1, SeqCst);
                    });
                    runtime::sleep(Duration::from_micros(5));
                }
            })
        });
        assert_eq!(begun.load(SeqCst), ended.load(SeqCst));
    });
}

/// The end of a runtime waits for masked code. A future is dropped after the poll that has masked code.
#[test]
fn the_end_of_a_runtime_waits_for_uncancellable_code() {
    for procs in tests::PROCS {
        let (ended, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        with(procs, |runtime| {
            let slow = |begins: Arc<AtomicUsize>, ends: Arc<AtomicUsize>| {
                move || {
                    uncancellable(|| {
                        begins.fetch_add(1, SeqCst);
                        runtime::sleep(Duration::from_millis(3));
                        ends.fetch_add(1, SeqCst);
                    });
                }
            };
            let (closure, future) = (slow(begun.clone(), ended.clone()), slow(begun.clone(), ended.clone()));
            drop(runtime.spawn(move || {
                closure();
                park();
            }));
            drop(runtime.spawn(async move {
                future();
                pending::<()>().await;
            }));
            wait_until("both have begun", || begun.load(SeqCst) == 2);
        });
        assert_eq!(ended.load(SeqCst), 2);
    }
}

/// C calls a function that waits. A cancellation and a time-out come during the waits.
#[cfg(unix)]
#[test]
fn a_callback_of_qsort_is_uncancellable() {
    extern "C" fn compare(a: *const libc::c_void, b: *const libc::c_void) -> libc::c_int {
        uncancellable(|| {
            runtime::sleep(Duration::from_micros(100));
            // SAFETY: `qsort` passes pointers to two items.
            let (a, b) = unsafe { (*a.cast::<u32>(), *b.cast::<u32>()) };
            a.cmp(&b) as libc::c_int
        })
    }
    fn sort(items: &mut [u32]) {
        // SAFETY: the slice has so many items of that size, and `compare` compares two of them.
        unsafe { libc::qsort(items.as_mut_ptr().cast(), items.len(), size_of::<u32>(), Some(compare)) };
    }
    on_each(|| {
        let mut items: Vec<_> = (0..20).rev().collect();
        let sorted = timeout(Duration::from_micros(500), || {
            sort(&mut items);
            runtime::sleep(HOUR);
        });
        assert!(sorted.is_err() && items.is_sorted());
        goes_on(|| {
            let mut items: Vec<_> = (0..20).rev().collect();
            sort(&mut items);
            assert!(items.is_sorted());
        });
    });
}
