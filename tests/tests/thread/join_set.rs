//! `JoinSet`: results in the order of the ends, limits, errors, and the end of a set with members.

use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use runtime::thread::{Cancelled, JoinSet, current, park};
use runtime::time::{Elapsed, timeout, timeout_async};
use runtime::{channel, sleep, spawn, yield_now};
use tests::crowd::with_each;
use tests::{
    Drops, ON_PURPOSE, OnDrop, Random, everywhere, on, on_each, panics_with, quiet_panics_on_purpose,
    until_it_waits, wait_until, with,
};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

/// A member that ends with `i` when its message comes.
fn member_on_demand(set: &mut JoinSet<usize>, i: usize) -> channel::Sender<()> {
    let (tell, told) = channel::bounded(1);
    set.spawn(move || {
        told.recv().unwrap();
        i
    });
    tell
}

#[test]
fn results_come_in_the_order_of_the_ends() {
    everywhere(|| {
        let mut set = JoinSet::new();
        let tell: Vec<_> = (0..20).map(|i| member_on_demand(&mut set, i)).collect();
        for i in [7, 0, 19, 3, 11] {
            assert!(set.try_join_next().is_none());
            tell[i].send(()).unwrap();
            assert_eq!(set.join_next().unwrap().unwrap(), i);
        }
        assert_eq!(set.len(), 15);
        for tell in &tell {
            // It fails if that member has ended.
            let _ = tell.send(());
        }
        let mut rest = set.join_all();
        rest.sort();
        assert_eq!(rest, [1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18]);
    });
}

#[test]
fn each_result_comes_once() {
    on_each(|| {
        let mut set = JoinSet::new();
        let mut sum = 0;
        for round in 0..50u64 {
            (0..100).for_each(|i| drop(set.spawn(move || round * 100 + i)));
            // Some results stay for later rounds. Their keys are not given to other members.
            for _ in 0..60 {
                sum += set.join_next().unwrap().unwrap();
            }
        }
        assert_eq!(set.len(), 2000);
        while let Some(result) = set.join_next() {
            sum += result.unwrap();
        }
        assert_eq!(sum, (0..5000).sum::<u64>());
        assert!(set.is_empty() && set.try_join_next().is_none() && set.join_next().is_none());
    });
}

#[test]
fn panics_and_cancellations_are_errors_with_the_id_of_their_member() {
    quiet_panics_on_purpose();
    on_each(|| {
        let mut set = JoinSet::new();
        let panics = set.spawn(|| panic!("{ON_PURPOSE}")).id();
        let error = set.join_next().unwrap().unwrap_err();
        assert!(error.is_panic() && error.id() == Some(panics));
        for wait in [false, true] {
            let cancelled = set.spawn(park);
            if wait {
                sleep(MILLI);
            }
            cancelled.cancel();
            let error = set.join_next().unwrap().unwrap_err();
            assert!(error.is_cancelled() && error.id() == Some(cancelled.id()));
        }
        set.spawn(pending());
        set.cancel_all();
        assert!(set.join_next().unwrap().unwrap_err().is_cancelled());
    });
}

#[test]
fn join_all_passes_a_panic_on_and_ends_the_others() {
    quiet_panics_on_purpose();
    on_each(|| {
        let drops = Drops::default();
        let mut set = JoinSet::new();
        for _ in 0..10 {
            let token = drops.token();
            set.spawn(move || {
                let _token = token;
                sleep(HOUR);
            });
        }
        set.spawn(|| panic!("{ON_PURPOSE}"));
        panics_with(ON_PURPOSE, || set.join_all());
        assert_eq!((drops.count(), drops.alive()), (10, 0));
        let mut set = JoinSet::new();
        set.spawn(park).cancel();
        panics_with("was cancelled", || set.join_all());
    });
}

#[test]
fn at_most_as_many_members_run_as_the_limit_says() {
    everywhere(|| {
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let mut set = JoinSet::with_limit(4);
        for i in 0..200 {
            let (running, most) = (running.clone(), most.clone());
            let member = set.spawn(move || {
                let _end = OnDrop(|| {
                    running.fetch_sub(1, SeqCst);
                });
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                if i % 3 == 0 { sleep(MILLI / 10) } else { yield_now() }
            });
            if i % 5 == 0 {
                member.cancel();
            }
        }
        assert!(most.load(SeqCst) <= 4, "{most:?}");
        assert_eq!(set.len(), 200, "the results were not taken, and that is not what the limit counts");
        while set.join_next().is_some() {}
        assert_eq!(running.load(SeqCst), 0);
    });
    panics_with("limit of 0", || JoinSet::<()>::with_limit(0));
}

