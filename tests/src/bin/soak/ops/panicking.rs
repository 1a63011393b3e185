//! Panics: each reaches its joiner only, and a wait during unwinding affects no other thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use runtime::thread;
use runtime::time::sleep_async;
use tests::{ON_PURPOSE, OnDrop};

use crate::actor::{Actor, Child, not_before};

/// Runs `f`. Returns its value, or the text of its panic. A cancellation or a time-out unwinds further.
pub(super) fn catch<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    let panic = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(value) => return Ok(value),
        Err(panic) => panic,
    };
    match panic.downcast::<String>() {
        Ok(text) => Err(*text),
        Err(panic) => match panic.downcast::<&str>() {
            Ok(text) => Err(text.to_string()),
            Err(panic) => resume_unwind(panic),
        },
    }
}

pub(super) fn is_on_purpose(panic: &(dyn Any + Send)) -> bool {
    panic.downcast_ref::<String>().is_some_and(|text| text.contains(ON_PURPOSE))
}

fn has_panicked<T>(child: Child<T>) {
    match child.join() {
        Ok(_) => panic!("a panic was lost"),
        Err(panic) => assert!(is_on_purpose(&*panic)),
    }
}

pub(super) fn in_a_task(a: &mut Actor) {
    let (token, number) = (a.token(), a.random.number());
    let child: Child<()> = match a.number(0..3) {
        0 => a.spawn(move |b| {
            let _token = token;
            b.pause();
            panic!("{ON_PURPOSE} {number}");
        }),
        1 => a.spawn_async(move |_b| async move {
            let _token = token;
            sleep_async(Duration::from_micros(number % 100)).await;
            panic!("{ON_PURPOSE} {number}")
        }),
        _ => a.spawn(move |_b| {
            let _token = token;
            resume_unwind(Box::new(format!("{ON_PURPOSE} {number}")));
        }),
    };
    let panic = child.join().expect_err("the child has panicked");
    let text = panic.downcast::<String>().expect("its payload");
    assert_eq!(*text, format!("{ON_PURPOSE} {number}"));
}

/// Destructors park in several ways during a panic. The count of panics, which std keeps per OS thread,
/// follows the thread.
pub(super) fn parks_while_unwinding(a: &mut Actor) {
    let child = a.spawn(|b| {
        let ways = b.random.number();
        let _waits = OnDrop(|| {
            assert!(thread::panicking());
            (0..3).for_each(|i| waits(b, ways >> (8 * i)));
            assert!(thread::panicking(), "the thread has lost its count of panics");
        });
        panic!("{ON_PURPOSE}");
    });
    assert!(!thread::panicking(), "the panic of another thread");
    has_panicked::<()>(child);
    assert!(!thread::panicking(), "the panic of another thread");
}

/// Waits in a random way that ends by itself. No cancellation or time-out ends the wait of a thread that
/// unwinds.
fn waits(a: &mut Actor, way: u64) {
    let time = a.micros(200);
    match way % 8 {
        0 => not_before(time, || runtime::sleep(time)),
        1 => a.world.clone().desk.ask(a),
        2 => drop(a.spawn(|b| b.pause()).ended()),
        3 => thread::yield_now(),
        4 => runtime::blocking(|| std::thread::sleep(time)),
        5 => a.block_on(sleep_async(time)),
        6 => thread::park_timeout(time),
        _ => drop(tests::spin(time)),
    }
}

/// A result that is never taken, with a destructor that panics, or a panic payload that is never taken.
pub(super) fn of_an_unwanted_result(a: &mut Actor) {
    let token = a.token();
    if a.one_in(2) {
        let child = a.spawn(|b| {
            b.pause();
            resume_unwind(Box::new(token));
        });
        return child.detach();
    }
    let child = a.spawn(|b| {
        b.pause();
        OnDrop(move || {
            let _ = &token;
            if !thread::panicking() {
                panic!("{ON_PURPOSE}: a result");
            }
        })
    });
    // If the thread has ended, the result is dropped here, and panics here.
    let text = catch(|| child.detach()).err();
    assert!(text.is_none_or(|text| text.starts_with(ON_PURPOSE)));
}

/// A foreign waker that panics at times. Its panic must not stop timers or other threads.
pub(super) fn in_a_waker(a: &mut Actor) {
    struct Unparks {
        waiter: thread::Thread,
        panics: bool,
    }
    impl Wake for Unparks {
        fn wake(self: Arc<Self>) {
            self.waiter.unpark();
            if self.panics {
                panic!("{ON_PURPOSE}: a waker");
            }
        }
    }
    let waker = Waker::from(Arc::new(Unparks { waiter: thread::current(), panics: a.one_in(1000) }));
    let time = a.micros(300);
    not_before(time, || {
        let mut sleep = std::pin::pin!(sleep_async(time));
        while sleep.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            thread::park();
        }
    });
}

/// After a caught panic, the thread is not panicking.
pub(super) fn caught(a: &mut Actor) {
    let text: Result<(), _> = catch(|| {
        a.anything();
        panic!("{ON_PURPOSE}: caught");
    });
    assert_eq!(text, Err(format!("{ON_PURPOSE}: caught")));
    a.anything();
    assert!(!thread::panicking());
}
