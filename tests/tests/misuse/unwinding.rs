//! Destructors: they may make any call, and wait, during a panic, a cancellation or a time-out, and at the
//! end of a thread.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use runtime::thread::Cancelled;
use runtime::time::{sleep_async, timeout};
use runtime::{spawn, thread};
use tests::{ON_PURPOSE, OnDrop, calls, everywhere, on, on_each, quiet_panics_on_purpose, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// Returns a value with a destructor that calls `call` and then increments `done`.
fn calls_when_dropped(call: fn(), done: &Arc<AtomicUsize>) -> impl Send + 'static {
    let done = done.clone();
    OnDrop(move || {
        call();
        done.fetch_add(1, SeqCst);
    })
}

/// Checks that each call returns in a destructor. `unwinds` drops a value of [`calls_when_dropped`] in the
/// way under test.
fn each_call(unwinds: impl Fn(fn(), &Arc<AtomicUsize>)) {
    quiet_panics_on_purpose();
    let done = Arc::new(AtomicUsize::new(0));
    for (i, (name, call)) in calls::everything().enumerate() {
        println!("{name}");
        unwinds(call, &done);
        assert_eq!(done.load(SeqCst), i + 1, "{name} did not return");
    }
}

#[test]
fn destructors_during_a_panic() {
    everywhere(|| {
        each_call(|call, done| {
            let value = calls_when_dropped(call, done);
            let panicked = catch_unwind(AssertUnwindSafe(move || {
                let _value = value;
                panic_any(ON_PURPOSE);
            }));
            assert!(panicked.unwrap_err().is::<&str>() && !std::thread::panicking());
        });
    });
}

#[test]
fn destructors_during_a_timeout() {
    everywhere(|| {
        each_call(|call, done| {
            let value = calls_when_dropped(call, done);
            let ended = timeout(MILLI, move || {
                let _value = value;
                runtime::sleep(HOUR);
            });
            assert!(ended.is_err() && !std::thread::panicking());
        });
    });
}

fn is_cancelled_when(begun: &AtomicBool, thread: thread::JoinHandle<()>) {
    wait_until("the thread has begun", || begun.load(SeqCst));
    thread.cancel();
    assert!(thread.join().unwrap_err().is::<Cancelled>());
}

#[test]
fn destructors_during_a_cancellation() {
    on_each(|| {
        each_call(|call, done| {
            let (value, begun) = (calls_when_dropped(call, done), Arc::new(AtomicBool::new(false)));
            let begins = begun.clone();
            let thread = spawn(move || {
                let _value = value;
                begins.store(true, SeqCst);
                runtime::sleep(HOUR);
            });
            is_cancelled_when(&begun, thread);
        });
    });
}

/// A cancelled future is dropped between two polls, without unwinding.
#[test]
fn destructors_of_a_cancelled_future() {
    on_each(|| {
        each_call(|call, done| {
            let (value, begun) = (calls_when_dropped(call, done), Arc::new(AtomicBool::new(false)));
            let begins = begun.clone();
            let thread = spawn(async move {
                let _value = value;
                begins.store(true, SeqCst);
                sleep_async(HOUR).await;
            });
            is_cancelled_when(&begun, thread);
        });
    });
}

/// The captures of a thread that is cancelled before it begins.
#[test]
fn destructors_of_captures_that_are_cancelled_before_the_start() {
    with(1, |runtime| {
        runtime.block_on(|| {
            each_call(|call, done| {
                let before = done.load(SeqCst);
                for future in [false, true] {
                    // If sysmon took the P at that moment, the thread has begun, and the loop tries another.
                    while !never_begins(future, call, done) {}
                    assert_eq!(done.swap(before, SeqCst), before + 1);
                }
                done.store(before + 1, SeqCst);
            });
        });
    });
}

