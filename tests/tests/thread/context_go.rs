//! `runtime::context`: causes, `after_func` and `without_cancel`, as Go's documentation has them.

use std::error::Error;
use std::io;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runtime::channel::{RecvTimeoutError, TryRecvError, unbounded};
use runtime::context::{Context, ContextError, Ended};
use runtime::thread;
use tests::{Drops, Random, everywhere, on_each, quiet_panics_on_purpose, wait_until, with};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

#[track_caller]
fn cause_is(context: &Context, text: &str) {
    assert_eq!(context.cause().expect("the context is over").to_string(), text);
}

#[track_caller]
fn cause_is_the_error(context: &Context, error: ContextError) {
    assert_eq!(context.err(), Some(error));
    assert_eq!(context.cause().expect("the context is over").downcast_ref(), Some(&error));
}

#[test]
fn the_cause_is_what_the_first_end_was_given() {
    everywhere(|| {
        let (context, cancel) = Context::background().with_cancel_cause();
        assert!(context.cause().is_none());
        cancel.cancel(io::Error::from(io::ErrorKind::BrokenPipe));
        cancel.cancel("a second cause");
        assert_eq!(context.err(), Some(ContextError::Canceled));
        let cause = context.cause().unwrap();
        assert_eq!(cause.downcast_ref::<io::Error>().unwrap().kind(), io::ErrorKind::BrokenPipe);
        drop(cancel);
        cause_is(&context, "broken pipe");
        assert!(Context::background().cause().is_none());
    });
}

#[test]
fn without_a_cause_the_cause_is_the_error() {
    everywhere(|| {
        let (context, cancel) = Context::background().with_cancel_cause();
        drop(cancel);
        cause_is_the_error(&context, ContextError::Canceled);
        let (context, cancel) = Context::background().with_timeout_cause(HOUR, "too late");
        cancel.cancel();
        cause_is_the_error(&context, ContextError::Canceled);
        let (context, _c) = Context::background().with_timeout(Duration::ZERO);
        cause_is_the_error(&context, ContextError::DeadlineExceeded);
    });
}

#[test]
fn children_have_the_cause_of_the_first_end_above_them() {
    everywhere(|| {
        let (parent, cancel) = Context::background().with_cancel_cause();
        let (child, cancel_child) = parent.with_cancel_cause();
        let (timed, _t) = parent.with_value(1u8).with_timeout_cause(HOUR, "the time of the child");
        let (own, cancel_own) = parent.with_cancel_cause();
        cancel_own.cancel("its own");
        cancel.cancel("the parent's");
        cancel_child.cancel("too late");
        for context in [&parent, &child, &timed, &timed.with_value(2u8)] {
            cause_is(context, "the parent's");
            assert_eq!(context.err(), Some(ContextError::Canceled));
        }
        cause_is(&own, "its own");
        // Made below a context that is over.
        cause_is(&parent.with_cancel().0, "the parent's");
        cause_is(&parent.with_timeout_cause(Duration::ZERO, "late").0, "the parent's");
    });
}

#[test]
fn a_deadline_has_its_cause_unless_a_parent_is_earlier() {
    everywhere(|| {
        let soon = Instant::now() + 3 * MILLI;
        let (parent, _p) = Context::background().with_deadline_cause(soon, "the parent's");
        let (child, _c) = parent.with_deadline_cause(soon + HOUR, "the child's");
        assert_eq!(child.deadline(), Some(soon));
        assert!(child.done().recv().is_err());
        assert_eq!(child.err(), Some(ContextError::DeadlineExceeded));
        cause_is(&child, "the parent's");
        let (late, _l) = Context::background().with_deadline_cause(Instant::now(), "past");
        cause_is(&late, "past");
        let (never, _n) = Context::background().with_timeout_cause(Duration::MAX, "never");
        assert!(never.cause().is_none() && never.deadline().is_none());
    });
}

#[test]
fn without_cancel_keeps_values_alone() {
    everywhere(|| {
        let (parent, cancel) = Context::background().with_value("value").with_timeout(HOUR);
        let kept = parent.without_cancel();
        let (below, cancel_below) = kept.with_cancel();
        cancel.cancel();
        for context in [&kept, &below, &parent.without_cancel()] {
            assert_eq!((context.err(), context.deadline(), context.value()), (None, None, Some(&"value")));
            assert_eq!(context.done().try_recv(), Err(TryRecvError::Empty));
            assert!(context.cause().is_none());
        }
        cancel_below.cancel();
        assert_eq!((below.err(), kept.err()), (Some(ContextError::Canceled), None));
        assert_eq!(kept.run(|| 7).unwrap(), 7);
    });
}

#[test]
fn after_func_runs_once_on_a_green_thread_of_its_own() {
    everywhere(|| {
        let (context, cancel) = Context::background().with_cancel();
        let (s, r) = unbounded();
        let (first, second) = (s.clone(), s.clone());
        let watched = context.clone();
        let stop = context.after_func(move || first.send((thread::current().id(), watched.err())).unwrap());
        // Dropping what `after_func` returns changes nothing.
        drop(
            context.with_value(1u8).after_func(move || second.send((thread::current().id(), None)).unwrap()),
        );
        assert_eq!(r.recv_timeout(MILLI), Err(RecvTimeoutError::Timeout));
        cancel.cancel();
        let (one, other) = (r.recv().unwrap(), r.recv().unwrap());
        assert_ne!(one.0, other.0);
        assert!([one, other].iter().all(|&(id, _)| id != thread::current().id()));
        assert!([one, other].iter().any(|&(_, error)| error == Some(ContextError::Canceled)));
        assert!(!stop.stop(), "it has run");
        // The context is over: the function starts at once.
        let stop = context.after_func(move || s.send((thread::current().id(), None)).unwrap());
        assert_ne!(r.recv().unwrap().0, thread::current().id());
        assert!(!stop.stop());
        drop(context);
        assert!(r.recv().is_err(), "every function was dropped");
    });
}

