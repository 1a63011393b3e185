//! Small programs with a planted bug each. PCT finds each bug within the seeds that its bound predicts, and
//! random walks within the seeds that an experiment predicts. Both find nothing in the mended program.
//! `SIM_SEEDS=100000` runs the mended programs with that many seeds. `benches/README.md` compares them with
//! other crates' simulations.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use crate::experiment;
use runtime::channel::{self, TrySendError};
use runtime::context::Context;
use runtime::sim::atomic::{AtomicBool, AtomicUsize};
use runtime::sim::{Builder, Strategy};
use runtime::sync::{Condvar, Mutex, Notify, RwLock};
use runtime::time::timeout;
use runtime::{JoinHandle, sleep, spawn, thread};

/// How many seeds an experiment has.
const EXPERIMENT: u64 = 1000;
/// How many green threads a program has.
const THREADS: u64 = 3;
/// How many runs of a mended program find nothing, unless `SIM_SEEDS` says more.
const CLEAN: u64 = 500;

/// `depth` is the number of ordered events that the bug needs.
#[track_caller]
fn found(name: &str, depth: usize, buggy: fn(), mended: fn()) {
    let by_priority = Builder::new().strategy(Strategy::Pct { depth });
    let report = by_priority.explore(100, mended);
    let bound = experiment::bound_of_pct(THREADS, report.steps().div_ceil(report.runs()), depth);
    found_within(name, &by_priority, bound, buggy, mended);
    let random = Builder::new().strategy(Strategy::Random);
    let share = experiment::share(&random, EXPERIMENT, buggy);
    found_within(name, &random, share, buggy, mended);
}

/// Looks for the bug with as many seeds as find it if each does with the probability `share`.
#[track_caller]
fn found_within(name: &str, builder: &Builder, share: f64, buggy: fn(), mended: fn()) {
    let most = experiment::seeds_for(share);
    let failure = builder.try_explore(most, buggy).expect_err(name);
    let again = Builder::new().strategy(Strategy::Replay(failure.schedule().clone())).shrink(false);
    let again = again.try_explore(1, buggy).expect_err(name);
    // The lines after the first may have a dump, with addresses.
    assert_eq!(again.message().lines().next(), failure.message().lines().next(), "{name}");
    println!(
        "{name}: found in run {} of {most} (a share of {share:.5}), {} choices left, by {builder:?}",
        failure.runs(),
        failure.schedule().len()
    );
    let seeds = std::env::var("SIM_SEEDS").map_or(CLEAN, |seeds| seeds.parse().unwrap());
    builder.explore(seeds, mended);
    builder.clone().check_determinism(true).explore(20, mended);
}

fn both(one: impl FnOnce() + Send + 'static, two: impl FnOnce() + Send + 'static) {
    let threads: [JoinHandle<()>; 2] = [spawn(one), spawn(two)];
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// The waiter looks at the flag and then parks. If the wake-up comes in between, and is not kept, the waiter
/// sleeps for ever.
pub(crate) fn lost_wake_up(under_lock: bool) {
    let pair = Arc::new((Mutex::new(false), Condvar::new()));
    let other = pair.clone();
    both(
        move || {
            if under_lock {
                let mut ready = pair.0.lock();
                while !*ready {
                    pair.1.wait(&mut ready);
                }
            } else if !*pair.0.lock() {
                pair.1.wait(&mut pair.0.lock());
            }
        },
        move || {
            *other.0.lock() = true;
            other.1.notify_one();
        },
    );
}

/// `notify_waiters` wakes the waiters that wait already, and is not kept for a later one.
pub(crate) fn missed_notify(kept: bool) {
    let notify = Arc::new(Notify::new());
    let other = notify.clone();
    both(move || notify.notified(), move || if kept { other.notify_one() } else { other.notify_waiters() });
}

/// A stack that compares its head by the index alone: the head may have gone and come back, with another one
/// below it.
pub(crate) fn aba(with_count: bool) {
    const NONE: usize = 9;
    let stack = Arc::new((AtomicUsize::new(0), [1, NONE].map(AtomicUsize::new), AtomicUsize::new(0)));
    let head = |word: usize| word & 0xFF;
    let word = move |index: usize, count: usize| index | if with_count { count << 8 } else { 0 };
    let pop = move |stack: &(AtomicUsize, [AtomicUsize; 2], AtomicUsize)| loop {
        let top = stack.0.load(SeqCst);
        if head(top) == NONE {
            return None;
        }
        let next = stack.1[head(top)].load(SeqCst);
        if stack.0.compare_exchange(top, word(next, (top >> 8) + 1), SeqCst, SeqCst).is_ok() {
            return Some(head(top));
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
                other.1[one].store(head(top), SeqCst);
                other.0.compare_exchange(top, word(one, (top >> 8) + 1), SeqCst, SeqCst).unwrap_or_default();
            }
            *keeps.lock() = two;
        },
    );
    let (left, kept) = (pop(&stack), *kept.lock());
    assert!(left.is_none() || left != kept, "an element is in the stack, and popped as well");
}

pub(crate) fn lock_order(same: bool) {
    let locks = Arc::new((Mutex::new(()), Mutex::new(())));
    let other = locks.clone();
    both(
        move || {
            let _one = locks.0.lock();
            let _two = locks.1.lock();
        },
        move || {
            let (first, second) = if same { (&other.0, &other.1) } else { (&other.1, &other.0) };
            let _one = first.lock();
            let _two = second.lock();
        },
    );
}