/// Spawns a thread and cancels it at once. Returns `true` if the thread had not begun.
fn never_begins(future: bool, call: fn(), done: &Arc<AtomicUsize>) -> bool {
    let before = done.load(SeqCst);
    let (value, begun) = (calls_when_dropped(call, done), Arc::new(AtomicBool::new(false)));
    let begins = begun.clone();
    let begin = move || {
        begins.store(true, SeqCst);
        drop(value);
    };
    let never = if future { spawn(async move { begin() }) } else { spawn(begin) };
    never.cancel();
    let ended = never.join();
    if begun.load(SeqCst) {
        done.store(before, SeqCst);
        return false;
    }
    assert!(ended.unwrap_err().is::<Cancelled>());
    true
}

#[test]
fn destructors_of_a_ready_future_and_of_its_result() {
    struct Ready<T>(T, Option<T>);
    impl<T: Unpin> Future for Ready<T> {
        type Output = T;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<T> {
            Poll::Ready(self.1.take().unwrap())
        }
    }
    on_each(|| {
        each_call(|call, done| {
            let (mine, result) = (calls_when_dropped(call, done), calls_when_dropped(call, done));
            let before = done.load(SeqCst);
            // Without a handle, the green thread itself drops both.
            drop(spawn(Ready(Box::new(mine), Some(Box::new(result)))));
            wait_until("the future and its result are dropped", || done.load(SeqCst) == before + 2);
            done.fetch_sub(1, SeqCst);
        });
    });
}

/// Calls in a poll, which runs on a borrowed stack.
#[test]
fn calls_in_a_poll() {
    on_each(|| {
        each_call(|call, done| {
            let (polled, done) = (Arc::new(AtomicUsize::new(0)), done.clone());
            let polls = polled.clone();
            let calls = std::future::poll_fn(move |cx| {
                call();
                if polls.fetch_add(1, SeqCst) < 2 {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                done.fetch_add(1, SeqCst);
                Poll::Ready(7)
            });
            assert_eq!(spawn(calls).join().unwrap(), 7);
            assert_eq!(polled.load(SeqCst), 3);
        });
    });
}

#[test]
fn destructors_of_the_captures_of_a_refused_spawn() {
    everywhere(|| {
        each_call(|call, done| {
            let value = calls_when_dropped(call, done);
            let refused = thread::Builder::new().stack_size(1).spawn(move || drop(value));
            assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
        });
    });
}

/// A value of a thread-local of the runtime.
struct Last(RefCell<Option<Box<dyn Send>>>);

runtime::thread_local!(static LAST: Last = const { Last(RefCell::new(None)) });

#[test]
fn destructors_of_thread_locals_of_the_runtime() {
    for cancelled in [false, true] {
        on_each(|| {
            each_call(|call, done| {
                let (value, begun) = (calls_when_dropped(call, done), Arc::new(AtomicBool::new(false)));
                let begins = begun.clone();
                let thread = spawn(move || {
                    LAST.with(|last| last.0.replace(Some(Box::new(value))));
                    begins.store(true, SeqCst);
                    if cancelled {
                        runtime::sleep(HOUR);
                    }
                });
                wait_until("the thread has begun", || begun.load(SeqCst));
                if cancelled {
                    thread.cancel();
                }
                assert_eq!(thread.join().is_err(), cancelled);
            });
        });
    }
}

/// A time-out inside a destructor does not end its wait, because nothing may unwind. `timeout` returns the
/// closure's value.
#[test]
fn a_timeout_in_a_destructor_waits_while_the_thread_unwinds() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let slept = AtomicBool::new(false);
        let unwinds = catch_unwind(AssertUnwindSafe(|| {
            let _last = OnDrop(|| {
                let start = Instant::now();
                assert_eq!(timeout(MILLI, || runtime::sleep(3 * MILLI)), Ok(()));
                slept.store(start.elapsed() >= 3 * MILLI, SeqCst);
            });
            panic_any(ON_PURPOSE);
        }));
        assert!(unwinds.is_err() && slept.load(SeqCst));
    });
    // In a destructor that runs without unwinding, the time-out ends the wait.
    on_each(|| {
        let ended = Arc::new(AtomicBool::new(false));
        let ends = ended.clone();
        let value = OnDrop(move || ends.store(timeout(MILLI, || runtime::sleep(HOUR)).is_err(), SeqCst));
        let never = spawn(sleep_with(value));
        runtime::sleep(MILLI);
        never.cancel();
        assert!(never.join().is_err() && ended.load(SeqCst));
    });
}

