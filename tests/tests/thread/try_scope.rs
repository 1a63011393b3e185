//! `try_scope`: the first error is returned, cancels the others, and all are joined.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::thread::{Builder, Cancelled, park};
use runtime::time::{Elapsed, timeout};
use runtime::{channel, sleep, spawn, try_scope};
use tests::{
    Drops, ON_PURPOSE, OnDrop, everywhere, on, on_each, panics_with, quiet_panics_on_purpose, until_it_waits,
};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

/// Waits until it is cancelled.
fn parks<E>() -> Result<u8, E> {
    park();
    Ok(0)
}

#[test]
fn values_come_back_and_borrows_hold() {
    everywhere(|| {
        let words = ["1", "20", "300"].map(String::from);
        let sum = try_scope(|s| {
            let numbers: Vec<_> = words.iter().map(|word| s.spawn(|| word.parse::<i32>())).collect();
            let last = s.spawn(async { words[2].parse::<i32>() });
            Ok::<_, std::num::ParseIntError>(numbers.into_iter().map(|n| n.join()).sum::<i32>() + last.join())
        });
        assert_eq!(sum, Ok(621));
    });
}

#[test]
fn the_first_error_ends_the_others_and_is_returned() {
    everywhere(|| {
        let drops = Drops::default();
        for round in 0..20 {
            let tokens: Vec<_> = (0..10).map(|_| drops.token()).collect();
            let result = try_scope(|s| {
                for (i, token) in tokens.into_iter().enumerate() {
                    s.spawn(move || {
                        let _token = token;
                        match i % 3 {
                            0 => sleep(HOUR),
                            1 => park(),
                            _ => runtime::block_on(pending()),
                        }
                        Ok(())
                    });
                }
                s.spawn(pending::<Result<(), &str>>());
                s.spawn(move || {
                    if round % 2 == 0 {
                        sleep(MILLI);
                    }
                    Err::<(), _>("first")
                });
                Ok(7)
            });
            assert_eq!(result, Err("first"));
            assert_eq!(drops.alive(), 0, "all are joined");
        }
    });
}

#[test]
fn one_of_many_errors_is_returned_and_each_is_dropped_once() {
    on_each(|| {
        let drops = Drops::default();
        for _ in 0..20 {
            let error = try_scope(|s| {
                (0..20).for_each(|_| drop(s.spawn(|| Err::<(), _>(drops.token()))));
                Err::<(), _>(drops.token())
            });
            assert!(error.is_err());
            assert_eq!(drops.alive(), 1, "the one that was returned");
        }
    });
}

#[test]
fn a_spawn_after_the_error_never_begins() {
    on_each(|| {
        let begun = AtomicUsize::new(0);
        let result = try_scope(|s| {
            let failed = s.spawn(|| Err::<(), _>("first"));
            while !failed.is_finished() {
                runtime::yield_now();
            }
            for _ in 0..10 {
                s.spawn(|| {
                    sleep(HOUR);
                    begun.fetch_add(1, SeqCst);
                    Ok(())
                });
            }
            Ok(())
        });
        assert_eq!((result, begun.load(SeqCst)), (Err("first"), 0));
    });
}

#[test]
fn an_error_of_the_caller_ends_the_others() {
    everywhere(|| {
        let result = try_scope(|s| {
            s.spawn(|| {
                sleep(HOUR);
                Ok(())
            });
            Err::<(), _>("of the caller")
        });
        assert_eq!(result, Err("of the caller"));
    });
}

#[test]
fn a_join_without_a_value_ends_the_joiner() {
    everywhere(|| {
        let result = try_scope(|s| {
            let failed = s.spawn(|| Err::<u8, _>("first"));
            let joins = s.spawn(move || Ok(failed.join()));
            let awaits = s.spawn(async move { Ok(joins.await) });
            Ok(awaits.join())
        });
        assert_eq!(result, Err("first"));
    });
}

