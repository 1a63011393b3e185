//! Futures: sleeps in combinators and in foreign executors, polls that block, and wakers of all kinds.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use runtime::time::{Sleep, sleep_async, timeout_async};
use runtime::{block_on, spawn, thread};
use tests::futures::{Flag, both, drive_on_plain_thread, either, poll_once};
use tests::turns::ends;
use tests::turns::gives_turns;
use tests::{Drops, Random, on, on_each, runtime, wait_until, with};

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

async fn sleeps_at_least(time: Duration) {
    let start = Instant::now();
    sleep_async(time).await;
    assert!(start.elapsed() >= time, "{:?} instead of {time:?}", start.elapsed());
}

/// Pending until another green thread has slept for `time`.
async fn woken_after(time: Duration) {
    let flag = Flag::default();
    let sets = flag.clone();
    spawn(move || {
        runtime::sleep(time);
        sets.set();
    });
    flag.wait().await;
}

#[test]
fn two_sleeps_of_a_future_are_joined_and_raced() {
    on_each(|| {
        for in_spawned in [false, true] {
            let future = async {
                let start = Instant::now();
                both(sleeps_at_least(ms(3)), sleeps_at_least(ms(6))).await;
                assert!(start.elapsed() >= ms(6));
                both(sleeps_at_least(ms(4)), sleeps_at_least(ms(2))).await;
                either(sleep_async(ms(3_600_000)), sleep_async(ms(1))).await;
                either(sleep_async(ms(1)), sleep_async(Duration::MAX)).await;
                // The dropped sleep of the race has no effect on later sleeps.
                sleeps_at_least(ms(2)).await;
            };
            if in_spawned { spawn(future).join().unwrap() } else { block_on(future) }
        }
    });
}

