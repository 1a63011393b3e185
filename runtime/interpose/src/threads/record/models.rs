//! Models of the records: joins, detaches and cancellations.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::Arc;

use loom::thread;

use super::super::join::{detach, join, try_join};
use super::{NAME, REQUESTED, Record, Reference, own, set_own};
use crate::models::helpers::{Reached, explore};
use crate::models::waits::{Kind, be};
use crate::sync::atomic::{AtomicU32, Ordering};
use crate::{GHandle, clock, futex};

/// loom checks that the uses of all threads come before the end of the record.
impl Drop for Record {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.state.last_use();
            self.result.last_use();
            self.claim.last_use();
            self.cancel.last_use();
        }
    }
}

/// What a thread unwinds with that was cancelled.
struct Cancelled;

/// Unwinds the calling thread, which was cancelled.
pub(crate) fn unwind() -> ! {
    resume_unwind(Box::new(Cancelled))
}

/// Returns `true` if the next cancellation point of the caller unwinds.
pub(crate) fn is_cancelled() -> bool {
    own().is_some_and(Record::is_to_unwind)
}

/// A green thread of pthread, for models of what its cancellation does.
#[derive(Clone)]
pub(crate) struct Thread(Reference, GHandle);

impl Thread {
    pub(crate) fn new() -> Thread {
        Thread(Reference::new(false, [0; NAME], 0), GHandle::new())
    }

    /// Runs `does` as this thread. Returns `None` if a cancellation has ended it.
    pub(crate) fn run<R>(&self, does: impl FnOnce() -> R) -> Option<R> {
        set_own(&raw const *self.0);
        self.1.is_current();
        self.0.begin(GHandle::current());
        match catch_unwind(AssertUnwindSafe(does)) {
            Ok(result) => Some(result),
            Err(payload) if payload.is::<Cancelled>() => None,
            Err(payload) => resume_unwind(payload),
        }
    }

    pub(crate) fn cancel(&self) {
        self.0.cancel();
    }
}

/// The results of the threads of models.
const RESULT: *mut c_void = ptr::without_provenance_mut(7);

/// Makes a joinable thread that ends at once. Returns its `pthread_t`.
fn start() -> (libc::pthread_t, thread::JoinHandle<()>) {
    let record = Reference::new(false, [0; NAME], 0);
    record.clone().into_handle();
    let name = record.thread();
    let thread = thread::spawn(move || {
        record.set_result(RESULT);
        record.end();
    });
    (name, thread)
}

/// Joins a thread. Returns `true` if it was the caller that could.
fn joins(name: libc::pthread_t) -> bool {
    let mut result = ptr::null_mut();
    // SAFETY: the thread was neither joined nor detached, or another join or detach is at it.
    match unsafe { join(name, &mut result) } {
        0 => {
            assert_eq!(result, RESULT);
            true
        }
        error => {
            assert_eq!(error, libc::EINVAL);
            false
        }
    }
}

/// A green thread or an OS thread joins: it sees the result, and the record goes after its last use.
#[test]
fn a_joiner_sees_the_result() {
    for kind in [Kind::Green, Kind::Os] {
        explore(3, move || {
            be(kind);
            let (name, thread) = start();
            assert!(joins(name));
            thread.join().unwrap();
        });
    }
}

/// A join that does not wait is refused, or takes the result. A later one takes it then.
#[test]
fn a_join_without_a_wait() {
    static BUSY: Reached = Reached::new();
    static ENDED: Reached = Reached::new();
    explore(3, || {
        let (name, thread) = start();
        let mut result = ptr::null_mut();
        // SAFETY: the thread was neither joined nor detached.
        match unsafe { try_join(name, &mut result) } {
            0 => {
                assert_eq!(result, RESULT);
                ENDED.note(true);
            }
            error => {
                assert_eq!(error, libc::EBUSY);
                BUSY.note(true);
                assert!(joins(name));
            }
        }
        thread.join().unwrap();
    });
    BUSY.assert();
    ENDED.assert();
}

/// A detached thread frees its record, or the detach does.
#[test]
fn a_detached_record_goes() {
    explore(3, || {
        let (name, thread) = start();
        // SAFETY: the thread was neither joined nor detached.
        assert_eq!(unsafe { detach(name) }, 0);
        thread.join().unwrap();
    });
}

/// Of two that claim the handle one gets it.
#[test]
fn one_joins_or_detaches() {
    explore(3, || {
        let record = Reference::new(false, [0; NAME], 0);
        let others = record.clone();
        let other = thread::spawn(move || others.begin_join());
        let detaches = record.begin_detach();
        assert_ne!(other.join().unwrap(), detaches);
    });
}

/// A thread is cancelled before, while or after it begins. Its wait ends, or does not begin.
#[test]
fn a_cancelled_thread_waits_no_longer() {
    explore(3, || {
        let thread = Thread::new();
        let its = thread.clone();
        let cancelled = thread::spawn(move || {
            let word = Arc::new(AtomicU32::new(0));
            its.run(|| {
                futex::wait_while_or_cancel(&word, 0, clock::NEVER);
                crate::cancellation_point();
            })
        });
        thread.cancel();
        assert!(cancelled.join().unwrap().is_none());
    });
}

/// A joiner is cancelled: it has the result, or its claim is given back and the next one joins.
#[test]
fn a_cancelled_joiner_gives_its_claim_back() {
    static CANCELLED: Reached = Reached::new();
    static JOINED: Reached = Reached::new();
    explore(2, || {
        let (name, thread) = start();
        let joiner = Thread::new();
        let its = joiner.clone();
        let joins_first = thread::spawn(move || its.run(|| assert!(joins(name))).is_some());
        joiner.cancel();
        let has_joined = joins_first.join().unwrap();
        if !has_joined {
            assert!(joins(name));
        }
        CANCELLED.note(!has_joined);
        JOINED.note(has_joined);
        thread.join().unwrap();
    });
    CANCELLED.assert();
    JOINED.assert();
}

/// A thread that may not be cancelled waits on. Once it may be, its wait ends, whenever the request came.
#[test]
fn a_cancellation_waits_until_the_thread_lets_it() {
    static EARLY: Reached = Reached::new();
    explore(3, || {
        let thread = Thread::new();
        let its = thread.clone();
        let (woken, never) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let word = woken.clone();
        let cancelled = thread::spawn(move || {
            // As far as the thread has come.
            let mut has_waited = false;
            let ended = its.run(|| {
                its.0.set_uncancellable(true);
                while word.load(Ordering::Acquire) == 0 {
                    futex::wait_while_or_cancel(&word, 0, clock::NEVER);
                    crate::cancellation_point();
                }
                has_waited = true;
                EARLY.note(its.0.cancel.load(Ordering::Relaxed) & REQUESTED != 0);
                assert!(its.0.set_uncancellable(false));
                futex::wait_while_or_cancel(&never, 0, clock::NEVER);
                crate::cancellation_point();
            });
            has_waited && ended.is_none()
        });
        thread.cancel();
        woken.swap(1, Ordering::Release);
        futex::wake_at(woken.as_ptr().expose_provenance(), 1);
        assert!(cancelled.join().unwrap());
    });
    EARLY.assert();
}
