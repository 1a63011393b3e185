//! Polls: a poll of a future never changes its OS thread, whatever the poll calls and wherever the future is
//! polled.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use runtime::channel::{bounded, unbounded};
use runtime::sync::{Mutex, Notify, Semaphore};
use runtime::thread::{park_timeout, pin as pin_thread};
use runtime::time::{sleep_async, timeout_async};
use runtime::{JoinHandle, Migration, block_on, scope, sleep, spawn, yield_now};
use tests::crowd::Spinners;
use tests::{OsThread, PROCS, on, on_each, os_thread, spin, with, with_built};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Longer than sysmon leaves a P to a green thread that computes.
const LONG: Duration = Duration::from_millis(12);

std::thread_local! {
    /// The number of scoped contexts that the OS thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// A scoped context of the OS thread, like `tokio::runtime::EnterGuard` and the spans of tracing.
struct EnterGuard {
    depth: usize,
    os_thread: OsThread,
}

impl EnterGuard {
    #[inline(never)]
    fn enter() -> Self {
        DEPTH.set(DEPTH.get() + 1);
        EnterGuard { depth: DEPTH.get(), os_thread: os_thread() }
    }

    #[inline(never)]
    fn is_here(&self) -> bool {
        self.os_thread == os_thread() && self.depth == DEPTH.get()
    }
}

impl Drop for EnterGuard {
    #[inline(never)]
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Spawns a future that is pending until `stop`, and stores its waker for the futures under test.
fn spawn_sleeper(stop: Arc<AtomicBool>, waker: Arc<std::sync::Mutex<Option<Waker>>>) -> JoinHandle<()> {
    spawn(poll_fn(move |cx: &mut Context<'_>| {
        *waker.lock().unwrap() = Some(cx.waker().clone());
        if stop.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }))
}

/// In each poll: enters a context, computes until the P is taken, wakes other threads, and checks its OS
/// thread. Returns the number of polls that moved.
async fn wake_others_late(rounds: usize, wakes: impl Fn()) -> usize {
    let mut moves = 0;
    for _ in 0..rounds {
        let entered = EnterGuard::enter();
        spin(LONG);
        wakes();
        moves += usize::from(!entered.is_here());
        drop(entered);
        sleep_async(MILLI / 10).await;
    }
    moves
}

#[test]
fn a_poll_that_lost_its_p_and_wakes_others_does_not_move() {
    on(2, || {
        let others = Spinners::new(4);
        let notify = Arc::new(Notify::new());
        let semaphore = Arc::new(Semaphore::new(0));
        let (sender, receiver) = unbounded();
        let (stop, waker) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let sleeper = spawn_sleeper(stop.clone(), Arc::clone(&waker));
        let waiters: [JoinHandle<()>; 3] = [
            spawn({
                let notify = notify.clone();
                async move {
                    loop {
                        notify.notified_async().await;
                    }
                }
            }),
            spawn({
                let semaphore = semaphore.clone();
                async move {
                    loop {
                        semaphore.acquire_async().await.unwrap().forget();
                    }
                }
            }),
            spawn(async move { while receiver.recv_async().await.is_ok() {} }),
        ];
        let tasks: Vec<_> = (0..4)
            .map(|i| {
                let (notify, semaphore) = (notify.clone(), semaphore.clone());
                let (sender, waker) = (sender.clone(), Arc::clone(&waker));
                spawn(wake_others_late(25, move || match i {
                    0 => notify.notify_one(),
                    1 => semaphore.add_permits(1),
                    2 => sender.send(()).unwrap(),
                    _ => waker.lock().unwrap().take().into_iter().for_each(Waker::wake),
                }))
            })
            .collect();
        let moves: Vec<_> = tasks.into_iter().map(|task| task.join().unwrap()).collect();
        drop(others);
        stop.store(true, SeqCst);
        waker.lock().unwrap().take().into_iter().for_each(Waker::wake);
        sleeper.join().unwrap();
        waiters.into_iter().for_each(|waiter| waiter.cancel());
        assert_eq!(moves, [0; 4], "polls changed their OS thread: notify, semaphore, channel, waker");
    });
}

/// Parks in each way within a poll. Panics if the poll resumes on another OS thread.
async fn park_inside(rounds: usize) {
    for round in 0..rounds {
        poll_fn(|_| {
            let before = os_thread();
            park_in_one_way(round);
            assert_eq!(os_thread(), before, "a poll changed its OS thread in way {}", round % 7);
            Poll::Ready(())
        })
        .await;
        sleep_async(MILLI / 20).await;
    }
}

fn park_in_one_way(way: usize) {
    match way % 7 {
        0 => sleep(MILLI / 10),
        1 => yield_now(),
        2 => park_timeout(MILLI / 10),
        3 => spawn(|| sleep(MILLI / 20)).join().unwrap(),
        4 => runtime::blocking(|| std::thread::sleep(MILLI / 20)),
        5 => block_on(sleep_async(MILLI / 10)),
        _ => {
            let (sender, receiver) = bounded(0);
            let from = spawn(move || sender.send(1).unwrap());
            assert_eq!(receiver.recv(), Ok(1));
            from.join().unwrap();
        }
    }
}

/// Polls the future of `make` in each place that polls futures.
fn in_each_place<F: Future<Output = ()> + Send + 'static>(
    make: impl Fn() -> F + Copy + Send + 'static,
) -> Vec<JoinHandle<()>> {
    vec![
        spawn(make()),
        spawn(move || block_on(make())),
        spawn(move || block_on(async move { block_on(make()) })),
        spawn(async move { timeout_async(HOUR, make()).await.unwrap() }),
        spawn(async move { spawn(make()).await.unwrap() }),
        spawn(move || scope(|s| s.spawn(make()).join().unwrap())),
    ]
}

