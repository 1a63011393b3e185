//! The stacks at which futures wait, in dumps.
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, unbounded};
use runtime::dump::{Frame, Snapshot};
use runtime::sync::oneshot;
use runtime::{Builder, JoinHandle, Runtime};
use tests::{Watchdog, wait_until};

const HOUR: Duration = Duration::from_secs(3600);

fn runtime(keep: bool) -> Runtime {
    Builder::new().procs(2).await_stacks(keep).build().unwrap()
}

/// Returns the functions of this file in which the future waits, the innermost first. There are none while it
/// is polled, when a dump shows its running stack.
fn awaits<T>(of: &JoinHandle<T>) -> Vec<&'static str> {
    let snapshot = Snapshot::take().unwrap();
    let thread = snapshot.get(of.thread().id().as_u64().get()).filter(|thread| thread.wait.is_some());
    let Some(thread) = thread else { return Vec::new() };
    let function = |frame: &Frame| {
        let is_here = frame.file.as_ref().is_some_and(|file| file.ends_with(file!()));
        function_at(frame.line.filter(|_| is_here)?)
    };
    let mut functions: Vec<_> = snapshot.stack(thread).iter().filter_map(function).collect();
    functions.dedup();
    functions
}

/// Returns the function of this file in which a line is. (With line tables alone, the debug information has
/// no path of a future's code.)
fn function_at(line: u32) -> Option<&'static str> {
    let before: Vec<&str> = include_str!("await_stacks.rs").lines().take(line as usize).collect();
    let name = |line: &&'static str| {
        let line = line.trim_start();
        line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")?.split(['(', '<']).next()
    };
    before.iter().rev().find_map(name)
}

/// Waits until the future shows just these functions.
fn wait_for<T>(of: &JoinHandle<T>, functions: &[&str]) {
    wait_until(&format!("it waits in {functions:?}"), || awaits(of) == functions);
}

async fn answered(answer: oneshot::Receiver<u32>) -> u32 {
    answer.await.unwrap_or_default()
}

async fn received(messages: &Receiver<u32>) -> u32 {
    messages.recv_async().await.unwrap_or_default()
}

/// A leaf that knows no runtime.
async fn woken_by_hand(waker: Arc<Mutex<Option<Waker>>>, ready: Arc<AtomicBool>) -> u32 {
    poll_fn(|cx| {
        *waker.lock().unwrap() = Some(cx.waker().clone());
        if ready.load(Ordering::SeqCst) { Poll::Ready(3) } else { Poll::Pending }
    })
    .await
}

async fn first_then_second(answer: oneshot::Receiver<u32>, messages: Receiver<u32>) -> u32 {
    let first = answered(answer).await;
    first + received(&messages).await
}

async fn outermost(answer: oneshot::Receiver<u32>, messages: Receiver<u32>) -> u32 {
    first_then_second(answer, messages).await
}

/// The chain of awaits is shown, and the next one when the future has gone on.
#[test]
fn a_future_shows_where_it_waits() {
    let _dog = Watchdog::new();
    runtime(true).block_on(|| {
        let ((answers, answer), (sends, messages)) = (oneshot::channel(), unbounded());
        let asker = runtime::spawn(outermost(answer, messages));
        wait_for(&asker, &["answered", "first_then_second", "outermost"]);
        answers.send(1).unwrap();
        wait_for(&asker, &["received", "first_then_second", "outermost"]);
        sends.send(2).unwrap();
        assert_eq!(asker.join().unwrap(), 3);
    });
}

#[test]
fn leaves_of_all_kinds_show_where_they_wait() {
    async fn slept() {
        runtime::time::sleep_async(HOUR).await;
    }
    async fn joined(other: JoinHandle<()>) {
        let _ = other.await;
    }
    let _dog = Watchdog::new();
    runtime(true).block_on(|| {
        let (waker, ready) = (Arc::new(Mutex::new(None::<Waker>)), Arc::new(AtomicBool::new(false)));
        let by_hand = runtime::spawn(woken_by_hand(waker.clone(), ready.clone()));
        wait_for(&by_hand, &["woken_by_hand"]);
        ready.store(true, Ordering::SeqCst);
        waker.lock().unwrap().take().unwrap().wake();
        assert_eq!(by_hand.join().unwrap(), 3);
        let sleeper = runtime::spawn(slept());
        wait_for(&sleeper, &["slept"]);
        let ends = sleeper.abort_handle();
        let joiner = runtime::spawn(joined(sleeper));
        wait_for(&joiner, &["joined"]);
        ends.cancel();
        joiner.join().unwrap();
    });
}

/// Of two branches the one that was polled last.
#[test]
fn the_last_branch_is_shown() {
    async fn both(answer: oneshot::Receiver<u32>, messages: Receiver<u32>) -> u32 {
        let (mut one, mut other) = (pin!(answered(answer)), pin!(received(&messages)));
        poll_fn(|cx| {
            let (one, other) = (one.as_mut().poll(cx), other.as_mut().poll(cx));
            if let Poll::Ready(value) = one { Poll::Ready(value) } else { other }
        })
        .await
    }
    let _dog = Watchdog::new();
    runtime(true).block_on(|| {
        let ((_answers, answer), (sends, messages)) = (oneshot::channel(), unbounded());
        let asker = runtime::spawn(both(answer, messages));
        wait_until("it waits", || awaits(&asker).first().is_some_and(|&innermost| innermost == "received"));
        sends.send(2).unwrap();
        assert_eq!(asker.join().unwrap(), 2);
    });
}

#[test]
fn no_stack_is_kept_where_none_is_asked_for() {
    let _dog = Watchdog::new();
    // Another runtime of the process asks for them.
    let other = runtime(true);
    runtime(false).block_on(|| {
        let (answers, answer) = oneshot::channel();
        let asker = runtime::spawn(answered(answer));
        tests::until_it_waits(&asker);
        assert!(awaits(&asker).is_empty());
        answers.send(1).unwrap();
        assert_eq!(asker.join().unwrap(), 1);
    });
    drop(other);
}

/// Dumps read the stacks of futures that wait and go on all the time.
#[test]
fn dumps_while_futures_wait_and_go_on() {
    let _dog = Watchdog::new();
    runtime(true).block_on(|| {
        let stop = Arc::new(AtomicBool::new(false));
        let pairs: Vec<_> = (0..8)
            .map(|_| {
                let ((asks, asked), (answers, messages)) = (unbounded(), unbounded());
                let stop = stop.clone();
                runtime::spawn(async move {
                    let mut n = 0;
                    while !stop.load(Ordering::Relaxed) {
                        n += 1;
                        asks.send(n).unwrap();
                        assert_eq!(received(&messages).await, n);
                    }
                });
                runtime::spawn(async move {
                    // 0: the other one has ended.
                    while let n @ 1.. = received(&asked).await {
                        answers.send(n).unwrap();
                    }
                })
            })
            .collect();
        let (mut seen, start) = (0, Instant::now());
        while seen < 200 && start.elapsed() < Duration::from_secs(30) {
            for pair in &pairs {
                let functions = awaits(pair);
                seen += functions.len();
                // Some were interrupted in the middle of a poll.
                let is_known =
                    |name: &&str| ["received", "dumps_while_futures_wait_and_go_on"].contains(name);
                assert!(functions.iter().all(is_known), "{functions:?}");
            }
        }
        stop.store(true, Ordering::Relaxed);
        pairs.into_iter().for_each(|pair| pair.join().unwrap());
        assert!(seen >= 200, "{seen}");
    });
}
