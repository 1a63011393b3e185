//! `sync::singleflight`: one call for all callers with the same key.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::channel::bounded;
use runtime::context::Context;
use runtime::sync::singleflight::Group;
use runtime::thread::{self, Cancelled};
use runtime::time::{sleep_async, timeout};
use runtime::{scope, spawn};
use tests::turns::gives_turns;
use tests::{Drops, Random, everywhere, on_each, quiet_panics_on_purpose, wait_until};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

/// Waits until `n` callers have a reference to `token`, and then long enough that they probably wait.
fn until_they_wait(begun: &AtomicUsize, n: usize) {
    wait_until("the callers have begun", || begun.load(SeqCst) == n);
    runtime::sleep(3 * MILLI);
}

#[test]
fn callers_at_the_same_time_share_one_call() {
    everywhere(|| {
        let (group, calls, begun) = (Group::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let (open, gate) = bounded::<()>(0);
        let shared = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..50 {
                s.spawn(|| {
                    begun.fetch_add(1, SeqCst);
                    let flight = group.run("key", || {
                        calls.fetch_add(1, SeqCst);
                        let _ = gate.recv();
                        Arc::new(7)
                    });
                    assert_eq!(*flight.value, 7);
                    shared.fetch_add(usize::from(flight.shared), SeqCst);
                });
            }
            s.spawn(async {
                begun.fetch_add(1, SeqCst);
                assert_eq!(*group.run_async("key", async { Arc::new(7) }).await.value, 7);
            });
            until_they_wait(&begun, 51);
            drop(open);
        });
        // A caller that the system has held up for longer begins a call of its own.
        assert!(calls.load(SeqCst) < 10, "{} calls", calls.load(SeqCst));
        assert!(shared.load(SeqCst) > 40, "{} shared", shared.load(SeqCst));
    });
}

#[test]
fn a_call_alone_is_not_shared_and_the_next_one_begins_anew() {
    everywhere(|| {
        let group = Group::new();
        for n in 0..5 {
            let flight = group.run(String::from("key"), || n);
            assert_eq!((flight.value, flight.shared), (n, false));
        }
        assert_eq!(format!("{group:?}"), "Group { calls: 0, .. }", "nothing is left behind");
    });
}

#[test]
fn keys_are_independent() {
    everywhere(|| {
        let group = Group::new();
        let value = group.run(1, || group.run(2, || group.run(3, || 4).value + 2).value + 1);
        assert_eq!(value.value, 7);
    });
}

#[test]
fn after_forget_the_next_call_begins_anew() {
    on_each(|| {
        let (group, (open, gate)) = (Group::new(), bounded::<()>(0));
        let runs = AtomicBool::new(false);
        scope(|s| {
            let old = s.spawn(|| {
                group.run("key", || {
                    runs.store(true, SeqCst);
                    let _ = gate.recv();
                    "old"
                })
            });
            wait_until("the old call runs", || runs.load(SeqCst));
            group.forget("key");
            let new = group.run("key", || "new");
            assert_eq!((new.value, new.shared), ("new", false));
            drop(open);
            assert_eq!(old.join().unwrap().value, "old");
        });
        assert_eq!(format!("{group:?}"), "Group { calls: 0, .. }");
    });
}

#[test]
fn a_panic_reaches_every_caller() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let (group, begun, calls) = (Group::<_, u8>::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let panics: Vec<_> = scope(|s| {
            let callers: Vec<_> = (0..5)
                .map(|_| {
                    s.spawn(|| {
                        begun.fetch_add(1, SeqCst);
                        catch_unwind(AssertUnwindSafe(|| {
                            group.run("key", || {
                                calls.fetch_add(1, SeqCst);
                                until_they_wait(&begun, 5);
                                panic!("{}", tests::ON_PURPOSE)
                            })
                        }))
                        .unwrap_err()
                    })
                })
                .collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect()
        });
        for payload in &panics {
            assert!(payload.downcast_ref::<String>().unwrap().contains(tests::ON_PURPOSE));
        }
        assert!(calls.load(SeqCst) < 5, "the panic was shared");
        assert_eq!(group.run("key", || 7).value, 7, "the key can be used again");
        let polled = catch_unwind(AssertUnwindSafe(|| {
            runtime::block_on(group.run_async("key", async { panic!("{}", tests::ON_PURPOSE) }))
        }));
        assert!(polled.is_err());
        assert_eq!(runtime::block_on(group.run_async("key", async { 8 })).value, 8);
    });
}