#[test]
fn a_full_set_refuses_or_waits() {
    on_each(|| {
        let mut set = JoinSet::with_limit(2);
        let tell: Vec<_> = (0..2).map(|i| member_on_demand(&mut set, i)).collect();
        let task = set.try_spawn(|| 5).unwrap_err().0;
        assert_eq!(task(), 5, "the refused task comes back");
        assert_eq!(timeout(MILLI, || drop(set.spawn(|| 6))), Err(Elapsed));
        assert_eq!(set.len(), 2, "what was not spawned is no member");
        tell[1].send(()).unwrap();
        assert_eq!(set.join_next().unwrap().unwrap(), 1);
        set.try_spawn(|| 7).unwrap();
        assert_eq!(set.join_next().unwrap().unwrap(), 7);
        tell[0].send(()).unwrap();
        assert_eq!(set.join_all(), [0]);
    });
}

#[test]
fn a_member_that_cannot_start_takes_no_slot() {
    on(2, || {
        let mut set = JoinSet::with_limit(1);
        for _ in 0..3 {
            let builder = runtime::thread::Builder::new().stack_size(1);
            assert!(builder.spawn_in(&mut set, || ()).is_err());
        }
        let builder = runtime::thread::Builder::new().name("named".into());
        builder.spawn_in(&mut set, || assert_eq!(current().name(), Some("named"))).unwrap();
        assert_eq!(set.join_all(), [()]);
    });
}

#[test]
fn a_wait_that_ends_early_loses_no_result() {
    on_each(|| {
        let mut random = Random::new(9);
        let mut set = JoinSet::new();
        let mut sum = 0;
        for i in 0..300u64 {
            let time = Duration::from_micros(random.below(300));
            set.spawn(move || {
                sleep(time);
                i
            });
            let limit = Duration::from_micros(random.below(300));
            let early = if i % 2 == 0 {
                timeout(limit, || set.join_next())
            } else {
                runtime::block_on(timeout_async(limit, set.join_next_async()))
            };
            if let Ok(result) = early {
                sum += result.unwrap().unwrap();
            }
        }
        while let Some(result) = runtime::block_on(set.join_next_async()) {
            sum += result.unwrap();
        }
        assert_eq!(sum, (0..300).sum::<u64>());
    });
}

#[test]
fn a_cancelled_owner_ends_its_members() {
    on_each(|| {
        let drops = Drops::default();
        for (round, waits) in [true, false].into_iter().cycle().take(20).enumerate() {
            let tokens: Vec<_> = (0..10).map(|_| drops.token()).collect();
            let owner = spawn(move || {
                let mut set = JoinSet::new();
                for token in tokens {
                    set.spawn(move || {
                        let _token = token;
                        sleep(HOUR);
                    });
                }
                set.join_next();
            });
            if waits {
                until_it_waits(&owner);
            }
            owner.cancel();
            assert!(owner.join().unwrap_err().is::<Cancelled>());
            assert_eq!((drops.count(), drops.alive()), (10 * (round + 1), 0), "none outlives the set");
        }
    });
}

#[test]
fn a_drop_waits_for_members_that_are_slow_to_end() {
    everywhere(|| {
        let ended = Arc::new(AtomicUsize::new(0));
        let (begun, begins) = channel::unbounded();
        let mut set = JoinSet::new();
        for _ in 0..5 {
            let (ended, begun) = (ended.clone(), begun.clone());
            set.spawn(move || {
                let _end = OnDrop(|| {
                    sleep(MILLI);
                    ended.fetch_add(1, SeqCst);
                });
                begun.send(()).unwrap();
                park();
            });
        }
        (0..5).for_each(|_| begins.recv().unwrap());
        // A time-out that is over does not end the wait of the drop.
        assert_eq!(timeout(Duration::ZERO, || drop(set)), Ok(()));
        assert_eq!(ended.load(SeqCst), 5);
    });
}

#[test]
fn a_panicking_owner_ends_its_members() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let drops = Drops::default();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut set = JoinSet::new();
            let token = drops.token();
            set.spawn(move || {
                let _token = token;
                park();
            });
            panic!("{ON_PURPOSE}");
        }));
        assert!(result.is_err() && drops.alive() == 0);
    });
}

