//! Ends: timers, contexts, scopes, groups, time-outs and cancellation. What has ended runs no more, and holds
//! nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use runtime::channel;
use runtime::context::{Context, ContextError};
use runtime::sync::Mutex;
use runtime::thread::{self, JoinSet};
use runtime::time::{Ticker, Timer, timeout};
use runtime::{scope, select, sleep, spawn, try_scope, yield_now};

use super::{Counted, exhaust, explore, ms, pick};

#[test]
fn a_stopped_timer_does_not_run() {
    explore(|| {
        let runs = Arc::new(AtomicUsize::new(0));
        let counts = runs.clone();
        let timer = Timer::after_func(ms(2), move || _ = counts.fetch_add(1, Relaxed));
        sleep(ms(1 + pick(2) as u64));
        let stopped = timer.stop();
        sleep(ms(5));
        assert_eq!(runs.load(Relaxed), usize::from(!stopped), "it has run, or was stopped");
        let again = timer.reset(ms(1));
        assert!(!again, "it was not armed");
        sleep(ms(1));
        yield_now();
        let stopped = timer.stop();
        sleep(ms(1));
        assert_eq!(runs.load(Relaxed), usize::from(!stopped) + runs.load(Relaxed).saturating_sub(1));
    });
}

#[test]
fn a_timer_of_a_channel_is_stopped_or_received() {
    explore(|| {
        let timer = Timer::new(ms(2));
        let start = Instant::now();
        let received = timer.channel().recv_timeout(ms(1 + pick(2) as u64));
        let stopped = timer.stop();
        assert!(received.is_ok() != stopped || start.elapsed() >= ms(2), "{received:?}, {stopped}");
        assert!(timer.channel().try_recv().is_err(), "nothing is left after a stop");
        timer.reset(ms(3));
        assert_eq!(timer.channel().recv(), Ok(Instant::now()));
    });
}

#[test]
fn a_ticker_does_not_drift() {
    explore(|| {
        let start = Instant::now();
        let ticker = Ticker::new(ms(2));
        let mut last = start;
        for _ in 0..5 {
            let due = ticker.channel().recv().unwrap();
            assert!(
                due > last && (due - start).as_nanos().is_multiple_of(2_000_000) && due <= Instant::now()
            );
            last = due;
            sleep(ms(pick(4) as u64));
        }
        ticker.stop();
        assert!(ticker.channel().recv_timeout(ms(10)).is_err());
    });
}

#[test]
fn the_end_of_a_context_ends_its_children() {
    explore(|| {
        let runs = Arc::new(AtomicUsize::new(0));
        let (parent, cancel) = Context::background().with_cancel();
        let (child, _cancels_child) = parent.with_timeout(ms(2));
        let counts = runs.clone();
        let func = child.after_func(move || _ = counts.fetch_add(1, Relaxed));
        let waiters: Vec<_> = [parent.clone(), child.clone()]
            .into_iter()
            .map(|context| {
                spawn(move || {
                    select! { done(context) -> why => why }
                })
            })
            .collect();
        let canceller = spawn(move || {
            sleep(ms(1 + pick(2) as u64));
            cancel.cancel();
        });
        sleep(ms(pick(3) as u64));
        let stopped = func.stop();
        canceller.join().unwrap();
        let why: Vec<_> = waiters.into_iter().map(|waiter| waiter.join().unwrap()).collect();
        assert_eq!(why[0], ContextError::Canceled);
        assert_eq!(child.err(), Some(why[1]), "an end has one reason");
        sleep(ms(5));
        assert_eq!(runs.load(Relaxed), usize::from(!stopped));
    });
}

#[test]
fn a_context_ends_the_closure_or_lets_it_return() {
    explore(|| {
        let live = Arc::new(AtomicUsize::new(0));
        let lock = Arc::new(Mutex::new(()));
        let (context, cancel) = Context::background().with_timeout(ms(2));
        let canceller = spawn(move || {
            sleep(ms(1 + pick(2) as u64));
            cancel.cancel();
        });
        let (lives, locks) = (live.clone(), lock.clone());
        let result = context.run(|| {
            let (_counted, _guard) = (Counted::new(&lives), locks.lock());
            sleep(ms(1 + pick(2) as u64));
            7
        });
        assert_eq!((live.load(Relaxed), lock.try_lock().is_some()), (0, true));
        assert!(result.is_ok() || context.err().is_some(), "{result:?}");
        // A wait that comes after is not ended by the context.
        sleep(ms(1));
        canceller.join().unwrap();
    });
}

#[test]
fn nested_time_outs_end_the_right_closure() {
    explore(|| {
        let (outer_time, inner_time) = (1 + pick(3) as u64, 1 + pick(3) as u64);
        let start = Instant::now();
        let slept = 1 + pick(3) as u64;
        let outer = timeout(ms(outer_time), || timeout(ms(inner_time), || sleep(ms(slept))).is_ok());
        let first = outer_time.min(inner_time).min(slept);
        assert_eq!(start.elapsed(), ms(first));
        match outer {
            Ok(true) => assert!(slept <= inner_time.min(outer_time)),
            Ok(false) => assert!(inner_time <= slept.min(outer_time)),
            Err(_) => assert!(outer_time <= slept.min(inner_time)),
        }
        // The time-outs are over.
        sleep(ms(5));
    });
}