async fn sleep_with<T>(value: T) {
    sleep_async(HOUR).await;
    drop(value);
}

#[test]
fn a_scope_in_a_destructor_is_not_cancelled_with_its_thread() {
    on_each(|| {
        for future in [false, true] {
            let (slept, begun) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (counts, begins) = (slept.clone(), begun.clone());
            let last = OnDrop(move || {
                runtime::scope(|s| {
                    for _ in 0..3 {
                        s.spawn(|| {
                            runtime::sleep(MILLI);
                            counts.fetch_add(1, SeqCst);
                        });
                    }
                });
            });
            let thread = match future {
                false => spawn(move || {
                    let _last = last;
                    begins.store(true, SeqCst);
                    runtime::sleep(HOUR);
                }),
                true => spawn(async move {
                    let _last = last;
                    begins.store(true, SeqCst);
                    sleep_async(HOUR).await;
                }),
            };
            is_cancelled_when(&begun, thread);
            assert_eq!(slept.load(SeqCst), 3);
        }
    });
}

/// Payloads that panic when they are dropped, repeatedly: each panic ends in the green thread where it began.
#[test]
fn panics_in_destructors_end_no_other_thread() {
    quiet_panics_on_purpose();
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                resume_unwind(Box::new(Bomb));
            }
        }
    }
    runtime::thread_local!(static BOMB: Bomb = const { Bomb });
    struct Ready {
        _mine: Bomb,
        result: Option<Bomb>,
    }
    impl Future for Ready {
        type Output = Bomb;
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Bomb> {
            Poll::Ready(self.result.take().unwrap())
        }
    }
    for procs in [1, 2] {
        on(procs, || {
            for i in 0..50 {
                match i % 5 {
                    // A result and a payload that no joiner takes.
                    0 => drop(spawn(|| Bomb)),
                    1 => drop(spawn(|| resume_unwind(Box::new(Bomb)))),
                    // A future with a destructor of its own that panics after its result is stored.
                    2 => drop(spawn(Ready { _mine: Bomb, result: Some(Bomb) })),
                    3 => drop(spawn(|| BOMB.with(|_| ()))),
                    // The captures of a thread that never began.
                    _ => {
                        let bomb = Bomb;
                        let never = spawn(move || std::mem::forget(bomb));
                        never.cancel();
                        std::mem::forget(never.join());
                    }
                }
            }
            assert_eq!(spawn(|| 7).join().unwrap(), 7);
            let handle = runtime::Handle::current();
            wait_until("all threads have ended", || handle.metrics().spawned == handle.metrics().ended + 1);
        });
    }
}

/// A pin guard that another thread drops unpins only the thread of the guard.
#[test]
fn a_pin_guard_dropped_by_another_thread() {
    std::thread_local!(static GUARDS: RefCell<Vec<thread::PinGuard>> = const { RefCell::new(Vec::new()) });
    let moved = Mutex::new(());
    on(1, || {
        // With a single P and threads that do not block, all threads run on the same OS thread.
        spawn(|| GUARDS.with(|guards| guards.borrow_mut().push(thread::pin()))).join().unwrap();
        let mine = thread::pin();
        GUARDS.with(|guards| guards.borrow_mut().clear());
        let _lock = moved.lock().unwrap();
        let here = tests::os_thread();
        for _ in 0..20 {
            spawn(|| tests::spin(MILLI));
            runtime::sleep(MILLI);
            assert_eq!(tests::os_thread(), here, "the guard of the ended thread has unpinned this thread");
        }
        drop(mine);
    });
}