#[test]
fn a_member_may_drop_its_own_set() {
    on_each(|| {
        let drops = Drops::default();
        let (mut set, (give, take)) = (JoinSet::new(), channel::bounded::<JoinSet<()>>(1));
        let (done, end) = channel::bounded(1);
        for _ in 0..3 {
            let token = drops.token();
            set.spawn(move || {
                let _token = token;
                park();
            });
        }
        set.spawn(move || {
            let _end = OnDrop(move || done.send(runtime::thread::cancelled()).unwrap());
            drop(take.recv().unwrap());
            park();
        });
        give.send(set).unwrap();
        assert_eq!(end.recv(), Ok(true), "the caller is cancelled, too");
        assert_eq!((drops.count(), drops.alive()), (3, 0), "it has waited for the others");
    });
}

#[test]
fn detached_members_go_on_and_are_forgotten() {
    on_each(|| {
        let mut set = JoinSet::with_limit(2);
        let told: Vec<_> = (0..2).map(|i| member_on_demand(&mut set, i)).collect();
        set.detach_all();
        assert!(set.is_empty() && set.join_next().is_none());
        let later: Vec<_> = (10..12).map(|i| member_on_demand(&mut set, i)).collect();
        // The ends of the detached members have the same keys as the later members.
        told.iter().for_each(|tell| tell.send(()).unwrap());
        sleep(MILLI);
        assert!(set.try_join_next().is_none() && set.try_spawn(|| 0).is_err());
        later.iter().for_each(|tell| tell.send(()).unwrap());
        let mut all = set.join_all();
        all.sort();
        assert_eq!(all, [10, 11]);
    });
}

#[test]
fn shutdown_leaves_a_set_that_can_be_used_again() {
    everywhere(|| {
        let mut set = JoinSet::with_limit(3);
        for round in 0..10 {
            (0..3).for_each(|_| {
                drop(set.spawn(|| {
                    park();
                    0
                }))
            });
            set.shutdown();
            assert!(set.is_empty());
            set.spawn(move || round);
            assert_eq!(set.join_next().unwrap().unwrap(), round);
        }
    });
}

#[test]
fn members_may_run_in_other_runtimes_which_may_end() {
    let set = with_members_in_an_ended_runtime();
    assert_eq!(set.len(), 2);
    drop(set);
}

fn with_members_in_an_ended_runtime() -> JoinSet<usize> {
    let mut set = JoinSet::new();
    with(2, |runtime| {
        set.spawn_on(|| 1, &runtime.handle());
        assert_eq!(set.join_next().unwrap().unwrap(), 1);
        set.spawn_on(
            || {
                park();
                2
            },
            &runtime.handle(),
        );
        set.spawn_on(async { pending().await }, &runtime.handle());
    });
    set
}

#[test]
fn a_result_whose_destructor_panics_does_not_keep_the_drop_from_waiting() {
    quiet_panics_on_purpose();
    on(2, || {
        let ended = Arc::new(AtomicBool::new(false));
        let mut set = JoinSet::new();
        let first = set.spawn(|| {
            OnDrop(Box::new(|| assert!(false_by_now(), "{ON_PURPOSE}")) as Box<dyn FnMut() + Send>)
        });
        wait_until("it has ended", || first.is_finished());
        let (end, (begin, begun)) = (ended.clone(), channel::bounded(1));
        set.spawn(move || {
            let _end = OnDrop(|| {
                sleep(MILLI);
                end.store(true, SeqCst);
            });
            begin.send(()).unwrap();
            sleep(HOUR);
            unreachable!("it is cancelled")
        });
        begun.recv().unwrap();
        drop(set);
        assert!(ended.load(SeqCst), "the drop has waited");
    });
}

/// Returns `false`. An `assert!` of a constant is refused.
fn false_by_now() -> bool {
    std::hint::black_box(false)
}

#[test]
fn many_owners_share_nothing() {
    on_each(|| {
        let total = Arc::new(Mutex::new(0));
        runtime::scope(|s| {
            for owner in 0..20u64 {
                let total = total.clone();
                s.spawn(move || {
                    let mut set = JoinSet::with_limit(3);
                    (0..30).for_each(|i| drop(set.spawn(async move { owner * i })));
                    let sum: u64 = set.join_all().into_iter().sum();
                    *total.lock().unwrap() += sum;
                });
            }
        });
        assert_eq!(*total.lock().unwrap(), (0..20).sum::<u64>() * (0..30).sum::<u64>());
    });
}

/// A value that a member would inherit from its spawner, with a clone that panics.
struct NoClone;

impl Clone for NoClone {
    fn clone(&self) -> Self {
        panic!("{ON_PURPOSE}")
    }
}

