//! `AbortHandle`, `JoinError`, and the payloads of cancellation and time-out in code that catches unwinding.

use std::any::Any;
use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use runtime::thread::{AbortHandle, Cancelled, JoinError, park};
use runtime::time::{Elapsed, sleep_async, timeout};
use runtime::{sleep, spawn};
use tests::{ON_PURPOSE, everywhere, on, on_each, panics_with, quiet_panics_on_purpose, until_it_waits};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

fn is_portable<T: Send + Sync + 'static>() {}

#[test]
fn each_clone_of_an_abort_handle_cancels() {
    everywhere(|| {
        for waits_first in [false, true] {
            let thread = spawn(|| sleep(HOUR));
            let handles: Vec<AbortHandle> = vec![thread.abort_handle(); 8];
            if waits_first {
                until_it_waits(&thread);
                assert!(!handles[0].is_finished());
            }
            let cancels: Vec<_> = handles.into_iter().map(|handle| spawn(move || handle.cancel())).collect();
            assert!(thread.join().unwrap_err().is::<Cancelled>());
            cancels.into_iter().for_each(|thread| thread.join().unwrap());
        }
    });
}

#[test]
fn an_abort_handle_outlives_its_thread_and_cancels_no_other() {
    on_each(|| {
        let handles: Vec<_> = (0..100)
            .map(|_| {
                let thread = spawn(|| ());
                let handle = thread.abort_handle();
                assert_eq!(handle.id(), thread.thread().id());
                thread.join().unwrap();
                handle
            })
            .collect();
        // The later green threads may lie where the ended ones lay.
        let later: Vec<_> = (0..100)
            .map(|i| {
                spawn(move || {
                    sleep(MILLI);
                    i
                })
            })
            .collect();
        for handle in &handles {
            assert!(handle.is_finished());
            handle.cancel();
        }
        assert!(later.into_iter().enumerate().all(|(i, thread)| thread.join().unwrap() == i));
    });
}

#[test]
fn an_abort_handle_cancels_futures_and_scoped_threads() {
    on_each(|| {
        let future = spawn(sleep_async(HOUR));
        future.abort_handle().cancel();
        assert!(future.join().unwrap_err().is::<Cancelled>());
        let text = String::from("borrowed");
        let handle = runtime::scope(|s| {
            let thread = s.spawn(|| {
                park();
                text.len()
            });
            let handle = thread.abort_handle();
            handle.cancel();
            assert!(thread.join().unwrap_err().is::<Cancelled>());
            handle
        });
        assert!(handle.is_finished());
    });
}

fn error_of<T: std::fmt::Debug + Send + 'static>(task: impl FnOnce() -> T + Send + 'static) -> JoinError {
    spawn(task).join().map_err(JoinError::from).unwrap_err()
}

#[test]
fn an_error_tells_a_panic_from_a_cancellation() {
    is_portable::<JoinError>();
    quiet_panics_on_purpose();
    on(2, || {
        let cancelled = error_of(|| resume_unwind(Box::new(Cancelled)) as ());
        assert!(cancelled.is_cancelled() && !cancelled.is_panic());
        assert_eq!(cancelled.to_string(), "the green thread was cancelled");
        assert_eq!(cancelled.try_into_panic().unwrap_err().to_string(), Cancelled.to_string());

        for (error, text) in [
            (error_of(|| panic!("{ON_PURPOSE}")), format!("the green thread panicked: {ON_PURPOSE}")),
            (error_of(|| panic!("{ON_PURPOSE} {}", 7)), format!("the green thread panicked: {ON_PURPOSE} 7")),
        ] {
            assert!(error.is_panic() && !error.is_cancelled());
            assert_eq!(error.to_string(), text);
            assert!(format!("{error:?}").contains(ON_PURPOSE));
        }
        let odd = error_of(|| resume_unwind(Box::new(7u8)) as ());
        assert_eq!(odd.to_string(), "the green thread panicked");
        assert_eq!(*odd.into_panic().downcast::<u8>().unwrap(), 7);
    });
    panics_with("did not panic", || JoinError::from(Cancelled).into_panic());
}

#[test]
fn the_question_mark_makes_the_error() {
    fn joined() -> Result<(), Box<dyn Error + Send + Sync>> {
        let thread = spawn(park);
        thread.cancel();
        Ok(thread.join().map_err(JoinError::from)?)
    }
    assert!(joined().unwrap_err().downcast_ref::<JoinError>().unwrap().is_cancelled());
    let error = std::io::Error::from(JoinError::from(Cancelled));
    assert!(error.get_ref().unwrap().is::<JoinError>());
    let (cancelled, elapsed): (Box<dyn Error>, Box<dyn Error>) = (Box::new(Cancelled), Box::new(Elapsed));
    assert_ne!(cancelled.to_string(), elapsed.to_string());
}

fn caught<T>(f: impl FnOnce() -> T) -> Box<dyn Any + Send> {
    catch_unwind(AssertUnwindSafe(f)).map(drop).unwrap_err()
}

#[test]
fn a_wait_after_a_swallowed_time_out_unwinds_again() {
    everywhere(|| {
        let result = timeout(MILLI, || {
            assert!(caught(|| sleep(HOUR)).is::<Elapsed>());
            assert!(caught(park).is::<Elapsed>());
            sleep(HOUR);
        });
        assert_eq!(result, Err(Elapsed));
        assert_eq!(timeout(MILLI, || drop(caught(|| sleep(HOUR)))), Ok(()), "its value counts, however late");
        assert_eq!(timeout(MILLI, || resume_unwind(caught(|| sleep(HOUR))) as ()), Err(Elapsed));
        sleep(MILLI);
    });
}

#[test]
fn a_panic_with_a_payload_of_time_outs_is_a_panic() {
    let error = error_of(|| resume_unwind(Box::new(Elapsed)) as ());
    assert!(error.is_panic() && error.into_panic().is::<Elapsed>());
    // Its time is not up, so it is not the end of this time-out.
    assert!(caught(|| timeout(HOUR, || resume_unwind(Box::new(Elapsed)) as ())).is::<Elapsed>());
}
