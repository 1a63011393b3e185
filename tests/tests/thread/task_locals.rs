//! `task_local!`: a value for a future or a closure, wherever it runs.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread as os;
use std::time::Duration;

use runtime::thread::{TaskLocal, TaskLocalError};
use runtime::time::sleep_async;
use runtime::{block_on, spawn, task_local, yield_now};
use tests::crowd::{crowd, in_each};
use tests::futures::poll_once;
use tests::quiet_panics_on_purpose;

task_local! {
    /// A key with a doc comment and a visibility.
    pub static NUMBER: usize;
    static WORD: RefCell<String>;
    #[allow(unused)]
    pub(crate) static NO_SEMICOLON: u8
}
task_local!();

fn number() -> Option<usize> {
    NUMBER.try_get().ok()
}

#[test]
fn each_closure_has_its_value_while_it_parks() {
    in_each(|| {
        crowd(8, 2, |i| {
            assert_eq!(number(), None);
            let sum = NUMBER.sync_scope(i, || {
                let mut sum = 0;
                for _ in 0..20 {
                    yield_now();
                    sum += NUMBER.get();
                    let inner = NUMBER.sync_scope(i + 100, || {
                        runtime::sleep(Duration::from_micros(10));
                        NUMBER.get()
                    });
                    assert_eq!(inner, i + 100);
                }
                sum
            });
            assert_eq!((sum, number()), (20 * i, None));
        });
    });
}

#[test]
fn each_future_has_its_value_across_awaits() {
    in_each(|| {
        let work = |i| async move {
            for _ in 0..10 {
                sleep_async(Duration::from_micros(10)).await;
                assert_eq!(NUMBER.get(), i);
                // A poll may park.
                yield_now();
                NUMBER.scope(i + 100, async { assert_eq!(NUMBER.get(), i + 100) }).await;
            }
            NUMBER.get()
        };
        let threads: Vec<_> = (0..8).map(|i| spawn(NUMBER.scope(i, work(i)))).collect();
        let together =
            block_on(async { futures::join!(NUMBER.scope(50, work(50)), NUMBER.scope(51, work(51))) });
        assert_eq!((together, number()), ((50, 51), None));
        for (i, thread) in threads.into_iter().enumerate() {
            assert_eq!(thread.join().unwrap(), i);
        }
    });
}

#[test]
fn the_value_goes_with_a_future_from_thread_to_thread() {
    let mut future = Box::pin(WORD.scope(RefCell::default(), async {
        for letter in ["a", "b", "c"] {
            WORD.with(|word| word.borrow_mut().push_str(letter));
            runtime::yield_now_async().await;
        }
        WORD.with(RefCell::take)
    }));
    for _ in 0..3 {
        let polled;
        (polled, future) = os::spawn(move || (block_on(poll_once(&mut future)), future)).join().unwrap();
        assert_eq!(polled, None);
        assert!(WORD.try_with(|_| {}).is_err(), "the value is in the future alone");
    }
    assert_eq!(spawn(future).join().unwrap(), "abc");
}

#[test]
fn a_thread_that_is_spawned_in_a_scope_has_no_value() {
    in_each(|| {
        NUMBER.sync_scope(1, || {
            assert_eq!(spawn(number).join().unwrap(), None);
            assert_eq!(spawn(async { number() }).join().unwrap(), None);
            assert_eq!(number(), Some(1));
        });
    });
}

#[test]
fn a_scope_ends_with_an_unwinding() {
    quiet_panics_on_purpose();
    in_each(|| {
        NUMBER.sync_scope(1, || {
            let panics = || NUMBER.sync_scope(2, || panic!("on purpose"));
            catch_unwind(panics).unwrap_err();
            assert_eq!(number(), Some(1));
            let future = NUMBER.scope(3, async { panic!("on purpose") });
            catch_unwind(AssertUnwindSafe(|| block_on(future))).unwrap_err();
            assert_eq!(number(), Some(1));
        });
        assert_eq!(number(), None);
    });
}

/// Notes the value of the key when it is dropped.
struct Notes(Arc<Mutex<Vec<Option<usize>>>>, bool);

impl Future for Notes {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        if self.1 { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        self.0.lock().unwrap().push(number());
    }
}

#[test]
fn a_future_is_dropped_with_its_value() {
    in_each(|| {
        let noted = Arc::new(Mutex::new(Vec::new()));
        let notes = |ends| Notes(noted.clone(), ends);
        block_on(NUMBER.scope(1, notes(true)));
        drop(NUMBER.scope(2, notes(false)));
        let cancelled = spawn(NUMBER.scope(3, notes(false)));
        cancelled.cancel();
        assert!(cancelled.join().is_err());
        let mut taken = Box::pin(NUMBER.scope(4, notes(false)));
        assert_eq!((taken.as_mut().take_value(), taken.as_mut().take_value()), (Some(4), None));
        drop(taken);
        assert_eq!(*noted.lock().unwrap(), [Some(1), Some(2), Some(3), None]);
    });
}

#[test]
fn a_scope_is_refused_while_the_value_is_used() {
    quiet_panics_on_purpose();
    in_each(|| {
        NUMBER.sync_scope(1, || {
            let nested = || NUMBER.with(|_| NUMBER.sync_scope(2, || ()));
            catch_unwind(nested).unwrap_err();
            let mut future = pin!(NUMBER.scope(3, async { NUMBER.get() }));
            let mut context = Context::from_waker(Waker::noop());
            let polled = || NUMBER.with(|_| future.as_mut().poll(&mut context));
            catch_unwind(AssertUnwindSafe(polled)).unwrap_err();
            assert_eq!(number(), Some(1));
            assert_eq!(block_on(future), 3, "the refused poll has changed nothing");
        });
    });
}

#[test]
fn outside_of_a_scope_there_is_no_value() {
    quiet_panics_on_purpose();
    let key: &'static TaskLocal<usize> = &NUMBER;
    let error: TaskLocalError = key.try_get().unwrap_err();
    assert_eq!(error.to_string(), "the task-local variable has no value here");
    catch_unwind(|| NUMBER.get()).unwrap_err();
    let future = NUMBER.scope(1, async {});
    assert_eq!(
        (format!("{key:?}"), format!("{future:?}")),
        ("TaskLocal { .. }".into(), "TaskLocalFuture { .. }".into())
    );
}