/// Two buyers each look whether the one ticket is left, and then buy it.
pub(crate) fn check_then_act(together: bool) {
    let left = Arc::new(RwLock::new(1_i32));
    let buy = move |left: &RwLock<i32>| {
        if together {
            let mut left = left.write();
            if *left > 0 {
                *left -= 1;
            }
        } else if *left.read() > 0 {
            *left.write() -= 1;
        }
    };
    let (one, two) = (left.clone(), left.clone());
    both(move || buy(&one), move || buy(&two));
    assert_eq!(*left.read(), 0);
}

/// A sender looks whether the channel is full and then sends, and counts on not being refused.
pub(crate) fn full_after_a_look(tries: bool) {
    let (s, r) = channel::bounded(1);
    let sent = Arc::new(AtomicUsize::new(0));
    let send = move |s: &channel::Sender<u8>, sent: &AtomicUsize| {
        if tries {
            match s.try_send(1) {
                Ok(()) => _ = sent.fetch_add(1, SeqCst),
                Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => panic!("the receiver is there"),
            }
        } else if !s.is_full() {
            s.try_send(1).unwrap();
            sent.fetch_add(1, SeqCst);
        }
    };
    let (s2, one, two) = (s.clone(), sent.clone(), sent.clone());
    both(move || send(&s, &one), move || send(&s2, &two));
    assert_eq!(r.try_iter().count(), sent.load(SeqCst));
}

/// A worker stops as soon as the flag says so, although messages that were sent before the flag are still in
/// the channel.
pub(crate) fn close_loses_messages(drains: bool) {
    let (s, r) = channel::unbounded();
    let closed = Arc::new(AtomicBool::new(false));
    let (close, seen) = (closed.clone(), Arc::new(AtomicUsize::new(0)));
    let sees = seen.clone();
    both(
        move || {
            while !closed.load(SeqCst) {
                sees.fetch_add(r.try_iter().count(), SeqCst);
                thread::yield_now();
            }
            if drains {
                sees.fetch_add(r.try_iter().count(), SeqCst);
            }
        },
        move || {
            (0..3).for_each(|n| s.send(n).unwrap());
            close.store(true, SeqCst);
        },
    );
    assert_eq!(seen.load(SeqCst), 3);
}

/// The answer and the time-out may both come; the one that comes second must not count.
pub(crate) fn time_out_race(once: bool) {
    let (s, r) = channel::bounded(1);
    let ends = Arc::new(AtomicUsize::new(0));
    let (claimed, counts) = (Arc::new(AtomicBool::new(false)), ends.clone());
    let end = move |claimed: &AtomicBool, ends: &AtomicUsize| {
        if !once || !claimed.swap(true, SeqCst) {
            ends.fetch_add(1, SeqCst);
        }
    };
    let (claimed2, ends2) = (claimed.clone(), ends.clone());
    both(
        move || {
            if timeout(Duration::from_millis(10), || r.recv()).is_err() {
                end(&claimed, &counts);
            }
        },
        move || {
            sleep(Duration::from_millis(10));
            end(&claimed2, &ends2);
            _ = s.try_send(1);
        },
    );
    assert_eq!(ends.load(SeqCst), 1, "ended twice");
}

/// Work is taken from the queue, and lost if its worker is cancelled before the work is done.
pub(crate) fn cancel_race(puts_back: bool) {
    struct PutsBack(Arc<Mutex<VecDeque<u8>>>, Option<u8>);
    impl Drop for PutsBack {
        fn drop(&mut self) {
            self.0.lock().extend(self.1);
        }
    }
    let (queue, done) = (Arc::new(Mutex::new(VecDeque::from([1]))), Arc::new(AtomicUsize::new(0)));
    let (queue2, done2) = (queue.clone(), done.clone());
    let (context, cancel) = Context::background().with_cancel();
    let worker = spawn(move || {
        _ = context.run(|| {
            let work = queue2.lock().pop_front();
            let mut guard = puts_back.then(|| PutsBack(queue2.clone(), work));
            sleep(Duration::from_millis(1));
            if let Some(guard) = &mut guard {
                guard.1 = None;
            }
            done2.fetch_add(usize::from(work.is_some()), SeqCst);
        });
    });
    let canceller = spawn(move || {
        sleep(Duration::from_millis(1));
        cancel.cancel();
    });
    canceller.join().unwrap();
    worker.join().unwrap();
    assert_eq!(done.load(SeqCst) + queue.lock().len(), 1, "the work is lost");
}

/// A message is sent again after a time without an acknowledgement, and handled twice if only the
/// acknowledgement was late.
pub(crate) fn double_delivery(by_number: bool) {
    let (s, r) = channel::unbounded::<u32>();
    let (ack, acked) = channel::bounded::<()>(4);
    let handled = Arc::new(AtomicUsize::new(0));
    let counts = handled.clone();
    both(
        move || {
            for _ in 0..3 {
                s.send(1).unwrap();
                if acked.recv_timeout(Duration::from_millis(5)).is_ok() {
                    return;
                }
            }
        },
        move || {
            let mut last = 0;
            for number in r {
                sleep(Duration::from_millis(5));
                if !by_number || number != last {
                    counts.fetch_add(1, SeqCst);
                }
                last = number;
                _ = ack.try_send(());
            }
        },
    );
    assert_eq!(handled.load(SeqCst), 1, "the message was handled twice");
}

macro_rules! bugs {
    ($($name:ident $depth:literal)*) => {$(
        mod $name {
            #[test]
            fn is_found() {
                super::found(stringify!($name), $depth, || super::$name(false), || super::$name(true));
            }
        }
    )*};
}

bugs! {
    lost_wake_up 2
    missed_notify 1
    aba 2
    lock_order 2
    check_then_act 2
    full_after_a_look 2
    close_loses_messages 1
    time_out_race 1
    cancel_race 1
    double_delivery 1
}
