//! Wakers that users write: the runtime calls, clones and drops them where they may run any code.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::{Duration, Instant};

use runtime::sync::LockAsync;
use runtime::time::{Sleep, sleep_async};
use runtime::{Builder, spawn, thread};
use tests::{Drops, ON_PURPOSE, Random, Token, Watchdog, calls};
use tests::{everywhere, has_sysmon, on, on_each, quiet_panics_on_purpose, runtime, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A waker that calls a closure and records that the closure has returned.
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

/// Returns a pending sleep of at least `time` that will call `waker`.
fn armed(mut time: Duration, waker: &Waker) -> Pin<Box<Sleep>> {
    loop {
        let mut sleep = Box::pin(sleep_async(time));
        if poll_with(sleep.as_mut(), waker).is_pending() {
            return sleep;
        }
        // On a busy machine the sleep was over before its first poll.
        time *= 2;
    }
}

/// Has `f` called as a waker, by a timer and by the end of a green thread.
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
fn a_waker_may_call_anything() {
    for (name, call) in calls::everything() {
        println!("{name}");
        everywhere(|| called_from_everywhere(call));
    }
}

/// On the stack of the only M, this waker would keep the holder of the lock from running.
#[test]
fn a_waker_may_block_on_a_lock_of_a_parked_thread() {
    everywhere(|| {
        let lock = Arc::new(Mutex::new(0));
        let parked = lock.clone();
        let holder = spawn(move || {
            let mut number = parked.lock().unwrap();
            runtime::sleep(5 * MILLI);
            *number += 1;
        });
        wait_until("the lock is held", || lock.try_lock().is_err() || holder.is_finished());
        let seen = lock.clone();
        called_from_everywhere(move || assert_eq!(*seen.lock().unwrap(), 1));
        holder.join().unwrap();
    });
}

/// `Condvar::wait` unlocks its mutex in the middle of its wait, and so calls the waker of the future that is
/// next.
#[test]
fn a_waker_may_wait_or_panic_in_the_wait_for_a_condition_that_calls_it() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let waits: [fn(); 5] = [
            || spawn(|| ()).join().unwrap(),
            || runtime::sleep(MILLI),
            || runtime::block_on(runtime::yield_now_async()),
            || panic_any(ON_PURPOSE),
            || (),
        ];
        // A waker that waits there keeps the P of its caller, until sysmon takes it.
        let first = if has_sysmon() { 0 } else { 3 };
        for wait in waits.into_iter().skip(first) {
            let pair = Arc::new((runtime::sync::Mutex::new(false), runtime::sync::Condvar::new()));
            let own = pair.clone();
            let waiter_id = thread::current().id();
            let called = Arc::new(AtomicUsize::new(0));
            let calls = called.clone();
            let waker: Waker = Calls::new(move || {
                calls.fetch_add(1, SeqCst);
                wait();
            })
            .into();
            let (queued, is_queued) = runtime::channel::bounded(0);
            let locked = pair.0.lock();
            let notifier = spawn(move || {
                assert_ne!(thread::current().id(), waiter_id);
                let mut locks = Box::pin(own.0.lock_async());
                assert!(poll_with(locks.as_mut(), &waker).is_pending());
                queued.send(()).unwrap();
                wait_until("the waker is called", || called.load(SeqCst) > 0);
                // The woken future lets the next waiter have its turn.
                drop(locks);
                *own.0.lock() = true;
                assert!(own.1.notify_one(), "the waiter is queued once");
                wait_until("the waiter has left", || !own.1.notify_one());
            });
            let mut ready = locked;
            is_queued.recv().unwrap();
            while !*ready {
                pair.1.wait(&mut ready);
            }
            drop(ready);
            notifier.join().unwrap();
        }
    });
}

#[test]
fn a_waker_that_computes_delays_no_other_thread() {
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
        // The join returns only if the P of the waker's thread is retaken.
        sleeps.join().unwrap();
        over.store(true, SeqCst);
        wait_until("the waker has returned", || waker.has_returned());
    });
}

/// A panic payload with a drop that panics.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic_any(ON_PURPOSE);
    }
}

#[test]
fn a_panic_in_a_waker_is_reported_and_has_no_other_effect() {
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
            wait_until("both wakers were called", || called.load(SeqCst) == before + 2);
            assert!(matches!(poll_with(Pin::new(&mut ends), &waker), Poll::Ready(Ok(()))));
        }
        assert_eq!(spawn(|| 7).join().unwrap(), 7);
    });
}

/// A waker that runs a function when it is cloned, and another when it is dropped.
struct Odd {
    clones: fn(),
    drops: fn(),
    _token: Token,
}

