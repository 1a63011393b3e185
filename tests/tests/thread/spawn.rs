//! Spawning and joining: closures, futures and results of all sizes, each dropped once, from green and plain
//! threads.

use std::panic::{RefUnwindSafe, UnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use runtime::thread::{Builder, Thread, ThreadId};
use runtime::{Handle, JoinHandle, Runtime, spawn};
use tests::futures::{Flag, drive_on_plain_thread, poll_once};
use tests::{Drops, on, on_each, runtime, wait_until, with};

#[repr(align(64))]
#[derive(Clone, Copy, PartialEq, Debug)]
struct Line([u8; 64]);

#[repr(align(4096))]
struct Page([u8; 4096]);

fn pattern<const N: usize>() -> [u8; N] {
    std::array::from_fn(|i| (i * 7 + N) as u8)
}

/// Takes a slice, so that large arrays are not copied to the stack.
fn is_pattern(bytes: &[u8]) -> bool {
    let n = bytes.len();
    bytes.iter().enumerate().all(|(i, &byte)| byte == (i * 7 + n) as u8)
}

/// Runs `main` on a green thread with a stack that has room for unoptimised copies of large captures.
fn on_a_large_stack(main: impl FnOnce() + Send + 'static) {
    let large = Builder::new().stack_size(8 << 20);
    on(2, move || large.spawn(main).unwrap().join().unwrap());
}

fn captured<const N: usize>() {
    let bytes = pattern::<N>();
    assert!(spawn(move || is_pattern(&bytes)).join().unwrap(), "a closure of {N} bytes");
    let bytes = pattern::<N>();
    let future = async move {
        runtime::time::sleep_async(Duration::from_micros(1)).await;
        is_pattern(&bytes)
    };
    assert!(spawn(future).join().unwrap(), "a future of {N} bytes");
}

fn captured_of_all_sizes() {
    captured::<0>();
    captured::<1>();
    captured::<8>();
    captured::<79>();
    captured::<80>();
    captured::<81>();
    captured::<200>();
    captured::<1024>();
    captured::<4096>();
    captured::<16384>();
    captured::<65536>();
}

#[test]
fn captures_of_all_sizes_arrive() {
    captured_of_all_sizes();
    on_a_large_stack(captured_of_all_sizes);
}

fn returned<const N: usize>() {
    assert!(spawn(pattern::<N>).join().unwrap() == pattern::<N>(), "a result of {N} bytes");
    assert!(
        spawn(async { pattern::<N>() }).join().unwrap() == pattern::<N>(),
        "a future's result of {N} bytes"
    );
    let awaited = async { spawn(pattern::<N>).await.unwrap() };
    assert!(runtime::block_on(awaited) == pattern::<N>(), "an awaited result of {N} bytes");
}

#[test]
fn results_of_all_sizes_arrive() {
    on_a_large_stack(|| {
        let () = spawn(|| ()).join().unwrap();
        assert_eq!(spawn(|| u64::MAX).join().unwrap(), u64::MAX);
        returned::<0>();
        returned::<1>();
        returned::<63>();
        returned::<64>();
        returned::<72>();
        returned::<73>();
        returned::<80>();
        returned::<200>();
        returned::<4096>();
    });
}

#[test]
fn over_aligned_captures_are_aligned() {
    on_each(|| {
        let line = Line([7; 64]);
        let (seen, back) = spawn(move || (std::ptr::from_ref(&line).addr() % 64, line)).join().unwrap();
        assert_eq!((seen, back), (0, Line([7; 64])));
        let wide = spawn(|| u128::MAX - 5).join().unwrap();
        assert_eq!(wide, u128::MAX - 5);
    });
    on_a_large_stack(|| {
        let page = Page([3; 4096]);
        let future = async move {
            runtime::time::sleep_async(Duration::from_micros(1)).await;
            (std::ptr::from_ref(&page).addr() % 4096, page.0[4095])
        };
        assert_eq!(spawn(future).join().unwrap(), (0, 3));
    });
}

#[test]
fn captures_and_results_are_dropped_once_each() {
    on_each(|| {
        let (captures, results) = (Drops::default(), Drops::default());
        let threads: Vec<_> = (0..1000)
            .map(|_| {
                let (capture, results) = (captures.token(), results.clone());
                spawn(move || {
                    let _capture = capture;
                    results.token()
                })
            })
            .collect();
        for thread in threads {
            let token = thread.join().unwrap();
            assert!(results.alive() >= 1);
            drop(token);
        }
        assert_eq!((captures.count(), captures.alive()), (1000, 0));
        assert_eq!((results.count(), results.alive()), (1000, 0));
    });
}

#[test]
fn unwanted_results_and_payloads_are_dropped_once_each() {
    on_each(|| {
        let results = Drops::default();
        for i in 0..1000 {
            let (small, large, payload) = (results.clone(), results.clone(), results.token());
            let small = spawn(move || small.token());
            let large = spawn(async move { (large.token(), [i; 100]) });
            let _panicked = spawn(move || resume_unwind(Box::new(payload)));
            match i % 4 {
                0 => {}
                1 => runtime::yield_now(),
                2 => wait_until("the thread has ended", || small.is_finished()),
                _ => wait_until("the thread has ended", || large.is_finished()),
            }
        }
        wait_until("all results are dropped", || results.count() == 3000);
        assert_eq!(results.alive(), 0);
    });
}

#[test]
fn a_hundred_thousand_closures_and_futures_are_spawned_and_joined() {
    fn all(start: impl Fn(u64) -> JoinHandle<u64>) {
        let threads: Vec<_> = (0..100_000).map(start).collect();
        let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 99_999 * 100_000 / 2);
    }
    on_each(|| all(|i| spawn(move || i)));
    on_each(|| all(|i| spawn(async move { i })));
}