#[test]
fn a_panic_ends_the_others_and_goes_on() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let drops = Drops::default();
        let token = || drops.token();
        panics_with("a scoped thread panicked", || {
            try_scope(|s| {
                let token = token();
                s.spawn(move || {
                    let _token = token;
                    sleep(HOUR);
                    Ok::<_, ()>(())
                });
                s.spawn(|| -> Result<(), ()> { panic!("{ON_PURPOSE}") });
                Ok(())
            })
        });
        panics_with(ON_PURPOSE, || {
            try_scope(|s| Ok::<_, ()>(s.spawn(|| -> Result<u8, ()> { panic!("{ON_PURPOSE}") }).join()))
        });
        panics_with(ON_PURPOSE, || {
            try_scope(|s| -> Result<(), ()> {
                let token = token();
                s.spawn(move || {
                    let _token = token;
                    parks()
                });
                panic!("{ON_PURPOSE}")
            })
        });
        assert_eq!(drops.alive(), 0);
    });
}

#[test]
fn a_cancelled_caller_ends_the_scope() {
    on_each(|| {
        let drops = Drops::default();
        for joins in [true, false] {
            let token = drops.token();
            let caller = spawn(move || {
                try_scope(|s| {
                    let thread = s.spawn(move || {
                        let _end = OnDrop(|| sleep(MILLI));
                        let _token = token;
                        parks::<()>()
                    });
                    Ok(joins && thread.join() == 0)
                })
            });
            until_it_waits(&caller);
            caller.cancel();
            assert!(caller.join().unwrap_err().is::<Cancelled>());
            assert_eq!(drops.alive(), 0);
        }
    });
}

#[test]
fn a_time_out_ends_the_scope() {
    everywhere(|| {
        let result = timeout(MILLI, || {
            try_scope(|s| {
                let thread = s.spawn(parks::<()>);
                Ok(thread.join())
            })
        });
        assert_eq!(result, Err(Elapsed));
        let result = timeout(MILLI, || try_scope(|s| Ok::<_, ()>(s.spawn(parks).is_finished())));
        assert_eq!(result, Err(Elapsed));
    });
}

#[test]
fn a_member_that_is_cancelled_alone_ends_who_joins_it() {
    on(2, || {
        let result = try_scope(|s| {
            let thread = s.spawn(parks::<()>);
            thread.abort_handle().cancel();
            Ok(7)
        });
        assert_eq!(result, Ok(7), "nothing joins it");
        let payload = catch_unwind(AssertUnwindSafe(|| {
            try_scope(|s| {
                let thread = s.spawn(parks::<()>);
                thread.abort_handle().cancel();
                Ok(thread.join())
            })
        }))
        .unwrap_err();
        assert!(payload.is::<Cancelled>() && !runtime::thread::cancelled());
        let payload = catch_unwind(|| try_scope(|_| -> Result<(), ()> { resume_unwind(Box::new(7u8)) }));
        assert!(payload.unwrap_err().is::<u8>());
    });
}

#[test]
fn scopes_nest_and_each_ends_its_own() {
    on_each(|| {
        let (tell, told) = channel::bounded::<()>(1);
        let result = try_scope(|outer| {
            let waits = outer.spawn(|| Ok(told.recv().is_ok()));
            outer.spawn(|| {
                let inner = try_scope(|s| {
                    s.spawn(parks);
                    s.spawn(|| Err::<(), _>("inner"));
                    Ok(())
                });
                assert_eq!(inner, Err("inner"));
                tell.send(()).unwrap();
                Ok::<_, &str>(())
            });
            Ok(waits.join())
        });
        assert_eq!(result, Ok(true), "the outer scope goes on");
    });
}

#[test]
fn a_builder_names_a_thread_and_reports_what_cannot_start() {
    on(2, || {
        let result = try_scope(|s| {
            assert!(Builder::new().stack_size(1).try_spawn_scoped(s, || Ok::<(), ()>(())).is_err());
            let named = Builder::new().name("named".into());
            let name = named.try_spawn_scoped(s, || Ok(runtime::thread::current().name().map(String::from)));
            Ok::<_, ()>(name.unwrap().join())
        });
        assert_eq!(result, Ok(Some("named".into())));
    });
}

#[test]
fn an_error_ends_a_spawn_that_waits_for_the_limit() {
    everywhere(|| {
        let result = try_scope(|s| {
            s.set_limit(2);
            s.spawn(parks);
            s.spawn(|| {
                sleep(MILLI);
                Err::<u8, _>("first")
            });
            // Both wait for a place, which the cancellation of the others frees.
            s.spawn(parks);
            s.spawn(parks);
            Ok(())
        });
        assert_eq!(result, Err("first"));
    });
}
