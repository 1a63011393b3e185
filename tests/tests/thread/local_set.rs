//! `LocalSet`: tasks of futures that are not `Send` run in turns on one OS thread, while their set is polled.

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use runtime::context::Context;
use runtime::thread::{Cancelled, JoinError, LocalSet, spawn_local};
use runtime::time::{sleep_async, timeout};
use runtime::{Builder, block_on_local, channel, spawn, yield_now_async};
use tests::{
    Drops, ON_PURPOSE, OnDrop, Random, everywhere, on, on_each, os_thread, panics_with,
    quiet_panics_on_purpose, with,
};

use super::pin::{Others, moves};

const HOUR: Duration = Duration::from_secs(3600);
const MILLI: Duration = Duration::from_millis(1);

#[test]
fn tasks_share_what_is_not_send_and_stay_on_the_os_thread_of_the_poll() {
    everywhere(|| {
        let (set, here) = (LocalSet::new(), os_thread());
        let log = Rc::new(RefCell::new(Vec::new()));
        for i in 0..3 {
            let log = log.clone();
            set.spawn_local(async move {
                for round in 0..3 {
                    assert_eq!(os_thread(), here);
                    log.borrow_mut().push((round, i));
                    yield_now_async().await;
                }
                sleep_async(MILLI).await;
                assert_eq!(os_thread(), here);
            });
        }
        assert!(log.borrow().is_empty(), "no task runs before the set is polled");
        block_on_local(set);
        let turns: Vec<_> = (0..3).flat_map(|round| (0..3).map(move |i| (round, i))).collect();
        assert_eq!(*log.borrow(), turns, "the tasks run in turns");
        assert_eq!(Rc::strong_count(&log), 1);
    });
}

#[test]
fn tasks_of_tasks_belong_to_the_same_set() {
    everywhere(|| {
        let set = LocalSet::new();
        let depth = block_on_local(set.run_until(async {
            fn nested(depth: usize) -> std::pin::Pin<Box<dyn Future<Output = Rc<usize>>>> {
                Box::pin(async move {
                    if depth == 20 {
                        return Rc::new(depth);
                    }
                    spawn_local(nested(depth + 1)).await.unwrap()
                })
            }
            nested(0).await
        }));
        assert_eq!(*depth, 20);
        panics_with("outside of a `LocalSet`", || spawn_local(async {}));
    });
}

#[test]
fn tasks_wait_between_two_polls_of_their_set() {
    everywhere(|| {
        let (set, hits) = (LocalSet::new(), Rc::new(Cell::new(0)));
        let (sender, receiver) = channel::unbounded();
        let mine = hits.clone();
        let task = set.spawn_local(async move {
            while let Ok(n) = receiver.recv_async().await {
                mine.set(mine.get() + n);
            }
            mine
        });
        for round in 1..=5 {
            sender.send(1).unwrap();
            runtime::sleep(MILLI);
            assert_eq!(hits.get(), round - 1, "a task has run while its set was not polled");
            block_on_local(set.run_until(async {
                while hits.get() < round {
                    yield_now_async().await;
                }
            }));
        }
        assert!(!task.is_finished());
        drop(sender);
        assert_eq!(block_on_local(set.run_until(task)).unwrap().get(), 5);
    });
}

#[test]
fn wakers_on_any_thread_wake_the_set() {
    on_each(|| {
        let set = LocalSet::new();
        let mut senders = Vec::new();
        let tasks: Vec<_> = (0..100u64)
            .map(|i| {
                let (sender, receiver) = channel::bounded(1);
                senders.push(sender);
                set.spawn_local(async move {
                    let mut sum = 0;
                    while let Ok(n) = receiver.recv_async().await {
                        sum += n;
                    }
                    Rc::new(sum + i)
                })
            })
            .collect();
        let tellers: Vec<_> = senders
            .into_iter()
            .enumerate()
            .map(|(i, sender)| {
                let sends = move || {
                    let mut random = Random::new(i as u64);
                    for n in 0..20 {
                        sender.send(n).unwrap();
                        runtime::sleep(Duration::from_micros(random.below(50)));
                    }
                };
                if i % 10 == 0 { Err(std::thread::spawn(sends)) } else { Ok(spawn(sends)) }
            })
            .collect();
        block_on_local(set.run_until(async {
            for (i, task) in tasks.into_iter().enumerate() {
                assert_eq!(*task.await.unwrap(), 190 + i as u64);
            }
        }));
        for teller in tellers {
            teller.map_or_else(|os| os.join().unwrap(), |green| green.join().unwrap());
        }
        block_on_local(set);
    });
}