#[test]
fn a_poll_that_parks_resumes_on_its_os_thread() {
    for procs in PROCS {
        on(procs, || {
            let others = Spinners::new(3);
            let futures: Vec<_> = (0..4).flat_map(|_| in_each_place(|| park_inside(70))).collect();
            futures.into_iter().for_each(|future| future.join().unwrap());
            drop(others);
        });
    }
}

#[test]
fn a_future_may_move_between_two_polls() {
    // Shows that the tests above could fail. Two of the four Ps are idle at times and steal, so sysmon's help
    // is not needed.
    on(4, || {
        let others = Spinners::new(2);
        let moving = |_| {
            spawn(async {
                let (mut at, mut moves) = (os_thread(), 0);
                for _ in 0..300 {
                    sleep_async(MILLI / 10).await;
                    moves += usize::from(os_thread() != std::mem::replace(&mut at, os_thread()));
                }
                moves
            })
        };
        let futures: Vec<_> = (0..8).map(moving).collect();
        let moves: usize = futures.into_iter().map(|future| future.join().unwrap()).sum();
        drop(others);
        assert!(moves > 10, "only {moves} moves");
    });
}

/// A value with a destructor that computes until the P is taken, parks, and checks its OS thread.
struct ParksInDrop(Arc<AtomicUsize>);

impl Drop for ParksInDrop {
    fn drop(&mut self) {
        let entered = EnterGuard::enter();
        spin(MILLI);
        sleep(MILLI);
        self.0.fetch_add(usize::from(entered.os_thread == os_thread()), SeqCst);
    }
}

#[test]
fn the_destructor_of_a_future_does_not_move() {
    for procs in PROCS {
        on(procs, || {
            let others = Spinners::new(3);
            let stayed = Arc::new(AtomicUsize::new(0));
            let ends = |way: usize| {
                let parks = ParksInDrop(stayed.clone());
                let future = async move {
                    let _parks = parks;
                    match way {
                        0 => sleep_async(MILLI).await,
                        // This future unwinds within its poll.
                        1 => std::panic::resume_unwind(Box::new(())),
                        // These futures are cancelled: between two polls, and within a poll.
                        2 => sleep_async(HOUR).await,
                        _ => sleep(HOUR),
                    }
                };
                if way == 0 { spawn(move || block_on(future)) } else { spawn(future) }
            };
            let futures: Vec<_> = (0..20).map(|i| ends(i % 4)).collect();
            sleep(10 * MILLI);
            futures.iter().skip(2).step_by(4).for_each(|future| future.cancel());
            futures.iter().skip(3).step_by(4).for_each(|future| future.cancel());
            futures.into_iter().for_each(|future| drop(future.join()));
            drop(others);
            assert_eq!(stayed.load(SeqCst), 20);
        });
    }
}

#[test]
fn a_panic_is_counted_on_the_os_thread_that_catches_it() {
    on_each(|| {
        let futures: Vec<_> = (0..20)
            .map(|_| {
                spawn(async {
                    struct Parks;
                    impl Drop for Parks {
                        fn drop(&mut self) {
                            sleep(MILLI);
                            assert!(std::thread::panicking());
                        }
                    }
                    let _parks = Parks;
                    std::panic::resume_unwind(Box::new(7));
                })
            })
            .collect();
        let calm: Vec<_> = (0..40)
            .map(|_| {
                spawn(async {
                    spin(MILLI / 10);
                    assert!(!std::thread::panicking(), "the panic of another future");
                    sleep(MILLI / 10);
                    assert!(!std::thread::panicking(), "the panic of another future");
                })
            })
            .collect();
        for future in futures {
            let payload: Result<(), _> = future.join();
            assert_eq!(payload.unwrap_err().downcast_ref(), Some(&7));
        }
        calm.into_iter().for_each(|future| future.join().unwrap());
    });
}

