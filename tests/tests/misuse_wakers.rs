//! Wakers written by hand: when the runtime calls, clones or drops one, that one may do what any code may do.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::{Duration, Instant};

use runtime::time::{Sleep, sleep_async};
use runtime::{Builder, spawn, thread};
use tests::{Drops, ON_PURPOSE, Random, Token, Watchdog, calls};
use tests::{everywhere, on, on_each, quiet_panics_on_purpose, runtime, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A waker that calls a closure, and then says that it has returned.
struct Calls<F>(F, AtomicBool);

impl<F: Fn() + Send + Sync + 'static> Calls<F> {
    fn new(f: F) -> Arc<Self> {
        Arc::new(Calls(f, AtomicBool::new(false)))
    }

    fn has_returned(&self) -> bool {
        self.1.load(SeqCst)
    }
}

impl<F: Fn() + Send + Sync + 'static> Wake for Calls<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
        self.1.store(true, SeqCst);
    }
}

fn poll_with<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// A sleep of about that time that waits for it, and calls this waker then.
fn armed(mut time: Duration, waker: &Waker) -> Pin<Box<Sleep>> {
    loop {
        let mut sleep = Box::pin(sleep_async(time));
        if poll_with(sleep.as_mut(), waker).is_pending() {
            return sleep;
        }
        // On a very busy machine that may have been too short.
        time *= 2;
    }
}

/// Has `f` called as a waker by a timer, and by the end of a green thread.
fn called_from_everywhere(f: impl Fn() + Clone + Send + Sync + 'static) {
    let by_timer = Calls::new(f.clone());
    let sleep = armed(MILLI, &by_timer.clone().into());
    let by_end = Calls::new(f);
    let mut ends = spawn(thread::park);
    assert!(poll_with(Pin::new(&mut ends), &by_end.clone().into()).is_pending());
    ends.thread().unpark();
    wait_until("the timer's waker has returned", || by_timer.has_returned());
    wait_until("the joiner's waker has returned", || by_end.has_returned());
    runtime::block_on(sleep);
    assert!(poll_with(Pin::new(&mut ends), Waker::noop()).is_ready());
}

#[test]
fn one_may_call_anything() {
    for (name, call) in calls::everything() {
        println!("{name}");
        everywhere(|| called_from_everywhere(call));
    }
}

/// On the stack of the only M, this would be the end: who has the lock could not run.
#[test]
fn one_may_wait_for_a_lock_that_a_parked_thread_has() {
    everywhere(|| {
        let lock = Arc::new(Mutex::new(0));
        let parked = lock.clone();
        let holder = spawn(move || {
            let mut number = parked.lock().unwrap();
            runtime::sleep(5 * MILLI);
            *number += 1;
        });
        wait_until("it is locked", || lock.try_lock().is_err() || holder.is_finished());
        let seen = lock.clone();
        called_from_everywhere(move || assert_eq!(*seen.lock().unwrap(), 1));
        holder.join().unwrap();
    });
}

#[test]
fn one_that_computes_holds_nobody_up() {
    on(1, || {
        let sleeps = spawn(|| {
            for _ in 0..40 {
                runtime::sleep(MILLI);
            }
        });
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let waker = Calls::new(move || {
            while !seen.load(SeqCst) {
                std::hint::spin_loop();
            }
        });
        let _sleep = armed(MILLI, &waker.clone().into());
        // Its P is taken from it, or this would never end.
        sleeps.join().unwrap();
        over.store(true, SeqCst);
        wait_until("it has returned", || waker.has_returned());
    });
}

/// A payload that panics again and again.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(ON_PURPOSE);
    }
}