#[test]
fn a_handle_is_awaited_and_cancelled_on_other_threads() {
    on_each(|| {
        let set = LocalSet::new();
        let words = Rc::new("seven words");
        let joined = spawn(set.spawn_local(async move {
            sleep_async(MILLI).await;
            words.len()
        }));
        let drops = Drops::default();
        let (token, here) = (drops.token(), os_thread());
        let endless = set.spawn_local(async move {
            let _token = token;
            let _on_drop = OnDrop(|| assert_eq!(os_thread(), here));
            pending::<()>().await;
        });
        let canceller = spawn(move || {
            runtime::sleep(MILLI);
            endless.cancel();
            assert!(JoinError::from(runtime::block_on(endless).unwrap_err()).is_cancelled());
        });
        block_on_local(set);
        assert_eq!(drops.alive(), 0);
        assert_eq!(joined.join().unwrap().unwrap(), 11);
        canceller.join().unwrap();
    });
}

#[test]
fn a_late_cancel_ends_no_other_task() {
    everywhere(|| {
        let set = LocalSet::new();
        let first = set.spawn_local(async {});
        block_on_local(set.run_until(yield_now_async()));
        assert!(first.is_finished());
        let second = set.spawn_local(async {
            yield_now_async().await;
            yield_now_async().await;
            7
        });
        first.cancel();
        let drives = set.run_until(async {
            first.await.unwrap();
            second.await.unwrap()
        });
        assert_eq!(block_on_local(drives), 7);
    });
}

#[test]
fn a_panic_ends_its_task_only() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let set = LocalSet::new();
        let drops = Drops::default();
        let token = drops.token();
        let bad = set.spawn_local(async move {
            let _token = token;
            yield_now_async().await;
            panic!("{ON_PURPOSE}");
        });
        let good = set.spawn_local(async { sleep_async(MILLI).await });
        let dropped = set.spawn_local(async { panic!("{ON_PURPOSE}") });
        drop(dropped);
        let (bad, good) = block_on_local(set.run_until(async { (bad.await, good.await) }));
        assert_eq!(
            JoinError::from(bad.unwrap_err()).to_string(),
            format!("the green thread panicked: {ON_PURPOSE}")
        );
        good.unwrap();
        assert_eq!(drops.alive(), 0);
        block_on_local(set);
    });
}

#[test]
fn a_drop_of_the_set_drops_its_tasks_also_those_that_destructors_add() {
    quiet_panics_on_purpose();
    everywhere(|| {
        let (drops, set) = (Drops::default(), LocalSet::new());
        let handles: Vec<_> = (0..100)
            .map(|i| {
                let (token, late) = (drops.token(), drops.clone());
                set.spawn_local(async move {
                    let _token = token;
                    let _adds = OnDrop(|| {
                        let token = late.token();
                        drop(spawn_local(async move { drop(token) }));
                        if i == 50 {
                            panic!("{ON_PURPOSE}");
                        }
                    });
                    if i < 60 {
                        pending::<()>().await;
                    }
                    sleep_async(HOUR).await;
                })
            })
            .collect();
        block_on_local(set.run_until(yield_now_async()));
        let guard = set.enter();
        drop(set);
        assert_eq!(drops.alive(), 0);
        let after = spawn_local(pending::<()>());
        assert!(after.is_finished(), "a task of a dropped set is cancelled at once");
        drop(guard);
        for handle in handles {
            assert!(handle.is_finished());
            assert!(block_on_local(handle).unwrap_err().is::<Cancelled>());
        }
    });
}

#[test]
fn a_task_that_wakes_itself_again_and_again_lets_the_others_run() {
    everywhere(|| {
        let (set, stop) = (LocalSet::new(), Rc::new(Cell::new(false)));
        let seen = stop.clone();
        let busy = set.spawn_local(async move {
            while !seen.get() {
                yield_now_async().await;
            }
        });
        block_on_local(set.run_until(async {
            spawn(|| runtime::sleep(MILLI)).await.unwrap();
            spawn_local(async move { stop.set(true) }).await.unwrap();
            busy.await.unwrap();
        }));
    });
}

