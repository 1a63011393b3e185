//! Models of `pthread_once`.

use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;

use loom::thread;

use super::once;
use crate::models::helpers::{Guarded, Reached, explore, explore_lives};
use crate::models::waits::{Kind, be};
use crate::sync::atomic::AtomicU32;

loom::lazy_static! {
    /// What the first call makes.
    static ref MADE: Guarded = Guarded::default();
}

unsafe extern "C-unwind" fn make() {
    MADE.add();
}

/// What the first call unwinds with.
struct Ended;

unsafe extern "C-unwind" fn unwind() {
    resume_unwind(Box::new(Ended));
}

/// Calls `make`, if that has not been done.
fn call(variable: &AtomicU32) {
    // SAFETY: the variable lives, and the function has no requirements.
    assert_eq!(unsafe { once(variable.as_ptr().cast(), make) }, 0);
    assert_eq!(MADE.get(), 1);
}

/// Green threads and an OS thread: one makes the thing, and all see it made.
#[test]
fn one_thread_makes_it() {
    explore(2, || {
        let variable = Arc::new(AtomicU32::new(0));
        let others = [Kind::Green, Kind::Os].map(|kind| {
            let variable = variable.clone();
            thread::spawn(move || {
                be(kind);
                call(&variable);
            })
        });
        call(&variable);
        for other in others {
            other.join().unwrap();
        }
    });
}

/// The first call unwinds: one of the two that wait makes the thing, and the other one waits for that.
#[test]
fn the_next_one_makes_it_if_the_first_unwinds() {
    static UNWOUND: Reached = Reached::new();
    static CAME_LATE: Reached = Reached::new();
    explore(2, || {
        let variable = Arc::new(AtomicU32::new(0));
        let others = [(); 2].map(|()| {
            let variable = variable.clone();
            thread::spawn(move || call(&variable))
        });
        // SAFETY: the variable lives, and the function has no requirements.
        let ended = catch_unwind(|| unsafe { once(variable.as_ptr().cast(), unwind) });
        match ended {
            Ok(result) => assert_eq!(result, 0),
            Err(ref payload) => assert!(payload.is::<Ended>()),
        }
        UNWOUND.note(ended.is_err());
        CAME_LATE.note(ended.is_ok());
        for other in others {
            other.join().unwrap();
        }
    });
    UNWOUND.assert();
    CAME_LATE.assert();
}

/// A thread that finds the thing made by the other one frees the variable: the maker uses it no more.
#[test]
fn a_variable_may_go_once_it_is_done() {
    static FREED: Reached = Reached::new();
    explore_lives(3, || {
        let variable = Arc::new(AtomicU32::new(0));
        let last = variable.clone();
        let last = thread::spawn(move || {
            // SAFETY: the variable lives, and the function has no requirements.
            if catch_unwind(|| unsafe { once(last.as_ptr().cast(), unwind) }).is_ok() {
                assert_eq!(MADE.get(), 1);
                last.go();
                FREED.note(true);
            }
        });
        call(&variable);
        last.join().unwrap();
    });
    FREED.assert();
}
