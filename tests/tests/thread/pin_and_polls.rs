//! A pinned green thread on an OS thread to which futures must return, because they parked inside a poll on
//! that OS thread.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, bounded};
use runtime::thread::{PinGuard, pin};
use runtime::{Builder, JoinHandle, Runtime, spawn};
use tests::{OsThread, on, os_thread, with_built};

const MILLI: Duration = Duration::from_millis(1);

/// A future that is parked inside a poll.
struct Parked<T> {
    go: Go,
    poll: JoinHandle<Option<T>>,
    /// The OS thread of the poll.
    os: OsThread,
}

/// Spawns a future that receives inside its poll, and returns after the poll has begun. The poll runs `then`
/// if it is sent on its way, and only ends if the sender is dropped.
fn parked_poll<T: Send + 'static>(then: impl FnOnce() -> T + Send + 'static) -> Parked<T> {
    let (go, receiver): (_, Receiver<()>) = bounded(1);
    let (begins, begun) = bounded(1);
    let poll = spawn(async move {
        let os = os_thread();
        begins.send(os).unwrap();
        let goes_on = receiver.recv();
        assert_eq!(os_thread(), os, "a poll has changed its OS thread");
        goes_on.ok().map(|()| then())
    });
    Parked { os: begun.recv().unwrap(), go: Go(go), poll }
}

/// Parks `N` polls on the OS thread of the caller, and pins the caller there. On a slow machine sysmon takes
/// the P from a poll that has no processor. Then the caller is elsewhere, and it tries again.
fn pinned_beside_polls<const N: usize>(
    then: impl Fn() + Clone + Send + 'static,
) -> (PinGuard, [Parked<()>; N]) {
    for _ in 0..50 {
        let polls = [(); N].map(|()| parked_poll(then.clone()));
        let pinned = pin();
        if polls.iter().all(|poll| poll.os == os_thread()) {
            return (pinned, polls);
        }
        drop(pinned);
        for Parked { go, poll, .. } in polls.into_iter().rev() {
            drop(go);
            assert_eq!(poll.join().unwrap(), None);
        }
    }
    panic!("no polls were parked on the OS thread of the caller");
}

struct Go(runtime::channel::Sender<()>);

impl Go {
    fn send(&self) {
        self.0.send(()).unwrap();
    }
}

/// Runs `f` with a single P, and so on a single OS thread, unless an OS thread is blocked.
fn on_one_p(f: impl FnOnce() + Send + 'static) {
    on(1, f);
}

#[test]
fn a_pinned_thread_may_wait_for_a_poll_on_its_os_thread() {
    on_one_p(|| {
        let (pinned, [Parked { go, poll, os }]) = pinned_beside_polls(|| ());
        go.send();
        assert_eq!(poll.join().unwrap(), Some(()));
        assert_eq!(os_thread(), os);
        drop(pinned);
    });
}

#[test]
fn a_poll_runs_while_a_pinned_thread_on_its_os_thread_sleeps() {
    on_one_p(|| {
        let (hand, handed) = bounded(1);
        let pinned = spawn(move || {
            let (_pinned, [parked]) = pinned_beside_polls(|| ());
            hand.send(parked).unwrap();
            loop {
                runtime::sleep(MILLI);
            }
        });
        let Parked { go, poll, .. } = handed.recv().unwrap();
        runtime::sleep(5 * MILLI);
        go.send();
        assert_eq!(poll.join().unwrap(), Some(()));
        pinned.cancel();
        assert!(pinned.join().is_err());
    });
}

#[test]
fn no_other_green_thread_runs_on_the_os_thread_of_a_pinned_thread() {
    no_other_green_thread_runs_beside_a_pinned_one(Builder::new());
}

/// The second of two polls has thread-locals of its own then, and may be followed at once by a closure.
#[test]
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(asan, portable))
))]
fn no_other_green_thread_with_thread_locals_of_its_own_runs_there() {
    let builder = Builder::new().thread_locals(runtime::ThreadLocals::OfGreenThread);
    no_other_green_thread_runs_beside_a_pinned_one(builder);
}