impl Odd {
    fn waker(clones: fn(), drops: fn(), token: Token) -> Waker {
        let odd = Arc::into_raw(Arc::new(Odd { clones, drops, _token: token }));
        // SAFETY: the functions of `ODD` keep the reference count of the `Arc`, whatever the two functions
        // do.
        unsafe { Waker::from_raw(RawWaker::new(odd.cast(), &ODD)) }
    }
}

static ODD: RawWakerVTable = RawWakerVTable::new(
    |odd| {
        // SAFETY: (all four) the waker owns a reference of this `Arc`.
        let this = unsafe { &*odd.cast::<Odd>() };
        (this.clones)();
        // SAFETY: see the first.
        unsafe { Arc::increment_strong_count(odd.cast::<Odd>()) };
        RawWaker::new(odd, &ODD)
    },
    // SAFETY: see the first.
    |odd| drop(unsafe { Arc::from_raw(odd.cast::<Odd>()) }),
    |_odd| (),
    |odd| {
        // SAFETY: see the first.
        let this = unsafe { Arc::from_raw(odd.cast::<Odd>()) };
        (this.drops)();
    },
);

/// Has such wakers cloned, replaced and dropped by everything in the runtime that keeps a waker.
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
fn clone_and_drop_of_a_waker_may_call_anything() {
    for (name, call) in calls::everything() {
        println!("{name}");
        everywhere(|| kept_everywhere(call, call));
    }
}

#[test]
fn a_panic_in_clone_leaves_the_earlier_waker_in_place() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let count = Drops::default();
        let bad = Odd::waker(|| panic_any(ON_PURPOSE), || (), count.token());
        let start = Instant::now();
        let (mut sleep, mut ends) = (pin!(sleep_async(20 * MILLI)), spawn(thread::park));
        let polls = |sleep: Pin<&mut Sleep>, ends: Pin<&mut thread::JoinHandle<()>>| {
            let panicked = catch_unwind(AssertUnwindSafe(|| poll_with(sleep, &bad))).is_err();
            // On a busy machine the sleep may be over, and then does not clone the waker.
            assert!(panicked || start.elapsed() >= 20 * MILLI);
            assert!(catch_unwind(AssertUnwindSafe(|| poll_with(ends, &bad))).is_err());
            panicked
        };
        polls(sleep.as_mut(), Pin::new(&mut ends));
        let (by_timer, by_end) = (Calls::new(|| ()), Calls::new(|| ()));
        let in_time = poll_with(sleep.as_mut(), &by_timer.clone().into()).is_pending();
        assert!(poll_with(Pin::new(&mut ends), &by_end.clone().into()).is_pending());
        let in_time = polls(sleep.as_mut(), Pin::new(&mut ends)) && in_time;
        wait_until("the earlier waker is called", || by_timer.has_returned() || !in_time);
        ends.thread().unpark();
        wait_until("the earlier waker is called", || by_end.has_returned());
        ends.join().unwrap();
        drop(bad);
        assert_eq!(count.alive(), 0);
    });
}

/// A polled handle is joined while its thread ends: the waker is called once or dropped once.
#[test]
fn a_polled_handle_is_joined_while_its_thread_ends() {
    for procs in [1, 2, 8] {
        with(procs, |runtime| {
            let (count, mut random) = (Drops::default(), Random::new(procs as u64));
            for _ in 0..2000 {
                let spins = random.below(2000);
                let mut handle = runtime.spawn(move || (0..spins).for_each(|_| std::hint::spin_loop()));
                // The waker's drop is slow, so that the joiner and the ending thread can reach the waker at
                // the same time.
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

/// Timers fire while their runtime ends: each waiter of another runtime is woken once, perhaps early.
#[test]
fn a_runtime_that_ends_calls_each_waker_once() {
    for round in 0..40u32 {
        let _dog = Watchdog::new();
        let ends = runtime(1 + round as usize % 3);
        let called = Arc::new(AtomicUsize::new(0));
        let counts = called.clone();
        let mut sleeps: Vec<_> = ends.block_on(move || {
            let polled = (0..100).map(|i| {
                let counts = counts.clone();
                // The waker sleeps, and this sleep is not cancelled.
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
        assert_eq!(called.load(SeqCst), waiting, "each waker was called once");
        // The sleeps can be awaited in another runtime.
        sleeps.drain(..).for_each(|(_, sleep)| runtime::block_on(sleep));
    }
}

#[test]
fn a_waker_may_drop_its_runtime() {
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
            wait_until("the waker has dropped the runtime", || waker.has_returned());
            assert!(ended.join().unwrap_err().is::<thread::Cancelled>());
            wait_until("the runtime's OS threads have ended", || handle.metrics().threads == 0);
        }
    }
}