#[test]
fn green_threads_spawn_green_threads() {
    fn leaves(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let below: Vec<_> = (0..10).map(|_| spawn(move || leaves(depth - 1))).collect();
        below.into_iter().map(|thread| thread.join().unwrap()).sum()
    }
    on_each(|| assert_eq!(leaves(4), 10_000));
}

#[test]
fn is_finished_becomes_true_at_the_end() {
    on_each(|| {
        let thread = spawn(runtime::thread::park);
        runtime::sleep(Duration::from_millis(2));
        assert!(!thread.is_finished());
        thread.thread().unpark();
        wait_until("the thread has ended", || thread.is_finished());
        assert!(thread.is_finished());
        thread.join().unwrap();
    });
}

#[test]
fn a_handle_can_be_awaited() {
    on_each(|| {
        let inner = spawn(|| {
            runtime::sleep(Duration::from_millis(1));
            3
        });
        let outer = spawn(async { inner.await.unwrap() + 4 });
        assert_eq!(runtime::block_on(outer).unwrap(), 7);
    });
}

#[test]
fn a_handle_may_be_polled_and_then_joined() {
    on_each(|| {
        let flag = Flag::default();
        let waits = flag.clone();
        let mut thread = spawn(async move { waits.wait().await });
        let (early, thread) = runtime::block_on(async move { (poll_once(&mut thread).await, thread) });
        assert!(early.is_none());
        flag.set();
        thread.join().unwrap();
    });
}

#[test]
#[expect(clippy::async_yields_async, reason = "the handle is passed on")]
fn a_handle_may_be_polled_by_different_tasks() {
    with(2, |runtime| {
        let flag = Flag::default();
        let waits = flag.clone();
        let thread = runtime.spawn(async move { waits.wait().await });
        let passed_on = runtime.spawn(async move {
            let mut thread = thread;
            assert!(poll_once(&mut thread).await.is_none());
            thread
        });
        let thread = passed_on.join().unwrap();
        let (sender, started) = mpsc::channel();
        let plain = std::thread::spawn(move || {
            let mut thread = thread;
            drive_on_plain_thread(async move {
                assert!(poll_once(&mut thread).await.is_none());
                sender.send(()).unwrap();
                thread.await
            })
        });
        started.recv().unwrap();
        flag.set();
        plain.join().unwrap().unwrap();
    });
}