#[test]
fn a_task_may_drive_its_own_set() {
    everywhere(|| {
        let (set, mut polls) = (Rc::new(LocalSet::new()), 0);
        let inner = set.clone();
        // The nested drive finds this task in the list while it is being polled. The wake-up is not lost.
        let outer = set.spawn_local(poll_fn(move |cx| {
            polls += 1;
            if polls == 1 {
                cx.waker().wake_by_ref();
                assert_eq!(block_on_local(inner.run_until(inner.spawn_local(async { 7 }))).unwrap(), 7);
                return Poll::Pending;
            }
            Poll::Ready(polls)
        }));
        assert_eq!(block_on_local(set.run_until(outer)).unwrap(), 2);
    });
}

#[test]
fn any_number_of_tasks_that_are_ready_end_without_a_further_wake_up() {
    everywhere(|| {
        for tasks in [0, 1, 60, 61, 62, 200] {
            let (set, ended) = (LocalSet::new(), Rc::new(Cell::new(0)));
            for _ in 0..tasks {
                let ended = ended.clone();
                set.spawn_local(async move { ended.set(ended.get() + 1) });
            }
            block_on_local(set);
            assert_eq!(ended.get(), tasks);
        }
    });
}

#[test]
fn an_entered_set_follows_its_green_thread() {
    everywhere(|| {
        let (outer, inner) = (LocalSet::new(), LocalSet::new());
        let first = outer.enter();
        let second = inner.enter();
        runtime::sleep(MILLI);
        let of_inner = spawn_local(async { 2 });
        drop(second);
        let of_outer = spawn_local(async { 1 });
        spawn(|| panics_with("outside of a `LocalSet`", || spawn_local(async {}))).join().unwrap();
        drop(first);
        block_on_local(outer);
        assert!(of_outer.is_finished() && !of_inner.is_finished());
        block_on_local(inner);
        assert!(of_inner.is_finished());
    });
}

#[test]
fn the_end_of_the_poller_ends_the_task_that_parks_and_leaves_the_others() {
    everywhere(|| {
        let set = LocalSet::new();
        let parks = set.spawn_local(async { runtime::sleep(HOUR) });
        let other = set.spawn_local(async { Rc::new(7) });
        let driven = timeout(MILLI, || block_on_local(set.run_until(pending::<()>())));
        assert!(driven.is_err());
        let (parks, other) = block_on_local(set.run_until(async { (parks.await, other.await) }));
        assert!(parks.unwrap_err().is::<Cancelled>());
        assert_eq!(*other.unwrap(), 7);
        let (context, _cancel) = Context::background().with_timeout(MILLI);
        let parks = set.spawn_local(async { runtime::sleep(HOUR) });
        let driven = context.run(|| block_on_local(set.run_until(pending::<()>())));
        assert!(driven.is_err() && parks.is_finished());
    });
    on_each(|| {
        let (drops, began) = (Drops::default(), channel::bounded(1));
        let token = drops.token();
        let thread = spawn(move || {
            let set = LocalSet::new();
            set.spawn_local(async move {
                let _token = token;
                began.0.send(()).unwrap();
                runtime::sleep(HOUR);
            });
            block_on_local(set);
        });
        began.1.recv().unwrap();
        thread.cancel();
        assert!(thread.join().unwrap_err().is::<Cancelled>());
        assert_eq!(drops.alive(), 0);
    });
    // A payload of another thread is a panic like others.
    on(2, || {
        let set = LocalSet::new();
        let task = set.spawn_local(async {
            let other = spawn(runtime::thread::park);
            other.cancel();
            std::panic::resume_unwind(other.await.unwrap_err());
        });
        let result: std::thread::Result<()> = block_on_local(set.run_until(task));
        assert!(result.unwrap_err().is::<Cancelled>());
    });
}

#[test]
fn a_green_thread_with_a_set_stays_on_its_os_thread() {
    for procs in [2, 8] {
        on(procs, || {
            let others = Others::new(16);
            let threads: Vec<_> = (0..4)
                .map(|seed| {
                    spawn(move || {
                        let (first, second) = (LocalSet::new(), LocalSet::new());
                        let shared = Rc::new(Cell::new(0));
                        let mine = shared.clone();
                        first.spawn_local(async move {
                            loop {
                                mine.set(mine.get() + 1);
                                sleep_async(MILLI).await;
                            }
                        });
                        let mut moved = moves(seed, 50);
                        drop(second);
                        for _ in 0..4 {
                            block_on_local(first.run_until(yield_now_async()));
                            moved += moves(seed, 50);
                        }
                        assert!(shared.get() > 0);
                        drop(first);
                        let mut free = 0;
                        for _ in 0..100 {
                            free += moves(seed, 50);
                            if free > 0 {
                                break;
                            }
                        }
                        (moved, free)
                    })
                })
                .collect();
            for thread in threads {
                let (moved, free) = thread.join().unwrap();
                assert_eq!(moved, 0, "a green thread with a set has moved");
                assert!(free > 0, "a green thread without a set does not move");
            }
            others.end();
        });
    }
}