#[test]
fn a_stopped_function_does_not_run() {
    everywhere(|| {
        let drops = Drops::default();
        let (context, cancel) = Context::background().with_timeout(HOUR);
        let stops: Vec<_> = (1..=1000)
            .map(|n| {
                let token = drops.token();
                let stop = context.after_func(move || {
                    let _token = token;
                    unreachable!("it was stopped");
                });
                assert!(stop.stop());
                assert_eq!(drops.count(), n, "stopping drops the function");
                assert!(!stop.stop());
                stop
            })
            .collect();
        cancel.cancel();
        assert!(stops.iter().all(|stop| !stop.stop()));
        // A context that never ends.
        assert!(!Context::background().after_func(|| unreachable!("the root never ends")).stop());
    });
}

#[test]
fn stop_tells_exactly_whether_the_function_runs() {
    on_each(|| {
        let mut random = Random::new(5);
        let (runs, mut stopped) = (Arc::new(AtomicUsize::new(0)), 0);
        for _ in 0..300 {
            let (context, cancel) = Context::background().with_cancel();
            let runs = runs.clone();
            let stop = context.after_func(move || _ = runs.fetch_add(1, SeqCst));
            let canceller = runtime::spawn(move || cancel.cancel());
            (0..random.below(30)).for_each(|_| std::hint::spin_loop());
            if random.below(2) == 0 {
                thread::yield_now();
            }
            stopped += usize::from(stop.stop());
            canceller.join().unwrap();
        }
        wait_until("each function that was not stopped has run", || runs.load(SeqCst) + stopped == 300);
        runtime::sleep(MILLI);
        assert_eq!(runs.load(SeqCst) + stopped, 300);
    });
}

#[test]
fn a_panic_in_a_function_spares_the_canceller_and_the_others() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let (context, cancel) = Context::background().with_cancel();
        let (s, r) = unbounded();
        for i in 0..10 {
            let s = s.clone();
            context.after_func(move || {
                assert!(i % 2 == 0, "{}", tests::ON_PURPOSE);
                s.send(i).unwrap();
            });
        }
        drop(s);
        cancel.cancel();
        let mut ran: Vec<_> = r.iter().collect();
        ran.sort_unstable();
        assert_eq!(ran, [0, 2, 4, 6, 8]);
    });
}

#[test]
fn a_function_whose_runtime_has_ended_runs_on_the_canceller() {
    quiet_panics_on_purpose();
    let (context, cancel) = Context::background().with_cancel();
    let ran = Arc::new(Mutex::new(Vec::new()));
    with(2, |runtime| {
        runtime.block_on(|| {
            let ran = ran.clone();
            context.after_func(move || ran.lock().unwrap().push(thread::current().id()));
            context.after_func(|| panic!("{}", tests::ON_PURPOSE));
        });
    });
    cancel.cancel();
    assert_eq!(*ran.lock().unwrap(), [thread::current().id()]);
}

/// A function that uses its own context, cancels another one, and registers a further function.
#[test]
fn functions_may_use_contexts() {
    on_each(|| {
        let (outer, cancel_outer) = Context::background().with_cancel();
        let (context, cancel) = Context::background().with_cancel_cause();
        let its = context.clone();
        context.after_func(move || {
            cause_is(&its, "first");
            its.after_func(move || cancel_outer.cancel());
        });
        cancel.cancel("first");
        assert!(outer.done().recv().is_err());
    });
}

#[test]
fn a_deadline_runs_functions_too() {
    everywhere(|| {
        let (context, _c) = Context::background().with_timeout_cause(2 * MILLI, "time");
        let (s, r) = unbounded();
        let its = context.with_cancel().0.without_cancel();
        let watched = context.clone();
        context.after_func(move || s.send((watched.cause().unwrap().to_string(), its.err())).unwrap());
        assert_eq!(r.recv(), Ok(("time".to_string(), None)));
    });
}

#[test]
fn ended_is_an_error_with_a_source() {
    let end = |cause: Option<&'static str>| -> Ended {
        let (context, cancel) = Context::background().with_cancel_cause();
        match cause {
            Some(cause) => cancel.cancel(cause),
            None => drop(cancel),
        }
        context.run(thread::park).unwrap_err()
    };
    let ended = end(Some("why"));
    assert_eq!(
        (ended.to_string().as_str(), ended.source().unwrap().to_string().as_str()),
        ("context canceled: why", "why")
    );
    let ended = end(None);
    assert_eq!(ended.to_string(), "context canceled");
    assert!(ended.source().is_none());
    assert_eq!(ContextError::from(ended.clone()), ContextError::Canceled);
    assert_eq!(io::Error::from(ended.clone()).kind(), io::ErrorKind::Other);
    let (late, _c) = Context::background().with_timeout(Duration::ZERO);
    let late = io::Error::from(late.run(thread::park).unwrap_err());
    assert_eq!(late.kind(), io::ErrorKind::TimedOut);
    assert!(late.get_ref().unwrap().is::<Ended>());
    // It can be passed on as a payload.
    let passed = catch_unwind(|| std::panic::resume_unwind(Box::new(ended))).unwrap_err();
    assert!(passed.is::<Ended>());
}