runtime::thread_local! {
    #[inherit]
    static INHERITED: std::cell::RefCell<Option<NoClone>> = const { std::cell::RefCell::new(None) };
}

#[test]
fn a_spawn_that_panics_takes_no_slot() {
    on_each(|| {
        let mut set = JoinSet::with_limit(1);
        INHERITED.set(Some(NoClone));
        panics_with(ON_PURPOSE, || set.spawn(|| 7));
        INHERITED.set(None);
        assert!(set.is_empty());
        set.spawn(|| 8);
        assert_eq!(set.join_all(), [8]);
    });
}

/// Polls of the set, waits of other kinds, and polls with other wakers take turns. No result is lost and none
/// comes twice.
#[test]
fn polls_mix_with_other_waits() {
    use std::future::poll_fn;
    use std::task::{Context, Poll, Waker};
    with_each(|runtime| {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            assert!(poll_fn(|cx| set.poll_join_next(cx)).await.is_none());
            let all = 60_usize;
            for i in 0..all {
                set.spawn(move || {
                    runtime::sleep(MILLI / 20 * (i % 7) as u32);
                    i
                });
            }
            let mut seen = vec![false; all];
            let mut turn = 0;
            while !set.is_empty() {
                turn += 1;
                // Leaves a wait behind, which the next call takes over.
                let polled = set.poll_join_next(&mut Context::from_waker(Waker::noop()));
                let next = match (polled, turn % 4) {
                    (Poll::Ready(next), _) => next,
                    (_, 0) => set.join_next(),
                    (_, 1) => set.join_next_async().await,
                    (_, 2) => poll_fn(|cx| set.poll_join_next(cx)).await,
                    _ => match set.try_join_next() {
                        None => continue,
                        next => next,
                    },
                };
                let i = next.expect("the set is not empty").unwrap();
                assert!(!std::mem::replace(&mut seen[i], true), "{i} came twice");
            }
            assert!(seen.iter().all(|seen| *seen));
        });
    });
}

/// `try_join_next` finds a result that was given to a poll, and leaves the waker of that poll in place.
#[test]
fn a_look_keeps_the_waker_of_a_poll() {
    use std::future::poll_fn;
    use std::task::Poll;
    with_each(|runtime| {
        runtime.block_on(async {
            let mut set = JoinSet::new();
            let end = member_on_demand(&mut set, 1);
            let mut looked = false;
            let next = poll_fn(|cx| {
                if !std::mem::replace(&mut looked, true) {
                    assert!(set.poll_join_next(cx).is_pending());
                    assert!(set.try_join_next().is_none());
                    end.send(()).unwrap();
                    return Poll::Pending;
                }
                Poll::Ready(set.try_join_next())
            });
            assert_eq!(next.await.expect("the waker was called at the end").unwrap(), 1);
            assert!(set.is_empty());
        });
    });
}

#[test]
fn results_come_with_the_ids_of_their_members() {
    everywhere(|| {
        let mut set = JoinSet::new();
        assert!(set.try_join_next_with_id().is_none());
        let ids: Vec<_> = (0..4).map(|i| set.spawn(move || i).id()).collect();
        let cancelled = set.spawn(|| {
            park();
            4
        });
        cancelled.cancel();
        for round in 0..5 {
            let next = match round {
                0 => set.join_next_with_id(),
                1 => runtime::block_on(set.join_next_with_id_async()),
                2 => runtime::block_on(std::future::poll_fn(|cx| set.poll_join_next_with_id(cx))),
                _ => loop {
                    match set.try_join_next_with_id() {
                        None => yield_now(),
                        next => break next,
                    }
                },
            };
            match next.unwrap() {
                Ok((id, i)) => assert_eq!(id, ids[i]),
                Err(error) => assert_eq!(error.id(), Some(cancelled.id())),
            }
        }
        assert!(set.join_next_with_id().is_none());
    });
}

#[test]
fn futures_are_collected_into_a_set() {
    everywhere(|| {
        let set: JoinSet<_> = (0..10).map(|i| async move { i }).collect();
        assert_eq!(set.len(), 10);
        let mut all = set.join_all();
        all.sort_unstable();
        assert_eq!(all, (0..10).collect::<Vec<_>>());
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let mut set = JoinSet::with_limit(2);
        set.extend((0..20).map(|_| async {
            assert!(RUNNING.fetch_add(1, SeqCst) < 2, "`extend` waits for the limit");
            runtime::yield_now_async().await;
            RUNNING.fetch_sub(1, SeqCst);
        }));
        assert_eq!(set.join_all().len(), 20);
    });
}