#[test]
fn a_parked_green_thread_with_a_set_takes_no_os_thread() {
    tests::alone!();
    with(2, |runtime| {
        runtime.block_on(|| {
            let threads: Vec<_> = (0..300)
                .map(|_| {
                    spawn(|| {
                        let set = LocalSet::new();
                        let task = set.spawn_local(async { sleep_async(20 * MILLI).await });
                        runtime::sleep(10 * MILLI);
                        block_on_local(set.run_until(task)).unwrap();
                    })
                })
                .collect();
            runtime::sleep(5 * MILLI);
            let os_threads = runtime::metrics::snapshot().threads;
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(os_threads < 100, "{os_threads}");
        });
    });
}

struct Sent<T>(T);
// SAFETY: the tests check what the type does on another OS thread.
unsafe impl<T> Send for Sent<T> {}

impl<T> Sent<T> {
    fn on_another_os_thread(self, f: impl FnOnce(T) + Send) {
        std::thread::scope(|s| {
            s.spawn(move || f({ self }.0));
        });
    }
}

#[test]
fn a_set_on_another_os_thread_refuses_and_keeps_its_futures() {
    everywhere(|| {
        let (drops, set) = (Drops::default(), LocalSet::new());
        let token = drops.token();
        set.spawn_local(async move {
            let _token = token;
            unreachable!("it is polled on another OS thread");
        });
        Sent(set).on_another_os_thread(|set| {
            panics_with("on another OS thread", || set.spawn_local(async {}));
            panics_with("on another OS thread", || block_on_local(set.run_until(pending::<()>())));
            panics_with("dropped on another OS thread", || drop(set));
        });
        assert_eq!(drops.alive(), 1, "a future was dropped on another OS thread");
        // While a thread unwinds, it leaks them without a panic.
        let (drops, set) = (Drops::default(), LocalSet::new());
        let token = drops.token();
        set.spawn_local(async move { drop(token) });
        Sent(set).on_another_os_thread(|set| {
            let unwinds = catch_unwind(AssertUnwindSafe(move || {
                let _set = set;
                std::panic::resume_unwind(Box::new(7));
            }));
            assert!(unwinds.is_err());
        });
        assert_eq!(drops.alive(), 1);
    });
}

#[test]
fn a_set_in_a_thread_local_ends_with_its_thread() {
    thread_local!(static OF_OS_THREAD: LocalSet = LocalSet::new());
    runtime::thread_local!(static OF_THREAD: LocalSet = LocalSet::new());
    let drops = Drops::default();
    let (first, second) = (drops.token(), drops.token());
    std::thread::spawn(move || {
        OF_OS_THREAD.with(|set| {
            set.spawn_local(async move {
                let _first = first;
                pending::<()>().await
            });
            block_on_local(set.run_until(yield_now_async()));
        });
        OF_THREAD.with(|set| {
            drop(set.spawn_local(async move {
                let _second = second;
                sleep_async(HOUR).await
            }));
            block_on_local(set.run_until(yield_now_async()));
        });
    })
    .join()
    .unwrap();
    assert_eq!(drops.alive(), 0);
    on_each(move || {
        let drops = Drops::default();
        let token = drops.token();
        let thread = spawn(move || {
            OF_THREAD.with(|set| {
                set.spawn_local(async move {
                    let _token = token;
                    sleep_async(HOUR).await
                });
            });
            runtime::sleep(MILLI);
        });
        thread.join().unwrap();
        assert_eq!(drops.alive(), 0);
    });
}

#[test]
fn a_set_has_the_runtime_that_it_is_given() {
    let runtime = Builder::new().procs(1).build().unwrap();
    let set = LocalSet::new();
    let handle = runtime.handle().clone();
    let seen = runtime.block_on_local(set.run_until(async {
        spawn_local(async { spawn(|| runtime::Handle::current().metrics().procs).await.unwrap() })
            .await
            .unwrap()
    }));
    assert_eq!((seen, handle.metrics().procs), (1, 1));
}
