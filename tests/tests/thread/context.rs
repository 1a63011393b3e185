//! `runtime::context`: trees of contexts that are cancelled, time out and carry values, and that leave
//! nothing behind.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use runtime::channel::{RecvTimeoutError, TryRecvError, after};
use runtime::context::{CancelOnDrop, Context, ContextError};
use runtime::{select, thread};
use tests::{Drops, Random, everywhere, on, on_each, wait_until, with};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

#[track_caller]
fn is_open(context: &Context) {
    assert_eq!(context.done().try_recv(), Err(TryRecvError::Empty));
    assert_eq!(context.err(), None);
}

#[track_caller]
fn is_over(context: &Context, error: ContextError) {
    assert_eq!(context.done().try_recv(), Err(TryRecvError::Disconnected));
    assert_eq!(context.err(), Some(error));
}

#[test]
fn the_root_never_ends() {
    everywhere(|| {
        let root = Context::background();
        is_open(&root);
        assert_eq!(root.done().recv_timeout(ms(1)), Err(RecvTimeoutError::Timeout));
        assert_eq!((root.deadline(), root.value::<u8>()), (None, None));
        is_open(&Context::default().with_value(1u8));
    });
}

#[test]
fn a_cancelled_context_stays_cancelled() {
    everywhere(|| {
        let (context, cancel) = Context::background().with_cancel();
        let copy = context.clone();
        is_open(&context);
        cancel.cancel();
        is_over(&context, ContextError::Canceled);
        cancel.cancel();
        drop(cancel);
        is_over(&copy, ContextError::Canceled);
    });
}

#[test]
fn dropping_the_handle_cancels() {
    everywhere(|| {
        let (context, cancel) = Context::background().with_timeout(HOUR);
        is_open(&context);
        drop(cancel);
        is_over(&context, ContextError::Canceled);
    });
}

#[test]
fn a_cancelled_parent_cancels_its_children() {
    everywhere(|| {
        let (parent, cancel) = Context::background().with_cancel();
        let (child, _c) = parent.with_cancel();
        let value = parent.with_value(7u32);
        let (below_value, _b) = value.with_cancel();
        let (timed, _t) = parent.with_timeout(HOUR);
        let (below_timed, _bt) = timed.with_deadline(Instant::now() + 2 * HOUR);
        let all = [&parent, &child, &value, &below_value, &timed, &below_timed];
        all.iter().for_each(|context| is_open(context));
        cancel.cancel();
        all.iter().for_each(|context| is_over(context, ContextError::Canceled));
        // A context that is made below a cancelled context is cancelled from the start.
        let (late, _l) = parent.with_timeout(HOUR);
        is_over(&late, ContextError::Canceled);
        is_over(&late.with_value(1u8).with_cancel().0, ContextError::Canceled);
    });
}

#[test]
fn a_cancelled_child_leaves_its_parent_open() {
    everywhere(|| {
        let (parent, cancel_parent) = Context::background().with_cancel();
        let (child, cancel) = parent.with_cancel();
        let (sibling, _s) = parent.with_cancel();
        cancel.cancel();
        is_over(&child, ContextError::Canceled);
        is_open(&parent);
        is_open(&sibling);
        cancel_parent.cancel();
        is_over(&sibling, ContextError::Canceled);
    });
}

#[test]
fn a_context_ends_at_its_deadline() {
    everywhere(|| {
        let start = Instant::now();
        let (context, _c) = Context::background().with_timeout(ms(4));
        let below = context.with_value("x").with_cancel();
        assert!(context.deadline().unwrap() >= start + ms(4));
        assert!(context.done().recv().is_err());
        assert!(Instant::now() >= start + ms(4));
        is_over(&context, ContextError::DeadlineExceeded);
        assert!(below.0.done().recv().is_err());
        is_over(&below.0, ContextError::DeadlineExceeded);
    });
}

#[test]
fn the_earlier_deadline_holds() {
    everywhere(|| {
        let soon = Instant::now() + ms(3);
        let (parent, _p) = Context::background().with_deadline(soon);
        let (child, _c) = parent.with_timeout(HOUR);
        assert_eq!(child.deadline(), Some(soon));
        assert!(child.done().recv().is_err());
        assert!(Instant::now() >= soon);
        is_over(&child, ContextError::DeadlineExceeded);

        let (parent, _p) = Context::background().with_timeout(HOUR);
        let (child, _c) = parent.with_timeout(ms(3));
        assert!(child.deadline() < parent.deadline());
        assert!(child.done().recv().is_err());
        is_open(&parent);
    });
}