#[test]
fn a_destructor_may_join_a_future_parked_on_its_os_thread() {
    on(1, || {
        let (sender, receiver) = bounded::<()>(0);
        let parked = spawn(async move { _ = receiver.recv() });
        yield_now();
        let unwinds = spawn(move || {
            let mut both = Some((parked, sender));
            let _joins = tests::OnDrop(move || {
                let (parked, sender) = both.take().unwrap();
                drop(sender);
                parked.join().unwrap();
            });
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(unwinds.join().is_err());
    });
}

#[test]
fn ten_thousand_parked_polls_take_no_os_threads_of_their_own() {
    with(2, |runtime| {
        let inside = Arc::new(AtomicUsize::new(0));
        let futures: Vec<_> = (0..10_000)
            .map(|i| {
                let inside = inside.clone();
                runtime.spawn(async move {
                    inside.fetch_add(1, SeqCst);
                    // All futures are parked at the same time, and then park a few times more.
                    sleep(200 * MILLI);
                    for _ in 0..3 {
                        sleep(Duration::from_micros(i % 1000));
                    }
                })
            })
            .collect();
        tests::wait_until("all futures are inside a poll", || inside.load(SeqCst) == 10_000);
        let threads = runtime.handle().metrics().threads;
        futures.into_iter().for_each(|future| future.join().unwrap());
        // A busy machine takes a few more: sysmon takes the P of each poll that is long without a processor.
        assert!(threads < 100, "{threads} OS threads");
    });
}

/// A future that sleeps repeatedly within the same poll, and counts its sleeps.
struct SleepsInside {
    at: Arc<std::sync::Mutex<Option<OsThread>>>,
    turns: Arc<AtomicUsize>,
    future: JoinHandle<()>,
}

impl SleepsInside {
    fn spawn(runtime: &runtime::Runtime, stop: &Arc<AtomicBool>) -> Self {
        let at: Arc<std::sync::Mutex<Option<OsThread>>> = Arc::default();
        let turns = Arc::new(AtomicUsize::new(0));
        let future = runtime.spawn({
            let (at, turns, stop) = (at.clone(), turns.clone(), stop.clone());
            async move {
                *at.lock().unwrap() = Some(os_thread());
                while !stop.load(SeqCst) {
                    sleep(MILLI);
                    turns.fetch_add(1, SeqCst);
                }
            }
        });
        SleepsInside { at, turns, future }
    }
}

#[test]
fn a_hog_delays_only_polls_parked_on_its_os_thread() {
    with(2, |runtime| {
        let (stop, stop_hog) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let futures: Vec<_> = (0..40).map(|_| SleepsInside::spawn(runtime, &stop)).collect();
        tests::wait_until("all futures sleep repeatedly", || {
            futures.iter().all(|future| future.turns.load(SeqCst) > 3)
        });
        let hogged: Arc<std::sync::Mutex<Option<OsThread>>> = Arc::default();
        let hog = runtime.spawn({
            let (hogged, stop_hog) = (hogged.clone(), stop_hog.clone());
            move || {
                *hogged.lock().unwrap() = Some(os_thread());
                while !stop_hog.load(SeqCst) {}
            }
        });
        tests::wait_until("the hog runs", || hogged.lock().unwrap().is_some());
        let hogged = *hogged.lock().unwrap();
        // Closures, new futures, and futures that are parked on other OS threads run on beside the hog.
        runtime.spawn(|| (0..20).for_each(|_| sleep(MILLI))).join().unwrap();
        runtime.spawn(async { (0..20).for_each(|_| sleep(MILLI)) }).join().unwrap();
        let elsewhere: Vec<_> =
            futures.iter().filter(|future| *future.at.lock().unwrap() != hogged).collect();
        let before: Vec<_> = elsewhere.iter().map(|future| future.turns.load(SeqCst)).collect();
        tests::wait_until("the futures on other OS threads run on", || {
            elsewhere.iter().zip(&before).all(|(future, before)| future.turns.load(SeqCst) > before + 3)
        });
        println!("{} of 40 wait for the hog", 40 - elsewhere.len());
        stop_hog.store(true, SeqCst);
        stop.store(true, SeqCst);
        hog.join().unwrap();
        futures.into_iter().for_each(|future| future.future.join().unwrap());
    });
}

#[test]
fn no_other_green_thread_runs_on_the_os_thread_of_a_pinned_poll() {
    on_each(|| {
        let strangers = Arc::new(AtomicUsize::new(0));
        let looks: Vec<_> = (0..50)
            .map(|_| {
                let strangers = strangers.clone();
                spawn(async move {
                    for _ in 0..20 {
                        strangers.fetch_add(DEPTH.get(), SeqCst);
                        spin(MILLI / 20);
                        sleep_async(MILLI / 10).await;
                    }
                })
            })
            .collect();
        let pinned: Vec<_> = (0..4)
            .map(|i| {
                spawn(async move {
                    for round in 0..14 {
                        let _pinned = pin_thread();
                        let entered = EnterGuard::enter();
                        park_in_one_way(round + i);
                        assert!(entered.is_here());
                    }
                })
            })
            .collect();
        pinned.into_iter().for_each(|pinned| pinned.join().unwrap());
        looks.into_iter().for_each(|look| look.join().unwrap());
        assert_eq!(strangers.load(SeqCst), 0, "another future saw the context of a pinned poll");
    });
}

#[test]
fn a_parked_poll_may_be_woken_by_any_thread() {
    with(2, |runtime| {
        let (mutex, notify) = (Arc::new(Mutex::new(0)), Arc::new(Notify::new()));
        let futures: Vec<_> = (0..8)
            .map(|_| {
                let (mutex, notify) = (mutex.clone(), notify.clone());
                runtime.spawn(async move {
                    for _ in 0..200 {
                        let before = os_thread();
                        notify.notified();
                        let mut count = mutex.lock();
                        yield_now();
                        *count += 1;
                        assert_eq!(os_thread(), before);
                    }
                })
            })
            .collect();
        // A plain thread and a green thread of another runtime wake the futures.
        let other = tests::runtime(1);
        let all_over = Arc::new(AtomicBool::new(false));
        let green = other.spawn({
            let (notify, all_over) = (notify.clone(), all_over.clone());
            move || {
                while !all_over.load(SeqCst) {
                    notify.notify_one();
                    yield_now();
                }
            }
        });
        while !futures.iter().all(|future| future.is_finished()) {
            notify.notify_one();
            std::thread::sleep(MILLI / 20);
        }
        all_over.store(true, SeqCst);
        green.join().unwrap();
        futures.into_iter().for_each(|future| future.join().unwrap());
        assert_eq!(*mutex.lock(), 1600);
    });
}

#[test]
fn a_runtime_ends_with_parked_polls() {
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        for procs in PROCS {
            with_built(runtime::Builder::new().procs(procs).migration(migration), |runtime| {
                for i in 0..1_000 {
                    drop(runtime.spawn(async move {
                        if i % 2 == 0 { sleep(HOUR) } else { runtime::thread::park() }
                    }));
                }
                tests::wait_until("all futures are parked", || runtime.handle().metrics().waiting >= 1_000);
            });
        }
    }
}

/// Unneeded OS threads end, except those on which a parked poll must resume.
#[test]
fn an_os_thread_with_a_parked_poll_does_not_end() {
    with(2, |runtime| {
        let wakers = Arc::new(std::sync::Mutex::new(Vec::new()));
        // The future blocks its OS thread for a moment, so that many OS threads run polls that park.
        let futures: Vec<_> = (0..64)
            .map(|_| {
                let wakers = wakers.clone();
                runtime.spawn(async move {
                    let before = os_thread();
                    std::thread::sleep(20 * MILLI);
                    wakers.lock().unwrap().push(runtime::thread::current());
                    runtime::thread::park();
                    assert_eq!(os_thread(), before);
                })
            })
            .collect();
        tests::wait_until("all futures are parked", || wakers.lock().unwrap().len() == 64);
        // sysmon looks once a second.
        std::thread::sleep(3 * Duration::from_secs(1));
        let homes = runtime.handle().metrics().threads;
        wakers.lock().unwrap().drain(..).for_each(|parked| parked.unpark());
        futures.into_iter().for_each(|future| future.join().unwrap());
        println!("{homes} OS threads kept for polls that are parked");
        tests::wait_until("the OS threads end", || runtime.handle().metrics().threads <= 6);
    });
}

/// A poll that blocks after it has parked hands its P off, on an OS thread that a pinned green thread has
/// reserved. That OS thread takes a P again for the next one.
#[test]
fn a_poll_that_blocks_on_a_reserved_os_thread() {
    with_built(runtime::Builder::new().procs(1).sysmon(false), |runtime| {
        runtime.block_on(|| {
            for _ in 0..20 {
                let poll = spawn(async {
                    runtime::sleep(MILLI);
                    let here = os_thread();
                    for _ in 0..2 {
                        let others = [spawn(|| ()), spawn(|| ())];
                        runtime::blocking(|| std::thread::sleep(MILLI));
                        others.into_iter().for_each(|other| other.join().unwrap());
                    }
                    assert_eq!(os_thread(), here);
                });
                // The poll begins and parks here, and this green thread then reserves the OS thread.
                runtime::yield_now();
                let _pinned = runtime::thread::pin();
                runtime::sleep(MILLI * 3);
                poll.join().unwrap();
            }
        });
    });
}