#[test]
fn races_of_sleeps_are_not_early() {
    on_each(|| {
        let tasks: Vec<_> = (0..100)
            .map(|seed| {
                spawn(async move {
                    let mut random = Random::new(seed);
                    for _ in 0..20 {
                        let times: [u64; 3] = std::array::from_fn(|_| random.below(400));
                        let [a, b, c] = times.map(Duration::from_micros);
                        let start = Instant::now();
                        either(sleep_async(a), either(sleep_async(b), sleep_async(c))).await;
                        assert!(start.elapsed() >= a.min(b).min(c));
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn foreign_executors_await_sleeps_and_handles() {
    let start = Instant::now();
    drive_on_plain_thread(async {
        sleeps_at_least(ms(3)).await;
        both(sleeps_at_least(ms(2)), sleeps_at_least(ms(1))).await;
        assert_eq!(spawn(|| 5).await.unwrap(), 5);
    });
    assert!(start.elapsed() >= ms(5));
    // An executor that ignores wakes and polls repeatedly.
    let mut sleep = pin!(sleep_async(ms(5)));
    let (start, mut cx) = (Instant::now(), Context::from_waker(Waker::noop()));
    while sleep.as_mut().poll(&mut cx).is_pending() {
        std::thread::sleep(Duration::from_micros(200));
    }
    assert!(start.elapsed() >= ms(5));
    // An executor on a plain OS thread, woken from a green thread.
    on_each(|| {
        let flag = Flag::default();
        let awaited = flag.clone();
        let plain = std::thread::spawn(move || drive_on_plain_thread(awaited.wait()));
        runtime::sleep(ms(1));
        flag.set();
        runtime::blocking(|| plain.join().unwrap());
    });
}

/// Polls `sleep` once in another task and returns it. On a busy machine it may be ready by then.
#[expect(clippy::async_yields_async, reason = "the sleep is polled once and returned")]
fn begun_elsewhere(sleep: Sleep) -> Sleep {
    let polled = spawn(async move {
        let mut sleep = sleep;
        poll_once(&mut sleep).await;
        sleep
    });
    polled.join().unwrap()
}

#[test]
fn a_sleep_moves_to_another_task_after_its_first_poll() {
    on_each(|| {
        for time in [20, 1_000, 5_000] {
            let (start, time) = (Instant::now(), Duration::from_micros(time) + ms(2));
            let sleep = begun_elsewhere(begun_elsewhere(sleep_async(time)));
            spawn(sleep).join().unwrap();
            assert!(start.elapsed() >= time);
            // The sleep moves to `block_on` of this thread, and to a plain thread.
            block_on(begun_elsewhere(sleep_async(time)));
            let sleep = begun_elsewhere(sleep_async(time));
            let plain = std::thread::spawn(move || drive_on_plain_thread(sleep));
            runtime::blocking(|| plain.join().unwrap());
        }
    });
}

#[test]
fn a_task_that_gave_its_sleep_away_can_sleep_again() {
    on_each(|| {
        let (sender, receiver) = mpsc::channel();
        let giver = spawn(async move {
            let mut sleep = sleep_async(ms(10));
            poll_once(&mut sleep).await;
            sender.send(sleep).unwrap();
            sleeps_at_least(ms(3)).await;
            both(sleeps_at_least(ms(4)), sleeps_at_least(ms(5))).await;
            sleeps_at_least(ms(8)).await;
        });
        giver.join().unwrap();
        spawn(receiver.recv().unwrap()).join().unwrap();
    });
}

#[test]
fn a_sleep_moves_to_another_runtime() {
    with(1, |one| {
        let two = runtime(1);
        let sleep = one.block_on(|| begun_elsewhere(sleep_async(ms(5))));
        two.block_on(sleep);
        // The runtime where the sleep began ends before the sleep is due.
        let short_lived = runtime(1);
        let sleep = short_lived.block_on(|| begun_elsewhere(sleep_async(ms(20))));
        drop(short_lived);
        two.block_on(sleep);
    });
}

#[test]
fn a_sleep_polled_by_a_foreign_waker_outlives_its_runtime() {
    with(1, |one| {
        let short_lived = runtime(1);
        let mut sleep = short_lived.block_on(|| {
            let mut sleep = sleep_async(ms(20));
            // With a foreign waker the sleep gets a timer of its own, instead of the green thread's timer.
            let mut cx = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut sleep).poll(&mut cx);
            sleep
        });
        drop(short_lived);
        one.block_on(&mut sleep);
    });
}

#[test]
fn a_poll_blocks_while_a_sleep_of_the_future_is_pending() {
    on_each(|| {
        for blocks_ms in [1, 8] {
            let start = Instant::now();
            let mut sleep = Box::pin(sleep_async(ms(4)));
            let mut blocked = false;
            let future = poll_fn(move |cx| {
                let ready = sleep.as_mut().poll(cx);
                if !std::mem::replace(&mut blocked, true) {
                    let before = Instant::now();
                    runtime::sleep(ms(blocks_ms));
                    assert!(before.elapsed() >= ms(blocks_ms));
                    let me = thread::current();
                    spawn(move || me.unpark());
                    thread::park();
                    thread::park_timeout(ms(1));
                    assert_eq!(spawn(|| 3).join().unwrap(), 3);
                }
                ready
            });
            spawn(future).join().unwrap();
            assert!(start.elapsed() >= ms(4));
        }
    });
}

#[test]
fn many_tasks_block_in_their_polls() {
    on_each(|| {
        let tasks: Vec<_> = (0..300)
            .map(|seed| {
                spawn(async move {
                    let mut random = Random::new(seed);
                    for _ in 0..10 {
                        let time = Duration::from_micros(random.below(500));
                        let block = poll_fn(|_| {
                            runtime::sleep(time);
                            Poll::Ready(())
                        });
                        both(sleeps_at_least(time * 2), both(block, sleeps_at_least(time / 2))).await;
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn a_future_that_wakes_itself_is_polled_again() {
    on_each(|| {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let task = spawn(poll_fn(move |cx| {
            cx.waker().wake_by_ref();
            if counted.fetch_add(1, SeqCst) == 10_000 { Poll::Ready(()) } else { Poll::Pending }
        }));
        // Other green threads have their turns in between.
        wait_until("the future was polled", || polls.load(SeqCst) > 0);
        task.join().unwrap();
        assert_eq!(polls.load(SeqCst), 10_001);
    });
}

#[test]
fn a_future_is_not_polled_unless_woken() {
    on_each(|| {
        let polls = Arc::new(AtomicUsize::new(0));
        let counted = polls.clone();
        let (sender, wakers) = mpsc::channel();
        let task = spawn(poll_fn(move |cx| {
            let earlier = counted.fetch_add(1, SeqCst);
            sender.send(cx.waker().clone()).unwrap();
            if earlier == 5 { Poll::Ready(()) } else { Poll::Pending }
        }));
        for round in 1..=5 {
            let waker = runtime::blocking(|| wakers.recv().unwrap());
            runtime::sleep(ms(1));
            assert_eq!(polls.load(SeqCst), round, "polled without being woken");
            waker.wake();
        }
        task.join().unwrap();
    });
}

#[test]
fn wakers_outlive_their_tasks() {
    on_each(|| {
        let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
        for _ in 0..200 {
            let kept = kept.clone();
            let task = spawn(poll_fn(move |cx| {
                kept.lock().unwrap().push(cx.waker().clone());
                Poll::Ready(())
            }));
            task.join().unwrap();
        }
        // Other futures use the same Gs now. A late wake-up costs them at most an extra poll.
        let others: Vec<_> = (0..200).map(|_| spawn(sleeps_at_least(ms(5)))).collect();
        let wakers = std::mem::take(&mut *kept.lock().unwrap());
        for waker in &wakers {
            waker.wake_by_ref();
            assert!(waker.will_wake(&waker.clone()));
        }
        wakers.into_iter().for_each(Waker::wake);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

#[test]
fn wakers_outlive_their_runtime() {
    let mut wakers = Vec::new();
    with(2, |runtime| {
        for _ in 0..50 {
            let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone()));
            wakers.push(runtime.spawn(waker).join().unwrap());
            let kept = Arc::new(Mutex::new(None));
            let keeps = kept.clone();
            let never = poll_fn(move |cx| -> Poll<()> {
                *keeps.lock().unwrap() = Some(cx.waker().clone());
                Poll::Pending
            });
            runtime.spawn(never);
            wait_until("the future was polled", || kept.lock().unwrap().is_some());
            wakers.extend(kept.lock().unwrap().take());
        }
    });
    wakers.iter().for_each(Waker::wake_by_ref);
    drop(wakers);
}

#[test]
fn eight_plain_threads_wake_one_future() {
    for procs in tests::PROCS {
        with(procs, |runtime| {
            let (slot, woken) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(AtomicUsize::new(0)));
            let (keeps, count) = (slot.clone(), woken.clone());
            let task = runtime.spawn(poll_fn(move |cx| {
                *keeps.lock().unwrap() = Some(cx.waker().clone());
                if count.load(SeqCst) == 8000 { Poll::Ready(()) } else { Poll::Pending }
            }));
            wait_until("the future was polled", || slot.lock().unwrap().is_some());
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        for _ in 0..1000 {
                            woken.fetch_add(1, SeqCst);
                            let waker = slot.lock().unwrap().clone().expect("the future was polled");
                            waker.wake();
                        }
                    });
                }
            });
            task.join().unwrap();
        });
    }
}

#[test]
fn block_on_drives_futures_on_any_thread() {
    // On a plain thread.
    assert_eq!(block_on(async { spawn(async { 3 }).await.unwrap() }), 3);
    on_each(|| {
        // On a green thread.
        block_on(both(sleeps_at_least(ms(2)), woken_after(ms(1))));
        // In a poll of a task that has a sleep pending, and in a poll within that poll.
        let nested = async {
            let inner = async {
                block_on(async {
                    sleeps_at_least(ms(1)).await;
                    block_on(both(sleeps_at_least(ms(1)), woken_after(ms(1))));
                });
            };
            both(sleeps_at_least(ms(2)), inner).await;
            5
        };
        assert_eq!(spawn(nested).join().unwrap(), 5);
        assert_eq!(block_on(async { block_on(|| 7) }), 7);
    });
}

/// Returns a future that awaits a flag, which is set while an inner `block_on` is parked.
fn outer_and_inner() -> impl Future<Output = ((), ())> + Send {
    let (outer, inner) = (Flag::default(), Flag::default());
    let (sets_outer, sets_inner) = (outer.clone(), inner.clone());
    spawn(move || {
        wait_until("the inner future waits", || sets_inner.is_awaited());
        runtime::sleep(ms(1));
        // The outer future is woken while the inner future is driven.
        sets_outer.set();
        runtime::sleep(ms(1));
        sets_inner.set();
    });
    let outer = async move { outer.wait().await };
    both(outer, async move { block_on(inner.wait()) })
}

#[test]
fn an_inner_block_on_keeps_the_wake_up_of_the_outer_future() {
    on_each(|| {
        assert_eq!(spawn(outer_and_inner()).join().unwrap(), ((), ()));
        assert_eq!(block_on(outer_and_inner()), ((), ()));
    });
}

#[test]
fn an_inner_block_on_keeps_the_timer_of_an_outer_block_on() {
    on_each(|| {
        let inner = async { block_on(sleeps_at_least(ms(4))) };
        block_on(both(sleeps_at_least(ms(2)), inner));
    });
}

#[test]
fn a_future_keeps_its_address_between_polls() {
    on_each(|| {
        let tasks: Vec<_> = (0..100)
            .map(|i| {
                spawn(async move {
                    let mut values = [i; 50];
                    let first = &mut values[0] as *mut i32 as usize;
                    for _ in 0..5 {
                        sleep_async(Duration::from_micros(50)).await;
                        assert_eq!(first, &mut values[0] as *mut i32 as usize);
                    }
                    values.iter().sum::<i32>() == 50 * i
                })
            })
            .collect();
        assert!(tasks.into_iter().all(|task| task.join().unwrap()));
    });
}

#[test]
fn a_hundred_thousand_futures_sleep() {
    on_each(|| {
        let tasks: Vec<_> = (0..100_000u64)
            .map(|i| spawn(sleeps_at_least(Duration::from_micros(1000 + i % 20_000))))
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
    });
}

#[test]
fn futures_that_never_end_are_dropped_with_their_runtime() {
    let drops = Drops::default();
    let polled = Arc::new(AtomicUsize::new(0));
    for procs in tests::PROCS {
        with(procs, |runtime| {
            polled.store(0, SeqCst);
            for _ in 0..100 {
                let (token, polled) = (drops.token(), polled.clone());
                runtime.spawn(async move {
                    let _token = token;
                    polled.fetch_add(1, SeqCst);
                    std::future::pending::<()>().await;
                });
            }
            wait_until("all futures were polled", || polled.load(SeqCst) == 100);
            assert!(drops.alive() >= 100);
        });
        assert_eq!(drops.alive(), 0);
    }
}

#[test]
fn two_channels_by_turns_do_not_keep_their_task_from_a_time_out() {
    // The second is ready whenever the first is refused.
    ends("a spawned task", || {
        runtime(1).block_on(async {
            let ((s, r), (t, q)) = (runtime::channel::unbounded(), runtime::channel::unbounded());
            let by_turns = async {
                loop {
                    s.send(1).unwrap();
                    t.send(2).unwrap();
                    assert!(either(r.recv_async(), q.recv_async()).await.is_ok());
                }
            };
            assert!(timeout_async(ms(2), by_turns).await.is_err());
        });
    });
}

#[test]
fn many_loops_do_not_keep_the_branch_behind_them_from_its_turn() {
    ends("a spawned task", || {
        runtime(1).block_on(async {
            let over = AtomicBool::new(false);
            let hogs = (0..30).map(|_| async {
                let (s, r) = runtime::channel::unbounded();
                while !over.load(SeqCst) {
                    s.send(1).unwrap();
                    r.recv_async().await.unwrap();
                }
            });
            let last = async {
                sleep_async(ms(1)).await;
                over.store(true, SeqCst);
            };
            ::futures::join!(::futures::future::join_all(hogs), last);
        });
    });
}

#[test]
fn a_loop_in_a_task_gives_other_tasks_their_turn() {
    ends("one P", || {
        runtime(1).block_on(async {
            let over = Arc::new(AtomicBool::new(false));
            let sets = over.clone();
            let other = spawn(async move { sets.store(true, SeqCst) });
            let (s, r) = runtime::channel::unbounded();
            while !over.load(SeqCst) {
                s.send(1).unwrap();
                r.recv_async().await.unwrap();
            }
            other.await.unwrap();
        });
    });
}

#[test]
fn ended_threads_do_not_keep_their_joiner_from_other_branches() {
    on_each(|| {
        let threads: Vec<_> = (0..1000).map(|_| spawn(|| ())).collect();
        threads.iter().for_each(|thread| wait_until("a thread has ended", || thread.is_finished()));
        let joined = AtomicUsize::new(0);
        block_on(async {
            let joins = async {
                for thread in threads {
                    thread.await.unwrap();
                    joined.fetch_add(1, SeqCst);
                }
            };
            // The second branch is polled when the first has returned from its first poll.
            either(joins, async {}).await;
        });
        assert_eq!(joined.into_inner(), 128);
    });
}

#[test]
fn members_of_a_set_do_not_keep_their_owner_from_other_branches() {
    on_each(|| {
        let mut set = thread::JoinSet::new();
        (0..1000).for_each(|_| drop(set.spawn(|| ())));
        runtime::sleep(ms(20));
        let mut joined = 0;
        block_on(async {
            either(
                async {
                    while set.join_next_async().await.is_some() {
                        joined += 1
                    }
                },
                async {},
            )
            .await
        });
        assert!(joined <= 128, "{joined}");
        let mut polled = 0;
        let next = async {
            while poll_fn(|cx| set.poll_join_next(cx)).await.is_some() {
                polled += 1
            }
        };
        block_on(async { either(next, async {}).await });
        assert!(polled <= 128, "{polled}");
    });
}

#[test]
fn an_executor_of_another_crate_ends_within_a_poll_and_has_no_budget_outside() {
    async fn receives(times: usize) {
        let (s, r) = runtime::channel::unbounded();
        for _ in 0..times {
            s.send(1).unwrap();
            r.recv_async().await.unwrap();
        }
    }
    ends("a foreign executor in a poll", || {
        runtime(1).block_on(async {
            receives(100).await;
            drive_on_plain_thread(receives(1000));
            receives(1000).await;
        });
    });
    // No poll of this runtime is around it: one poll does all.
    let one_poll = || {
        let mut cx = Context::from_waker(Waker::noop());
        assert!(pin!(receives(1000)).poll(&mut cx).is_ready());
    };
    on(1, one_poll);
    // Also if the thread has driven a future before.
    runtime::block_on_local(receives(1000));
    one_poll();
    on(1, move || {
        block_on(receives(1000));
        one_poll();
    });
    on(1, move || {
        spawn(receives(1000)).join().unwrap();
        spawn(one_poll).join().unwrap();
    });
}

#[test]
fn a_child_that_has_exited_and_a_context_that_has_a_deadline() {
    gives_turns(|| {
        Box::pin(async {
            let mut child = tests::child::child(env!("CARGO_BIN_EXE_child"), &["exit", "0"]).spawn().unwrap();
            loop {
                child.wait_async().await.unwrap();
            }
        })
    });
    ends("a context with a deadline", || {
        runtime(1).block_on(async {
            let (context, _cancel) = runtime::context::Context::background().with_timeout(ms(2));
            let (s, r) = runtime::channel::unbounded();
            let hog = async {
                loop {
                    s.send(1).unwrap();
                    r.recv_async().await.unwrap();
                }
            };
            let result: Result<(), _> = context.run_async(hog).await;
            assert!(result.is_err());
        });
    });
}

#[test]
fn a_loop_in_a_select_gives_the_other_cases_their_turn() {
    fn select() {
        let (s, r) = runtime::channel::unbounded();
        let hog = async {
            loop {
                s.send(1).unwrap();
                r.recv_async().await.unwrap();
            }
        };
        runtime::select! {
            future(hog) -> () => unreachable!(),
            timer(ms(2)) -> _ => {}
        }
    }
    ends("a green thread", || runtime(1).block_on(select));
    ends("a poll", || runtime(1).block_on(async { select() }));
    ends("a plain OS thread", select);
}