/// The caller that runs the function is ended in each way, and the waiting callers get a value of their own.
#[test]
fn an_end_of_the_leader_does_not_lose_the_followers() {
    on_each(|| {
        for how in 0..4 {
            let group = Arc::new(Group::new());
            let runs = Arc::new(AtomicBool::new(false));
            let (context, cancel) = Context::background().with_cancel();
            let (its, begins) = (group.clone(), runs.clone());
            let work = || {
                let begins = begins.clone();
                move || {
                    begins.store(true, SeqCst);
                    runtime::sleep(HOUR);
                    1
                }
            };
            let work = work();
            let leader = match how {
                0 => spawn(move || _ = its.run("key", work)),
                1 => spawn(move || assert!(context.run(|| its.run("key", work)).is_err())),
                2 => spawn(move || assert!(timeout(20 * MILLI, || its.run("key", work)).is_err())),
                _ => spawn(async move {
                    let future = its.run_async("key", async move {
                        begins.store(true, SeqCst);
                        sleep_async(HOUR).await;
                        1
                    });
                    _ = future.await;
                }),
            };
            wait_until("the leader runs", || runs.load(SeqCst));
            let followers: Vec<_> = (0..10)
                .map(|_| {
                    let group = group.clone();
                    spawn(move || group.run("key", || 2).value)
                })
                .collect();
            runtime::sleep(MILLI);
            match how {
                0 | 3 => leader.cancel(),
                1 => cancel.cancel(),
                _ => {}
            }
            for follower in followers {
                assert_eq!(follower.join().unwrap(), 2);
            }
            let result = leader.join();
            assert!(result.is_ok() || result.unwrap_err().is::<Cancelled>());
            assert_eq!(format!("{group:?}"), "Group { calls: 0, .. }");
        }
    });
}

#[test]
fn a_follower_that_is_ended_leaves_the_others_alone() {
    everywhere(|| {
        let (group, drops, runs) =
            (Arc::new(Group::new()), Drops::default(), Arc::new(AtomicBool::new(false)));
        let (open, gate) = bounded::<()>(0);
        let (its, begins, token) = (group.clone(), runs.clone(), drops.token());
        let leader = spawn(move || {
            its.run("key", move || {
                begins.store(true, SeqCst);
                let _ = gate.recv();
                Arc::new(token)
            })
        });
        wait_until("the leader runs", || runs.load(SeqCst));
        assert!(timeout(MILLI, || group.run("key", || unreachable!())).is_err());
        let its = group.clone();
        let follower = spawn(move || drop(its.run("key", || unreachable!())));
        runtime::sleep(MILLI);
        follower.cancel();
        assert!(follower.join().unwrap_err().is::<Cancelled>());
        drop(open);
        drop(leader.join().unwrap().value);
        assert_eq!((drops.alive(), format!("{group:?}").as_str()), (0, "Group { calls: 0, .. }"));
    });
}

#[test]
fn many_callers_many_keys_and_ends() {
    on_each(|| {
        let group = Arc::new(Group::new());
        let threads: Vec<_> = (0..64)
            .map(|seed| {
                let group = group.clone();
                spawn(move || {
                    let mut random = Random::new(seed);
                    for _ in 0..50 {
                        let (key, time) = (random.below(4), Duration::from_micros(random.below(200)));
                        let work = move || {
                            runtime::sleep(time);
                            key * 10
                        };
                        let value = match random.below(4) {
                            0 => timeout(time, || group.run(key, work).value).unwrap_or(key * 10),
                            1 => runtime::block_on(group.run_async(key, async move { work() })).value,
                            2 => {
                                group.forget(&key);
                                thread::yield_now();
                                key * 10
                            }
                            _ => group.run(key, work).value,
                        };
                        assert_eq!(value, key * 10);
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(format!("{group:?}"), "Group { calls: 0, .. }");
    });
}

#[test]
fn calls_that_are_ready_do_not_keep_their_task_from_a_time_out() {
    gives_turns(|| {
        Box::pin(async {
            let group = Group::new();
            loop {
                group.run_async("key", async { 1 }).await;
            }
        })
    });
}