#[test]
fn a_past_deadline_and_an_unreachable_one() {
    everywhere(|| {
        is_over(&Context::background().with_deadline(Instant::now()).0, ContextError::DeadlineExceeded);
        is_over(&Context::background().with_timeout(Duration::ZERO).0, ContextError::DeadlineExceeded);
        let (never, _n) = Context::background().with_timeout(Duration::MAX);
        is_open(&never);
        assert_eq!(never.deadline(), None);
    });
}

#[test]
fn a_cancelled_context_does_not_time_out() {
    everywhere(|| {
        let (context, cancel) = Context::background().with_timeout(ms(2));
        cancel.cancel();
        let first = context.err();
        runtime::sleep(ms(4));
        assert_eq!(context.err(), first, "the first error stays");
    });
}

#[test]
fn the_nearest_value_of_a_type_is_found() {
    #[derive(Debug, PartialEq)]
    struct Id(u32);
    everywhere(|| {
        let outer = Context::background().with_value(Id(1)).with_value("text");
        let (middle, cancel) = outer.with_cancel();
        let inner = middle.with_value(Id(2)).with_timeout(HOUR);
        assert_eq!((outer.value(), inner.0.value()), (Some(&Id(1)), Some(&Id(2))));
        assert_eq!(inner.0.value(), Some(&"text"));
        assert_eq!(inner.0.value::<u32>(), None);
        cancel.cancel();
        assert_eq!(inner.0.value(), Some(&Id(2)), "values stay after the cancellation");
    });
}

#[test]
fn done_in_selects_futures_and_plain_threads() {
    on_each(|| {
        let (context, cancel) = Context::background().with_cancel();
        let its = context.clone();
        let selects = runtime::spawn(move || {
            select! {
                recv(its.done()) -> end => end.is_err(),
                recv(after(HOUR)) -> _ => false,
            }
        });
        let its = context.clone();
        let awaits = runtime::spawn(async move { its.done().recv_async().await.is_err() });
        let plain = std::thread::spawn(move || context.done().recv().is_err());
        runtime::sleep(ms(1));
        cancel.cancel();
        assert!(selects.join().unwrap() && awaits.join().unwrap() && plain.join().unwrap());
    });
}

/// Deeper than a recursive drop or cancellation would allow on a stack.
#[test]
fn a_very_deep_tree() {
    everywhere(|| {
        let mut chain = vec![Context::background().with_cancel()];
        for _ in 0..20_000 {
            let next = chain.last().unwrap().0.with_value(1u8).with_cancel();
            chain.push(next);
        }
        let deepest = chain.last().unwrap().0.clone();
        chain[0].1.cancel();
        is_over(&deepest, ContextError::Canceled);
        assert_eq!(deepest.value(), Some(&1u8));
        drop(chain);
        drop(deepest);
    });
}

#[test]
fn a_thousand_waiting_children_are_woken() {
    on_each(|| {
        let (parent, cancel) = Context::background().with_cancel();
        let children: Vec<_> = (0..1000)
            .map(|i| {
                let parent = parent.clone();
                runtime::spawn(move || {
                    let (child, _c) =
                        if i % 2 == 0 { parent.with_cancel() } else { parent.with_timeout(HOUR) };
                    assert!(child.done().recv().is_err());
                    child.err()
                })
            })
            .collect();
        runtime::sleep(ms(1));
        cancel.cancel();
        for child in children {
            assert_eq!(child.join().unwrap(), Some(ContextError::Canceled));
        }
    });
}

/// Every context of a tree is cancelled at the same time.
#[test]
fn a_whole_tree_is_cancelled_concurrently() {
    everywhere(|| {
        let mut tree = vec![Context::background().with_cancel()];
        for i in 0..200 {
            let child = tree[i / 3].0.with_cancel();
            tree.push(child);
        }
        let (contexts, handles): (Vec<Context>, Vec<CancelOnDrop>) = tree.into_iter().unzip();
        thread::scope(|scope| {
            for handle in handles {
                scope.spawn(move || handle.cancel());
            }
            for context in &contexts {
                scope.spawn(|| assert!(context.done().recv().is_err()));
            }
        });
        contexts.iter().for_each(|context| is_over(context, ContextError::Canceled));
    });
}

/// A thread that waits for the parent cancels the child, at the same time as the parent's cancellation.
#[test]
fn a_waiter_of_the_parent_cancels_the_child() {
    everywhere(|| {
        let (parent, cancel_parent) = Context::background().with_cancel();
        let (child, cancel_child) = parent.with_cancel();
        thread::scope(|scope| {
            scope.spawn(move || {
                assert!(parent.done().recv().is_err());
                cancel_child.cancel();
            });
            cancel_parent.cancel();
            assert!(child.done().recv().is_err());
        });
    });
}

