//! The planted bugs under shuttle: threads, locks, atomics and channels in the place of std's. It simulates
//! no time and no network.

#[path = "../share.rs"]
mod share;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use shuttle::sync::{Arc, Condvar, Mutex, RwLock, mpsc};
use shuttle::{Config, Runner, thread};

use share::{TASKS, YIELDS};

fn both(one: impl FnOnce() + Send + 'static, two: impl FnOnce() + Send + 'static) {
    let threads = [thread::spawn(one), thread::spawn(two)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn lost_wake_up() {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = pair.clone();
    both(
        move || {
            if !*pair.0.lock().unwrap() {
                drop(pair.1.wait(pair.0.lock().unwrap()));
            }
        },
        move || {
            *other.0.lock().unwrap() = true;
            other.1.notify_one();
        },
    );
}

/// A stack whose head is compared by its index alone: the head may have gone and come back, with another one
/// below it.
fn aba() {
    const NONE: usize = 9;
    type Stack = (AtomicUsize, [AtomicUsize; 2]);
    let stack: Arc<Stack> = Arc::new((AtomicUsize::new(0), [1, NONE].map(AtomicUsize::new)));
    let pop = |stack: &Stack| loop {
        let top = stack.0.load(SeqCst);
        if top == NONE {
            return None;
        }
        let next = stack.1[top].load(SeqCst);
        if stack.0.compare_exchange(top, next, SeqCst, SeqCst).is_ok() {
            return Some(top);
        }
    };
    let (one, other) = (stack.clone(), stack.clone());
    let kept = Arc::new(Mutex::new(None));
    let keeps = kept.clone();
    both(
        move || _ = pop(&one),
        move || {
            let (one, two) = (pop(&other), pop(&other));
            if let Some(one) = one {
                let top = other.0.load(SeqCst);
                other.1[one].store(top, SeqCst);
                _ = other.0.compare_exchange(top, one, SeqCst, SeqCst);
            }
            *keeps.lock().unwrap() = two;
        },
    );
    let (left, kept) = (pop(&stack), *kept.lock().unwrap());
    assert!(left.is_none() || left != kept, "an element is in the stack, and popped as well");
}

fn lock_order() {
    let locks = Arc::new((Mutex::new(()), Mutex::new(())));
    let other = locks.clone();
    both(
        move || {
            let _one = locks.0.lock().unwrap();
            let _two = locks.1.lock().unwrap();
        },
        move || {
            let _two = other.1.lock().unwrap();
            let _one = other.0.lock().unwrap();
        },
    );
}

fn check_then_act() {
    let left = Arc::new(RwLock::new(1_i32));
    let buy = |left: &RwLock<i32>| {
        if *left.read().unwrap() > 0 {
            *left.write().unwrap() -= 1;
        }
    };
    let (one, two) = (left.clone(), left.clone());
    both(move || buy(&one), move || buy(&two));
    assert_eq!(*left.read().unwrap(), 0);
}

fn close_loses_messages() {
    let (s, r) = mpsc::channel();
    let closed = Arc::new(AtomicBool::new(false));
    let (close, seen) = (closed.clone(), Arc::new(AtomicUsize::new(0)));
    let sees = seen.clone();
    both(
        move || {
            while !closed.load(SeqCst) {
                while r.try_recv().is_ok() {
                    sees.fetch_add(1, SeqCst);
                }
                thread::yield_now();
            }
        },
        move || {
            (0..3).for_each(|n| s.send(n).unwrap());
            close.store(true, SeqCst);
        },
    );
    assert_eq!(seen.load(SeqCst), 3);
}

fn yields() {
    let yields = || (0..YIELDS).for_each(|_| thread::yield_now());
    let threads: Vec<_> = (0..TASKS).map(|_| thread::spawn(yields)).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

const BUGS: [(&str, fn()); 5] = [
    ("lost wake-up", lost_wake_up),
    ("ABA", aba),
    ("lock order", lock_order),
    ("check then act", check_then_act),
    ("close race", close_loses_messages),
];

fn main() {
    for (name, bug) in BUGS {
        share::print("shuttle random", name, 1000, |seed| {
            _ = Runner::new(RandomScheduler::new_from_seed(seed, 1), Config::new()).run(bug);
        });
        // This scheduler learns from its earlier runs how long the program is.
        share::print_first("shuttle PCT(3)", name, |most, count| {
            let counted = Arc::new(AtomicU64::new(0));
            let counts = counted.clone();
            let _keeps = Keeps(count, counted);
            let scheduler = PctScheduler::new_from_seed(0, 3, most as usize);
            _ = Runner::new(scheduler, Config::new()).run(move || {
                counts.fetch_add(1, Relaxed);
                bug();
            });
        });
    }
    share::print_yields("shuttle", || {
        _ = Runner::new(RandomScheduler::new_from_seed(1, 1), Config::new()).run(yields);
    });
}

/// Tells how many runs there were, also if the last one has panicked.
struct Keeps<'c>(&'c AtomicU64, Arc<AtomicU64>);

impl Drop for Keeps<'_> {
    fn drop(&mut self) {
        self.0.store(self.1.load(Relaxed), Relaxed);
    }
}