#[test]
fn a_handle_that_was_polled_and_dropped_leaves_no_waiter() {
    on_each(|| {
        for _ in 0..200 {
            let results = Drops::default();
            let counted = results.clone();
            let mut thread = spawn(move || {
                runtime::yield_now();
                counted.token()
            });
            spawn(async move { drop(poll_once(&mut thread).await) }).join().unwrap();
            wait_until("the result is dropped", || results.count() == 1);
        }
    });
}

#[test]
fn plain_threads_join() {
    with(2, |runtime| {
        let threads: Vec<_> = (0..100)
            .map(|i| {
                runtime.spawn(move || {
                    runtime::sleep(Duration::from_millis(i % 5));
                    i
                })
            })
            .collect();
        let plain: Vec<_> =
            threads.into_iter().map(|thread| std::thread::spawn(move || thread.join().unwrap())).collect();
        let sum: u64 = plain.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(sum, 4950);
    });
}

#[test]
fn green_threads_of_two_runtimes_spawn_and_join_each_other() {
    for procs in [1, 2] {
        with(procs, |one| {
            let other = runtime(procs);
            let (handle, back) = (other.handle(), one.handle());
            let sum = one.block_on(move || {
                let threads: Vec<_> = (0..500u64)
                    .map(|i| {
                        let back = back.clone();
                        handle.spawn(move || {
                            runtime::sleep(Duration::from_micros(i % 300));
                            // Back in the first runtime.
                            back.spawn(move || i).join().unwrap()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
            });
            assert_eq!(sum, 124_750);
        });
    }
}

#[test]
fn eight_plain_threads_spawn_at_once() {
    fn spawn_many(spawn: impl Fn(u64) -> JoinHandle<u64> + Sync) {
        let sum: u64 = std::thread::scope(|scope| {
            let plain: Vec<_> = (0..8u64)
                .map(|t| {
                    let spawn = &spawn;
                    scope.spawn(move || {
                        let threads: Vec<_> = (0..2000).map(|i| spawn(t * 2000 + i)).collect();
                        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
                    })
                })
                .collect();
            plain.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(sum, 15_999 * 16_000 / 2);
    }
    spawn_many(|i| spawn(move || i));
    with(2, |runtime| spawn_many(|i| runtime.spawn(async move { i })));
}

#[test]
fn block_on_borrows_from_its_caller() {
    with(2, |runtime| {
        let mut words = vec![1, 2, 3];
        runtime.block_on(|| words.push(4));
        let sum = runtime.block_on(async { words.iter().sum::<i32>() });
        assert_eq!((sum, runtime::block_on(|| words.len())), (10, 4));
    });
}

#[test]
fn a_green_thread_spawns_in_its_own_runtime() {
    with(3, |runtime| {
        let procs = runtime.block_on(|| spawn(|| Handle::current().procs()).join().unwrap());
        assert_eq!(procs, 3);
    });
}

#[test]
fn names_and_ids_belong_to_their_thread() {
    on(2, || {
        let me = runtime::thread::current().id();
        let threads: Vec<_> = (0..100)
            .map(|i| {
                let named = Builder::new().name(format!("worker {i}"));
                named.spawn(|| runtime::thread::current().name().map(str::to_string)).unwrap()
            })
            .collect();
        let mut ids: Vec<ThreadId> = threads.iter().map(|thread| thread.thread().id()).collect();
        ids.push(me);
        ids.push(std::thread::spawn(|| runtime::thread::current().id()).join().unwrap());
        let unique: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(unique.len(), 102);
        for (i, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.thread().name(), Some(format!("worker {i}").as_str()));
            assert_eq!(thread.join().unwrap(), Some(format!("worker {i}")));
        }
        assert_eq!(spawn(|| runtime::thread::current().name().map(str::to_string)).join().unwrap(), None);
    });
}

#[test]
fn a_stack_has_the_requested_size() {
    #[inline(never)]
    fn deep(bytes: usize) -> u64 {
        let block = std::hint::black_box([1u8; 1024]);
        if bytes < 2048 { u64::from(block[7]) } else { deep(bytes - 1024) + u64::from(block[9]) }
    }
    on(2, || {
        for _ in 0..20 {
            let thread = Builder::new().stack_size(8 << 20).spawn(|| deep(3 << 20)).unwrap();
            assert!(thread.join().unwrap() > 1000);
        }
    });
}

#[test]
fn detached_green_threads_all_run() {
    on_each(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        for _ in 0..10_000 {
            let ran = ran.clone();
            drop(spawn(move || ran.fetch_add(1, SeqCst)));
        }
        wait_until("all threads have run", || ran.load(SeqCst) == 10_000);
    });
}

#[test]
fn handles_are_send_sync_unpin_and_unwind_safe() {
    fn is<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static>() {}
    is::<JoinHandle<std::cell::Cell<u8>>>();
    is::<Thread>();
    is::<ThreadId>();
    is::<Runtime>();
    is::<Handle>();
    is::<runtime::Builder>();
    is::<runtime::thread::Cancelled>();
    is::<runtime::net::TcpStream>();
    is::<runtime::net::TcpListener>();
    is::<runtime::metrics::Snapshot>();
    fn sends<T: Send + Unpin>() {}
    sends::<runtime::time::Sleep>();
}

/// Spawns closures that capture `N` bytes, futures and scoped threads, which return as many, on a thread with
/// a large stack.
fn moves<const N: usize>(runtime: &runtime::Runtime) {
    let bytes = || {
        let mut bytes = [7_u8; N];
        std::hint::black_box(&mut bytes)[N - 1] = 9;
        bytes
    };
    let is_whole = |bytes: &[u8; N]| (bytes[0], bytes[N / 2], bytes[N - 1]) == (7, 7, 9);
    let captured = bytes();
    assert!(runtime.spawn(move || is_whole(std::hint::black_box(&captured))).join().unwrap());
    assert!(is_whole(&runtime.spawn(bytes).join().unwrap()));
    assert!(is_whole(&runtime.spawn(async move { bytes() }).join().unwrap()));
    let captured = bytes();
    let both = runtime.spawn(move || {
        runtime::yield_now();
        captured
    });
    assert!(is_whole(&both.join().unwrap()));
    assert!(is_whole(&runtime.block_on(bytes)));
}

#[test]
fn closures_and_results_larger_than_the_stack_have_room() {
    tests::child::passes("closures_and_results_larger_than_the_stack_have_room", "", || {
        for stack in [None, Some(32 << 10), Some(64 << 10)] {
            let builder = runtime::Builder::new().procs(2);
            let builder = stack.into_iter().fold(builder, runtime::Builder::stack_size);
            let runtime = builder.build().unwrap();
            let large = std::thread::Builder::new().stack_size(512 << 20);
            let moves = move || {
                moves::<2_000>(&runtime);
                moves::<20_000>(&runtime);
                moves::<70_000>(&runtime);
                moves::<300_000>(&runtime);
                moves::<1_500_000>(&runtime);
            };
            large.spawn(moves).unwrap().join().unwrap();
        }
    });
}

#[test]
#[cfg(all(debug_assertions, target_pointer_width = "64"))]
fn the_stacks_of_debug_builds_are_larger() {
    fn deep(left: usize) -> usize {
        let block = std::hint::black_box([1_u8; 1024]);
        if left == 0 { 0 } else { deep(left - 1) + usize::from(block[left % 1024]) }
    }
    tests::child::passes("the_stacks_of_debug_builds_are_larger", "", || {
        // 300 KiB, and the frames of a build that was not optimized.
        assert_eq!(runtime::block_on(|| spawn(|| deep(300)).join().unwrap()), 300);
    });
}