fn no_other_green_thread_runs_beside_a_pinned_one(builder: Builder) {
    with_built(builder.procs(1), |runtime| {
        runtime.block_on(|| {
            let waits = || {
                for _ in 0..500 {
                    runtime::yield_now();
                    assert_ne!(spawn(os_thread).join().unwrap(), os_thread(), "while a poll waits");
                }
            };
            let (_pinned, [first, second]) = pinned_beside_polls(waits);
            let os = os_thread();
            for round in 0..20 {
                let others: Vec<_> = (0..4).map(|_| spawn(os_thread)).collect();
                match round % 3 {
                    0 => runtime::sleep(MILLI),
                    1 => runtime::yield_now(),
                    _ => (),
                }
                if round == 10 {
                    second.go.send();
                }
                for other in others {
                    assert_ne!(other.join().unwrap(), os, "another green thread ran on the OS thread");
                }
                assert_eq!(os_thread(), os);
            }
            assert_eq!(second.poll.join().unwrap(), Some(()));
            first.go.send();
            assert_eq!(first.poll.join().unwrap(), Some(()));
        });
    });
}

/// Each poll may be inside a scoped context of the OS thread, and scoped contexts nest.
#[test]
fn polls_pinned_on_the_same_os_thread_resume_in_reverse_order() {
    on_one_p(|| {
        // On a slow machine sysmon takes the P from one poll, and the other is polled elsewhere.
        let order = (0..50).find_map(|_| order_on_the_same_os_thread()).expect("polls on one OS thread");
        let nested = [("first", "enters"), ("second", "enters"), ("second", "leaves"), ("first", "leaves")];
        assert_eq!(order, nested);
    });
}

/// Pins two polls, and lets the first go on before the second. Returns what they do; `None` if they were on
/// different OS threads.
fn order_on_the_same_os_thread() -> Option<Vec<(&'static str, &'static str)>> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let waits = |name: &'static str| {
        let (order, (may_leave, receiver)) = (order.clone(), bounded::<()>(1));
        let then = move || {
            let _pinned = pin();
            order.lock().unwrap().push((name, "enters"));
            receiver.recv().unwrap();
            order.lock().unwrap().push((name, "leaves"));
        };
        (Go(may_leave), then)
    };
    let until_entered = |polls| tests::wait_until("it enters", || order.lock().unwrap().len() == polls);
    let ((leave_second, then_second), (leave_first, then_first)) = (waits("second"), waits("first"));
    let (second, first) = (parked_poll(then_second), parked_poll(then_first));
    first.go.send();
    until_entered(1);
    second.go.send();
    until_entered(2);
    // The first poll may go on, and must wait for the second, which goes on later.
    leave_first.send();
    runtime::sleep(10 * MILLI);
    leave_second.send();
    assert_eq!((first.poll.join().unwrap(), second.poll.join().unwrap()), (Some(()), Some(())));
    let order = order.lock().unwrap().clone();
    (first.os == second.os).then_some(order)
}

/// All OS threads of the runtime are reserved or asleep. Each must watch the timers itself.
#[test]
fn timed_waits_end_without_further_os_threads() {
    with_built(Builder::new().procs(1).max_threads(1), |runtime: &Runtime| {
        runtime.block_on(|| {
            let Parked { go, poll, .. } = parked_poll(|| runtime::sleep(10 * MILLI));
            let _pinned = pin();
            let start = Instant::now();
            runtime::sleep(5 * MILLI);
            go.send();
            poll.join().unwrap();
            assert!(start.elapsed() >= 15 * MILLI);
            assert!(start.elapsed() < Duration::from_secs(5), "woken by rescue: {:?}", start.elapsed());
        });
    });
}

#[test]
fn polls_and_pinned_threads_take_turns_on_every_os_thread() {
    for procs in [1, 2, 8] {
        with_built(Builder::new().procs(procs).sysmon(false), |runtime| {
            let done = Arc::new(AtomicUsize::new(0));
            let (ask, asked) = bounded::<runtime::channel::Sender<usize>>(0);
            // Each future answers inside a poll, which parks for every question.
            let answer: Vec<_> = (0..4)
                .map(|_| {
                    let asked = asked.clone();
                    runtime.spawn(async move {
                        let os = os_thread();
                        while let Ok(reply) = asked.recv() {
                            runtime::yield_now();
                            assert_eq!(os_thread(), os);
                            reply.send(1).unwrap();
                        }
                    })
                })
                .collect();
            drop(asked);
            let pinned: Vec<_> = (0..8)
                .map(|number| {
                    let (ask, done) = (ask.clone(), done.clone());
                    runtime.spawn(move || {
                        for round in 0..200 {
                            let _pinned = pin();
                            let os = os_thread();
                            let (reply, replied) = bounded(1);
                            ask.send(reply).unwrap();
                            done.fetch_add(replied.recv().unwrap(), SeqCst);
                            if (round + number) % 5 == 0 {
                                runtime::sleep(Duration::from_micros(50));
                            }
                            assert_eq!(os_thread(), os);
                        }
                    })
                })
                .collect();
            drop(ask);
            pinned.into_iter().for_each(|pinned| pinned.join().unwrap());
            answer.into_iter().for_each(|answer| answer.join().unwrap());
            assert_eq!(done.load(SeqCst), 8 * 200);
        });
    }
}