#[test]
fn a_scope_ends_after_its_threads() {
    explore(|| {
        let live = Arc::new(AtomicUsize::new(0));
        let inner = live.clone();
        let victim = spawn(move || {
            scope(|s| {
                for n in 0..3 {
                    let counted = Counted::new(&inner);
                    s.spawn(move || {
                        sleep(ms(n));
                        drop(counted);
                    });
                }
            });
            assert_eq!(inner.load(Relaxed), 0);
        });
        if pick(2) == 0 {
            sleep(ms(pick(2) as u64));
            victim.cancel();
        }
        _ = victim.join();
        assert_eq!(live.load(Relaxed), 0, "no thread outlives its scope");
    });
}

#[test]
fn the_first_error_ends_a_scope() {
    explore(|| {
        let live = AtomicUsize::new(0);
        let result: Result<u64, u64> = try_scope(|s| {
            let threads: Vec<_> = (0..3)
                .map(|n| {
                    let live = &live;
                    s.spawn(move || {
                        live.fetch_add(1, Relaxed);
                        let _leaves = Leaves(live);
                        sleep(ms(1 + n));
                        if n < 2 { Err(n) } else { Ok(n) }
                    })
                })
                .collect();
            Ok(threads.into_iter().map(|thread| thread.join()).sum())
        });
        assert_eq!((result, live.into_inner()), (Err(0), 0));
    });
}

struct Leaves<'i>(&'i AtomicUsize);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_set_keeps_its_limit_and_gives_each_result_once() {
    explore(|| {
        let running = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::with_limit(2);
        let victim = pick(6);
        for n in 0..5 {
            let running = running.clone();
            let handle = set.spawn(move || {
                assert!(running.fetch_add(1, Relaxed) < 2, "two at a time");
                let _leaves = Leaves(&running);
                sleep(ms(n as u64 % 2));
                n
            });
            if n == victim {
                handle.cancel();
            }
        }
        let (mut results, mut cancelled) = (Vec::new(), 0);
        while let Some(result) = set.join_next() {
            match result {
                Ok(n) => results.push(n),
                Err(error) => cancelled += usize::from(error.is_cancelled()),
            }
        }
        results.sort_unstable();
        assert!(results.windows(2).all(|two| two[0] < two[1]));
        assert_eq!(results.len() + cancelled, 5);
        assert!(cancelled <= 1 && running.load(Relaxed) == 0);
    });
}

#[test]
fn no_member_outlives_its_set() {
    explore(|| {
        let live = Arc::new(AtomicUsize::new(0));
        let mut set = JoinSet::new();
        for n in 0..3 {
            let counted = Counted::new(&live);
            set.spawn(move || {
                sleep(ms(n));
                drop(counted);
            });
        }
        if pick(2) == 0 {
            _ = set.join_next();
        }
        if pick(2) == 0 {
            set.shutdown();
        }
        drop(set);
        assert_eq!(live.load(Relaxed), 0);
    });
}

#[test]
fn a_cancelled_thread_ends_once_and_holds_nothing() {
    explore(|| {
        let (lock, live) = (Arc::new(Mutex::new(())), Arc::new(AtomicUsize::new(0)));
        let (s, r) = channel::bounded(1);
        let (locks, counted, sends) = (lock.clone(), Counted::new(&live), s.clone());
        let victim = spawn(move || {
            let _counted = counted;
            for _ in 0..3 {
                let _guard = locks.lock();
                sends.send(()).unwrap();
                yield_now();
            }
        });
        let cancellers = [(); 2].map(|()| {
            let victim = victim.abort_handle();
            spawn(move || victim.cancel())
        });
        let taker = spawn(move || r.iter().count());
        let result = victim.join();
        assert!(result.is_ok() || result.is_err_and(|why| why.is::<thread::Cancelled>()));
        assert_eq!((live.load(Relaxed), lock.try_lock().is_some()), (0, true));
        cancellers.into_iter().for_each(|canceller| canceller.join().unwrap());
        drop(s);
        assert!(taker.join().unwrap() <= 3);
    });
}

#[test]
fn a_destructor_waits_while_its_thread_unwinds() {
    struct Says(channel::Sender<u8>);
    impl Drop for Says {
        fn drop(&mut self) {
            // The thread is cancelled; this wait ends all the same, and only when it is done.
            sleep(Duration::from_millis(1));
            self.0.send(1).unwrap();
        }
    }
    exhaust(|| {
        let (s, r) = channel::bounded(0);
        let victim = spawn(move || {
            let _says = Says(s);
            sleep(ms(100));
        });
        yield_now();
        let handle = victim.abort_handle();
        spawn(move || handle.cancel());
        // A thread that was cancelled before it began has made no value.
        let said = r.recv().is_ok();
        assert!(said || victim.join().is_err());
    });
}

#[test]
fn an_unpark_is_kept() {
    exhaust(|| {
        let ready = Arc::new(AtomicBool::new(false));
        let sees = ready.clone();
        let sleeper = spawn(move || {
            while !sees.load(Relaxed) {
                thread::park();
            }
        });
        let wakes = sleeper.thread().clone();
        ready.store(true, Relaxed);
        wakes.unpark();
        sleeper.join().unwrap();
    });
}

#[test]
fn an_unpark_and_a_time_out_at_one_time() {
    explore(|| {
        let sleeper = spawn(|| {
            let start = Instant::now();
            thread::park_timeout(ms(1));
            start.elapsed()
        });
        let wakes = sleeper.thread().clone();
        let waker = spawn(move || {
            sleep(ms(pick(2) as u64));
            wakes.unpark();
        });
        assert!(sleeper.join().unwrap() <= ms(1));
        waker.join().unwrap();
    });
}
