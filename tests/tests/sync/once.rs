//! `Once`, `OnceLock`, `LazyLock`: a single thread initialises and the others wait. A failed or cancelled
//! initialiser blocks no other thread.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::context::Context;
use runtime::sync::{LazyLock, Once, OnceLock, OnceState};
use runtime::thread::Cancelled;
use runtime::time::{Elapsed, timeout};
use runtime::{sleep, spawn, yield_now};
use tests::crowd::{crowd, in_each};
use tests::{ON_PURPOSE, on_each, quiet_panics_on_purpose, wait_until};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn text(panic: Box<dyn std::any::Any + Send>) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| text.to_string())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap()
}

#[test]
fn an_initialiser_runs_once() {
    in_each(|| {
        let (once, runs, done) = (Once::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        assert_eq!(format!("{once:?}"), "Once { state: New }");
        crowd(12, 4, |i| {
            if i % 4 == 3 {
                once.wait();
            } else {
                once.call_once(|| {
                    assert_eq!(once.state(), OnceState::InProgress);
                    runs.fetch_add(1, SeqCst);
                    sleep(MILLI);
                    done.store(1, SeqCst);
                });
            }
            assert_eq!(done.load(SeqCst), 1, "a caller that has returned sees the initialised value");
        });
        assert_eq!(runs.into_inner(), 1);
        assert!(once.is_completed() && once.state().done());
        once.call_once_force(|_| unreachable!());
        once.wait_force();
        Once::new_completed().call_once(|| unreachable!());
    });
}

#[test]
fn a_failed_initialiser_poisons_the_once() {
    quiet_panics_on_purpose();
    in_each(|| {
        let once = Once::new();
        assert!(catch_unwind(AssertUnwindSafe(|| once.call_once(|| panic!("{ON_PURPOSE}")))).is_err());
        assert!(once.state().poisoned() && !once.is_completed());
        for call in [|once: &Once| once.call_once(|| ()), |once: &Once| once.wait()] {
            let panic = catch_unwind(AssertUnwindSafe(|| call(&once))).unwrap_err();
            assert_eq!(text(panic), "Once instance has previously been poisoned");
        }
        runtime::scope(|s| {
            s.spawn(|| once.wait_force());
            once.call_once_force(|state| assert!(state.is_poisoned()));
        });
        once.call_once(|| unreachable!());
    });
}

#[test]
fn waiters_are_cancelled_and_the_initialiser_goes_on() {
    on_each(|| {
        let (once, step) = (Arc::new(Once::new()), Arc::new(AtomicUsize::new(0)));
        let (its, says) = (once.clone(), step.clone());
        let does = spawn(move || {
            its.call_once(|| {
                says.store(1, SeqCst);
                while says.load(SeqCst) == 1 {
                    sleep(MILLI);
                }
            });
            sleep(HOUR);
        });
        wait_until("the initialiser runs", || step.load(SeqCst) == 1);
        let its = once.clone();
        let waits = spawn(move || its.call_once(|| unreachable!()));
        assert_eq!(timeout(2 * MILLI, || once.wait()), Err(Elapsed));
        waits.cancel();
        assert!(waits.join().unwrap_err().is::<Cancelled>());
        assert_eq!(once.state(), OnceState::InProgress);
        let its = once.clone();
        let forces = spawn(move || its.call_once_force(|_| unreachable!()));
        does.cancel();
        sleep(2 * MILLI);
        assert_eq!(once.state(), OnceState::InProgress, "a cancellation does not end the initialiser");
        step.store(2, SeqCst);
        assert!(does.join().unwrap_err().is::<Cancelled>(), "it ends the next wait");
        forces.join().unwrap();
        assert!(once.is_completed());
    });
}

/// A time-out, a context and the end of a runtime poison neither a `Once` nor a `LazyLock`.
#[test]
fn what_ends_the_first_user_poisons_nothing() {
    type Lazy = LazyLock<u32>;
    fn slow() -> Lazy {
        LazyLock::new(|| {
            sleep(3 * MILLI);
            7
        })
    }
    in_each(|| {
        let (lazy, once) = (slow(), Once::new());
        assert_eq!(timeout(MILLI, || *lazy), Ok(7));
        assert!(timeout(MILLI, || once.call_once(|| sleep(3 * MILLI))).is_ok() && once.is_completed());
        // After the value is made, the time-out ends the next wait.
        let lazy = slow();
        assert_eq!(timeout(MILLI, || sleep(HOUR + *lazy * MILLI)), Err(Elapsed));
        assert_eq!(*lazy, 7);
        let (lazy, (context, _cancel)) = (slow(), Context::background().with_timeout(MILLI));
        assert!(matches!(context.run(|| *lazy), Ok(7)));
        // A time-out in the closure works, and its panic poisons.
        let lazy: Lazy = LazyLock::new(|| timeout(MILLI, || sleep(HOUR)).map_or(8, |()| 9));
        assert_eq!(timeout(HOUR, || *lazy), Ok(8));
        let (context, cancel) = Context::background().with_cancel();
        cancel.cancel();
        let lazy = LazyLock::new(|| if context.run(|| sleep(HOUR)).is_err() { 8 } else { 9 });
        assert_eq!(timeout(MILLI, || *lazy), Ok(8));
    });
    for procs in tests::PROCS {
        let (lazy, begun) = (Arc::new(slow()), Arc::new(AtomicUsize::new(0)));
        tests::with(procs, |runtime| {
            let (its, begins) = (lazy.clone(), begun.clone());
            drop(runtime.spawn(move || {
                begins.store(1, SeqCst);
                **its
            }));
            wait_until("it has begun", || begun.load(SeqCst) == 1);
            std::thread::sleep(MILLI);
        });
        assert_eq!(LazyLock::get(&lazy), Some(&7));
    }
}

#[test]
fn a_once_lock_is_initialised_once() {
    in_each(|| {
        let (value, runs) = (OnceLock::new(), AtomicUsize::new(0));
        assert_eq!(format!("{value:?}"), "OnceLock(<uninit>)");
        crowd(10, 4, |i| {
            let got = match i {
                0 => *value.wait(),
                _ => *value.get_or_init(|| {
                    runs.fetch_add(1, SeqCst);
                    sleep(MILLI);
                    i
                }),
            };
            assert_eq!(value.get(), Some(&got));
            assert_eq!(value.set(99), Err(99));
        });
        assert_eq!(runs.into_inner(), 1);
        let made = *value.get().unwrap();
        assert_eq!(format!("{value:?}"), format!("OnceLock({made})"));
        assert_eq!(value.clone(), value);
        assert_ne!(value, OnceLock::default());
        let mut value = value;
        *value.get_mut().unwrap() = 5;
        assert_eq!((value.take(), value.take(), value.into_inner()), (Some(5), None, None));
    });
}

#[test]
fn a_once_lock_is_initialised_after_a_failure() {
    quiet_panics_on_purpose();
    on_each(|| {
        let value = Arc::new(OnceLock::new());
        assert!(catch_unwind(AssertUnwindSafe(|| value.get_or_init(|| panic!("{ON_PURPOSE}")))).is_err());
        assert_eq!(value.get(), None);
        let (its, (begins, begun)) = (value.clone(), runtime::channel::bounded(1));
        let cancelled = spawn(move || {
            its.get_or_init(|| {
                begins.send(()).unwrap();
                sleep(HOUR);
                1
            });
        });
        let its = value.clone();
        begun.recv().unwrap();
        let next = spawn(move || *its.get_or_init(|| 2));
        yield_now();
        cancelled.cancel();
        assert!(cancelled.join().unwrap_err().is::<Cancelled>());
        assert_eq!(next.join().unwrap(), 2);
    });
}

#[test]
fn a_lazy_lock_is_initialised_once() {
    quiet_panics_on_purpose();
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<usize> = LazyLock::new(|| COUNT.fetch_add(1, SeqCst) + 7);
    in_each(|| {
        crowd(8, 4, |_| assert_eq!(*LAZY, 7));
        let lazy = LazyLock::new(|| {
            sleep(MILLI);
            String::from("made")
        });
        assert_eq!(format!("{lazy:?}"), "LazyLock(<uninit>)");
        crowd(6, 2, |_| assert_eq!(lazy.as_str(), "made"));
        assert_eq!(format!("{lazy:?}"), "LazyLock(\"made\")");
        let mut lazy = lazy;
        lazy.push('!');
        assert_eq!(LazyLock::get(&lazy).unwrap(), "made!");
        assert_eq!(*LazyLock::<u32>::default(), 0);
        let fails: LazyLock<u32> = LazyLock::new(|| panic!("{ON_PURPOSE}"));
        assert!(catch_unwind(AssertUnwindSafe(|| *fails)).is_err());
        let panic = catch_unwind(AssertUnwindSafe(|| *fails)).unwrap_err();
        assert_eq!(text(panic), "LazyLock instance has previously been poisoned");
    });
    assert_eq!(COUNT.load(SeqCst), 1);
}