/// Children are made while their parent is being cancelled: each of them is cancelled.
#[test]
fn children_made_during_a_cancellation_are_cancelled() {
    on_each(|| {
        for _ in 0..50 {
            let (parent, cancel) = Context::background().with_cancel();
            let began = AtomicBool::new(false);
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| {
                        let mut last = None;
                        while parent.err().is_none() {
                            last = Some(parent.with_value(1u8).with_cancel());
                            began.store(true, Ordering::Relaxed);
                        }
                        if let Some((child, _c)) = last {
                            assert!(child.done().recv().is_err());
                        }
                        is_over(&parent.with_cancel().0, ContextError::Canceled);
                    });
                }
                wait_until("a child was made", || began.load(Ordering::Relaxed));
                cancel.cancel();
            });
        }
    });
}

/// A deadline and a cancellation at the same moment: either is the error, and it stays.
#[test]
fn a_deadline_races_with_a_cancellation() {
    everywhere(|| {
        let mut random = Random::new(3);
        for _ in 0..200 {
            let (context, cancel) =
                Context::background().with_timeout(Duration::from_micros(random.below(200)));
            let (child, _c) = context.with_cancel();
            runtime::sleep(Duration::from_micros(random.below(200)));
            cancel.cancel();
            let error = context.err().unwrap();
            assert!(child.done().recv().is_err());
            assert_eq!(child.err(), Some(error));
            is_over(&context, error);
        }
    });
}

/// Layers of every kind in random order, ended by cancelling a random layer or by a time-out.
#[test]
fn layers_of_all_kinds() {
    on(2, || {
        for seed in 0..100 {
            let mut random = Random::new(seed);
            let times_out = random.below(2) == 0;
            let mut context = Context::background();
            let (mut handles, mut values) = (Vec::new(), 0);
            for _ in 0..40 {
                context = match random.below(3) {
                    0 => {
                        values += 1;
                        context.with_value((values, seed))
                    }
                    1 => keep(&mut handles, context.with_cancel()),
                    _ => keep(&mut handles, context.with_timeout(HOUR)),
                };
            }
            let time = if times_out { ms(1) } else { HOUR };
            context = keep(&mut handles, context.with_timeout(time));
            if !times_out {
                is_open(&context);
                handles[random.below(handles.len() as u64) as usize].cancel();
            }
            assert!(context.done().recv().is_err());
            let error = if times_out { ContextError::DeadlineExceeded } else { ContextError::Canceled };
            is_over(&context, error);
            assert_eq!(context.value::<(i32, u64)>().copied(), (values > 0).then_some((values, seed)));
        }
    });
}

fn keep(handles: &mut Vec<CancelOnDrop>, (context, handle): (Context, CancelOnDrop)) -> Context {
    handles.push(handle);
    context
}

#[test]
fn ended_contexts_leave_nothing_behind() {
    with(2, |runtime| {
        let drops = Drops::default();
        let pending = || runtime.handle().metrics().timers_pending;
        runtime.block_on(|| {
            let before = pending();
            let (parent, cancel) = Context::background().with_value(drops.token()).with_cancel();
            for _ in 0..1000 {
                let (child, _c) = parent.with_value(drops.token()).with_timeout(HOUR);
                is_open(&child);
            }
            assert_eq!(drops.alive(), 1, "only the parent's value");
            wait_until("no timer is left", || pending() <= before + 2);
            drop((parent, cancel));
            assert_eq!(drops.alive(), 0);
        });
    });
}

/// Two hundred thousand children are made and dropped below a single parent.
#[test]
#[cfg_attr(asan, ignore = "AddressSanitizer keeps what is freed")]
fn a_parent_forgets_ended_children() {
    tests::child::passes("a_parent_forgets_ended_children", "", || {
        let (parent, _p) = Context::background().with_cancel();
        let churn = |n| (0..n).for_each(|_| drop(parent.with_value([0u8; 64]).with_cancel()));
        churn(1000);
        let before = tests::system::resident_bytes();
        churn(200_000);
        let grown = tests::system::resident_bytes().saturating_sub(before);
        assert!(grown < 4 << 20, "{grown} bytes more");
    });
}

#[test]
fn many_threads_make_and_cancel_children() {
    on_each(|| {
        let (parent, cancel) = Context::background().with_timeout(HOUR);
        thread::scope(|scope| {
            for seed in 0..8 {
                let parent = &parent;
                scope.spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..200 {
                        let (child, handle) =
                            parent.with_timeout(Duration::from_micros(1 + random.below(100)));
                        match random.below(3) {
                            0 => drop(handle),
                            1 => handle.cancel(),
                            _ => assert!(child.done().recv().is_err()),
                        }
                    }
                });
            }
        });
        is_open(&parent);
        cancel.cancel();
        is_over(&parent, ContextError::Canceled);
    });
}
