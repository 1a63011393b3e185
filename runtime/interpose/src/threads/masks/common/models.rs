//! Models of the mask of the first OS thread.

use std::sync::Arc;

use loom::thread::{self, JoinHandle};

use super::{
    COMMON, ORDERS, Suspended, are_none_left, begin_to_serve, begins, changed, ends, look, serve, wait_for,
};
use crate::models::helpers::explore;
use crate::models::waits::{Kind, be, mask_of_kernel};
use crate::sync::atomic::{AtomicBool, Ordering};

const SIGNAL: u64 = 1;
const OTHER: u64 = 2;

/// The first OS thread, which carries out orders.
struct First {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl First {
    fn start() -> First {
        begin_to_serve();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let thread = thread::spawn(move || {
            be(Kind::Os);
            serve(|| over.load(Ordering::Acquire));
        });
        First { is_over, thread }
    }

    /// Ends the thread after the last order, and returns the mask that it had then.
    fn stop(self) -> u64 {
        let last = {
            let _counts = COMMON.lock();
            ORDERS.load(Ordering::Relaxed)
        };
        wait_for(last);
        self.is_over.swap(true, Ordering::Release);
        look();
        self.thread.join().unwrap();
        mask_of_kernel()
    }
}

/// A lone thread blocks a signal: the first OS thread blocks it when that call returns.
#[test]
fn a_signal_is_blocked_when_the_call_returns() {
    explore(3, || {
        begins(0);
        let first = First::start();
        changed(0, SIGNAL);
        assert_eq!(mask_of_kernel(), SIGNAL);
        changed(SIGNAL, SIGNAL | OTHER);
        assert_eq!(mask_of_kernel(), SIGNAL | OTHER);
        changed(SIGNAL | OTHER, OTHER);
        assert_eq!(first.stop(), OTHER);
    });
}

/// One thread blocks a signal while the other one, which blocks none, ends: then all threads block it.
#[test]
fn the_end_of_a_thread_is_counted() {
    explore(3, || {
        begins(0);
        begins(0);
        let first = First::start();
        let other = thread::spawn(|| assert!(!ends(0)));
        changed(0, SIGNAL);
        other.join().unwrap();
        assert_eq!(first.stop(), SIGNAL);
        assert!(ends(SIGNAL));
        assert!(are_none_left());
    });
}

/// Two threads change their masks: the last order is that of the last counts.
#[test]
fn two_threads_change_their_masks() {
    explore(2, || {
        begins(0);
        begins(0);
        let first = First::start();
        let other = thread::spawn(|| {
            changed(0, SIGNAL | OTHER);
            changed(SIGNAL | OTHER, SIGNAL);
        });
        changed(0, SIGNAL);
        other.join().unwrap();
        assert_eq!(first.stop(), SIGNAL);
    });
}

/// A thread in `sigsuspend` keeps its signal from the first OS thread, from the begin to the end of the wait.
#[test]
fn a_suspended_thread_gets_its_signal() {
    explore(2, || {
        begins(0);
        let first = First::start();
        let other = thread::spawn(|| begins(0));
        let suspended = Suspended::begin(SIGNAL);
        assert_eq!(mask_of_kernel(), SIGNAL);
        drop(suspended);
        other.join().unwrap();
        assert_eq!(first.stop(), 0);
    });
}