#[test]
fn one_that_panics_is_reported_and_nothing_else_happens() {
    quiet_panics_on_purpose();
    on_each(|| {
        let called = Arc::new(AtomicUsize::new(0));
        for bomb in [false, true] {
            let counts = called.clone();
            let waker: Waker = Calls::new(move || {
                counts.fetch_add(1, SeqCst);
                if bomb { std::panic::resume_unwind(Box::new(Bomb)) } else { panic_any(ON_PURPOSE) }
            })
            .into();
            let before = called.load(SeqCst);
            let (_sleep, mut ends) = (armed(MILLI, &waker), spawn(thread::park));
            assert!(poll_with(Pin::new(&mut ends), &waker).is_pending());
            ends.thread().unpark();
            wait_until("both were called", || called.load(SeqCst) == before + 2);
            assert!(matches!(poll_with(Pin::new(&mut ends), &waker), Poll::Ready(Ok(()))));
        }
        assert_eq!(spawn(|| 7).join().unwrap(), 7);
    });
}

/// What a waker does when it is cloned and when it is dropped, and what tells its clones.
struct Odd {
    clones: fn(),
    drops: fn(),
    _token: Token,
}

impl Odd {
    fn waker(clones: fn(), drops: fn(), token: Token) -> Waker {
        let odd = Arc::into_raw(Arc::new(Odd { clones, drops, _token: token }));
        // SAFETY: the functions keep the count of the `Arc`, whatever the two closures do.
        unsafe { Waker::from_raw(RawWaker::new(odd.cast(), &ODD)) }
    }
}

static ODD: RawWakerVTable = RawWakerVTable::new(
    |odd| {
        // SAFETY: (all four) the waker holds one count of this `Arc`.
        let this = unsafe { &*odd.cast::<Odd>() };
        (this.clones)();
        // SAFETY: as above.
        unsafe { Arc::increment_strong_count(odd.cast::<Odd>()) };
        RawWaker::new(odd, &ODD)
    },
    // SAFETY: as above.
    |odd| drop(unsafe { Arc::from_raw(odd.cast::<Odd>()) }),
    |_odd| (),
    |odd| {
        // SAFETY: as above.
        let this = unsafe { Arc::from_raw(odd.cast::<Odd>()) };
        (this.drops)();
    },
);

/// Has such a waker cloned, replaced and dropped by everything that keeps one.
fn kept_everywhere(clones: fn(), drops: fn()) {
    let count = Drops::default();
    {
        let odd = || Odd::waker(clones, drops, count.token());
        let (mut replaced, mut dropped) = (pin!(sleep_async(HOUR)), Box::pin(sleep_async(HOUR)));
        assert!(poll_with(replaced.as_mut(), &odd()).is_pending());
        assert!(poll_with(replaced.as_mut(), Waker::noop()).is_pending());
        assert!(poll_with(dropped.as_mut(), &odd()).is_pending());
        drop(dropped);
        let (mut joined, mut let_go) = (spawn(thread::park), spawn(thread::park));
        for handle in [&mut joined, &mut let_go] {
            assert!(poll_with(Pin::new(&mut *handle), &odd()).is_pending());
            assert!(poll_with(Pin::new(&mut *handle), &odd()).is_pending());
        }
        let threads = [&joined, &let_go].map(|handle| handle.thread().clone());
        spawn(move || {
            runtime::sleep(10 * MILLI);
            threads.iter().for_each(thread::Thread::unpark);
        });
        joined.join().unwrap();
    }
    wait_until("all wakers are dropped", || count.alive() == 0);
}

#[test]
fn clones_and_drops_may_call_anything() {
    for (name, call) in calls::everything() {
        println!("{name}");
        everywhere(|| kept_everywhere(call, call));
    }
}