/// Each reserved OS thread once woke for the timers of all green threads.
#[cfg(target_os = "linux")]
#[test]
fn a_reserved_os_thread_does_not_wake_for_the_timers_of_others() {
    tests::alone!();
    const RESERVED: usize = 30;
    on_one_p(|| {
        let over = Arc::new(AtomicUsize::new(0));
        let rounds = Arc::new(AtomicUsize::new(0));
        let sleeper = spawn({
            let (over, rounds) = (over.clone(), rounds.clone());
            move || {
                while over.load(SeqCst) == 0 {
                    runtime::sleep(MILLI);
                    rounds.fetch_add(1, SeqCst);
                }
            }
        });
        // How often OS threads sleep, for each time that the timer fires.
        let sleeps_beside = || {
            let before = (tests::system::sleeps(""), rounds.load(SeqCst));
            runtime::sleep(300 * MILLI);
            let after = (tests::system::sleeps(""), rounds.load(SeqCst));
            (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
        };
        let without = sleeps_beside();
        let stays: Vec<_> = (0..RESERVED)
            .map(|_| {
                let (poll, ready) = bounded(1);
                let (go, pinned_go): (_, Receiver<()>) = bounded(1);
                let (tell, told) = bounded(1);
                // Its poll parks on the OS thread on which it then spawns the pinned one.
                let thread = spawn(async move {
                    let (tell_poll, receiver) = bounded::<()>(1);
                    let os = os_thread();
                    let pinned = spawn(move || {
                        let _pin = pin();
                        tell.send(os_thread() == os).unwrap();
                        pinned_go.recv().unwrap();
                    });
                    poll.send(tell_poll).unwrap();
                    receiver.recv().unwrap();
                    // Not the handle itself, which is a future, too.
                    (pinned,)
                });
                (go, ready.recv().unwrap(), thread, told.recv().unwrap())
            })
            .collect();
        let reserved = stays.iter().filter(|stay| stay.3).count();
        let with = sleeps_beside();
        eprintln!("{without:.1} sleeps of OS threads a round, {with:.1} beside {reserved} reserved ones");
        over.store(1, SeqCst);
        sleeper.join().unwrap();
        assert!(reserved > RESERVED / 2, "{reserved}");
        // Each reserved OS thread that woke would add one.
        assert!(with < without + 4.0, "{with} against {without}");
        for (go, poll, thread, _) in stays {
            poll.send(()).unwrap();
            go.send(()).unwrap();
            thread.join().unwrap().0.join().unwrap();
        }
    });
}

/// All OS threads are reserved, and no other can be had: the timers fire, and the network is watched.
#[test]
fn reserved_os_threads_watch_if_no_other_can_be_had() {
    use std::io::{Read, Write};
    for (sysmon, most) in [(true, 1), (false, 1), (true, 2), (false, 2)] {
        with_built(Builder::new().procs(1).max_threads(most).sysmon(sysmon), |runtime: &Runtime| {
            runtime.block_on(|| {
                for _ in 0..20 {
                    let Parked { go, poll, .. } = parked_poll(|| ());
                    let (near, mut far) = tests::sockets::connected();
                    let reader = spawn(move || {
                        let mut near = near;
                        near.read_exact(&mut [0]).unwrap();
                    });
                    let sleeper = spawn(|| runtime::sleep(3 * MILLI));
                    let pinned = spawn(|| {
                        let _pin = pin();
                        runtime::sleep(5 * MILLI);
                    });
                    sleeper.join().unwrap();
                    far.write_all(b"x").unwrap();
                    reader.join().unwrap();
                    pinned.join().unwrap();
                    go.send();
                    poll.join().unwrap();
                }
            });
        });
    }
}