#[test]
fn a_clone_that_panics_leaves_the_earlier_waker_in_place() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let count = Drops::default();
        let bad = Odd::waker(|| panic_any(ON_PURPOSE), || (), count.token());
        let start = Instant::now();
        let (mut sleep, mut ends) = (pin!(sleep_async(20 * MILLI)), spawn(thread::park));
        let polls = |sleep: Pin<&mut Sleep>, ends: Pin<&mut thread::JoinHandle<()>>| {
            let panicked = catch_unwind(AssertUnwindSafe(|| poll_with(sleep, &bad))).is_err();
            // On a machine that is very busy its time may be over.
            assert!(panicked || start.elapsed() >= 20 * MILLI);
            assert!(catch_unwind(AssertUnwindSafe(|| poll_with(ends, &bad))).is_err());
            panicked
        };
        polls(sleep.as_mut(), Pin::new(&mut ends));
        let (by_timer, by_end) = (Calls::new(|| ()), Calls::new(|| ()));
        let in_time = poll_with(sleep.as_mut(), &by_timer.clone().into()).is_pending();
        assert!(poll_with(Pin::new(&mut ends), &by_end.clone().into()).is_pending());
        let in_time = polls(sleep.as_mut(), Pin::new(&mut ends)) && in_time;
        wait_until("the earlier one is called", || by_timer.has_returned() || !in_time);
        ends.thread().unpark();
        wait_until("the earlier one is called", || by_end.has_returned());
        ends.join().unwrap();
        drop(bad);
        assert_eq!(count.alive(), 0);
    });
}

/// A handle that was polled is joined while its thread ends: the waker is called or dropped, once.
#[test]
fn a_polled_handle_is_joined_while_its_thread_ends() {
    for procs in [1, 2, 8] {
        with(procs, |runtime| {
            let (count, mut random) = (Drops::default(), Random::new(procs as u64));
            for _ in 0..2000 {
                let spins = random.below(2000);
                let mut handle = runtime.spawn(move || (0..spins).for_each(|_| std::hint::spin_loop()));
                // Dropped slowly, so that there is time for both to get at it.
                let slow = || drop(tests::spin(Duration::from_micros(20)).to_string());
                let odd = Odd::waker(|| (), slow, count.token());
                if poll_with(Pin::new(&mut handle), &odd).is_pending() {
                    handle.join().unwrap();
                }
            }
            wait_until("all wakers are dropped", || count.alive() == 0);
            assert_eq!(count.count(), 2000);
        });
    }
}

/// Timers that fire while their runtime ends: a waiter of another runtime is woken, perhaps early.
#[test]
fn a_runtime_that_ends_calls_every_waker() {
    for round in 0..40u32 {
        let _dog = Watchdog::new();
        let ends = runtime(1 + round as usize % 3);
        let called = Arc::new(AtomicUsize::new(0));
        let counts = called.clone();
        let mut sleeps: Vec<_> = ends.block_on(move || {
            let polled = (0..100).map(|i| {
                let counts = counts.clone();
                // It waits too, and is not cancelled.
                let waker = Calls::new(move || {
                    runtime::sleep(Duration::from_micros(i));
                    counts.fetch_add(1, SeqCst);
                });
                let mut sleep = Box::pin(sleep_async(Duration::from_micros(i * 20)));
                (poll_with(sleep.as_mut(), &waker.into()).is_pending(), sleep)
            });
            polled.collect()
        });
        let waiting = sleeps.iter().filter(|(pending, _)| *pending).count();
        std::thread::sleep(Duration::from_micros(u64::from(round) * 50));
        drop(ends);
        assert_eq!(called.load(SeqCst), waiting, "each was called once");
        // And they can be waited for in another runtime.
        sleeps.drain(..).for_each(|(_, sleep)| runtime::block_on(sleep));
    }
}

#[test]
fn one_may_drop_the_runtime_that_calls_it() {
    let _dog = Watchdog::new();
    for procs in [1, 2] {
        for by_timer in [false, true] {
            let own = Builder::new().procs(procs).build().unwrap();
            let handle = own.handle();
            let kept = Mutex::new(Some(own));
            let waker = Calls::new(move || drop(kept.lock().unwrap().take()));
            let called = waker.clone();
            let ended = handle.spawn(move || {
                let waker = called.clone().into();
                let mut ends = spawn(thread::park);
                let _sleep = by_timer.then(|| armed(MILLI, &waker));
                assert!(by_timer || poll_with(Pin::new(&mut ends), &waker).is_pending());
                ends.thread().unpark();
                thread::park();
            });
            wait_until("it has dropped the runtime", || waker.has_returned());
            assert!(ended.join().unwrap_err().is::<thread::Cancelled>());
            wait_until("all of it has ended", || handle.metrics().threads == 0);
        }
    }
}
