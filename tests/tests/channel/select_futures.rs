//! Futures in a `select!`: when they are polled, woken and dropped.

use std::cell::Cell;
use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use runtime::channel::{bounded, unbounded};
use runtime::sync::{Mutex, Notify, oneshot};
use runtime::time::sleep_async;
use runtime::{select, select_biased, sleep, spawn};
use tests::crowd::{Spinners, in_each};
use tests::futures::Flag;
use tests::{Drops, OnDrop, on_each, panics_with, quiet_panics_on_purpose};

const MILLI: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

#[test]
fn the_losers_are_dropped_before_the_arm_runs() {
    in_each(|| {
        let drops = Drops::default();
        let guarded = |token| async move {
            let _token = token;
            pending::<()>().await;
        };
        let (sender, messages) = bounded(2);
        sender.send(1).unwrap();
        let seen = select! {
            recv(messages) -> _ => drops.alive(),
            future(guarded(drops.token())) -> () => unreachable!("it is never ready"),
        };
        assert_eq!(seen, 0);
        let seen = select! {
            future(guarded(drops.token())) -> () => unreachable!("it is never ready"),
            future(guarded(drops.token())) -> () => unreachable!("it is never ready"),
            default(MILLI) => drops.alive(),
        };
        assert_eq!(seen, 0);
        // Also before the message of a send is evaluated.
        select! {
            future(guarded(drops.token())) -> () => unreachable!("it is never ready"),
            send(sender, { assert_eq!(drops.alive(), 0); 2 }) -> sent => sent.unwrap(),
        }
        assert_eq!(messages.recv(), Ok(2));
        assert_eq!(drops.count(), 4);
    });
}

#[test]
fn a_future_that_is_borrowed_goes_on_after_it_lost() {
    in_each(|| {
        let start = Instant::now();
        let mut sleeps = sleep_async(5 * MILLI);
        let (sender, messages) = unbounded();
        let sending = spawn(move || {
            for n in 0..3 {
                sender.send(n).unwrap();
                sleep(MILLI);
            }
        });
        let mut received = 0;
        loop {
            select! {
                recv(messages) -> n => match n {
                    Ok(_) => received += 1,
                    Err(_) => {
                        // The channel is disconnected, and the sleep may go on alone.
                        select! { future(&mut sleeps) -> () => break };
                    }
                },
                future(&mut sleeps) -> () => break,
            }
        }
        assert!(start.elapsed() >= 5 * MILLI);
        sending.join().unwrap();
        assert!(received <= 3);
    });
}

#[test]
fn many_cases_of_which_the_last_is_ready() {
    in_each(|| {
        let (_sender, messages) = unbounded::<usize>();
        for which in 0..2 {
            let flags: [Flag; 2] = Default::default();
            let sets = flags[which].clone();
            let setting = spawn(move || {
                sleep(MILLI);
                sets.set();
            });
            let chosen = select! {
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                future(pending::<usize>()) -> n => n,
                recv(messages) -> n => n.unwrap(),
                recv(messages) -> n => n.unwrap(),
                future(flags[0].wait()) -> () => 0,
                future(flags[1].wait()) -> () => 1,
            };
            assert_eq!(chosen, which);
            setting.join().unwrap();
        }
    });
}

#[test]
fn oneshot_receivers_by_their_futures() {
    in_each(|| {
        let (sender, mut receiver) = oneshot::channel();
        let (_never, parked) = oneshot::channel::<()>();
        let sending = spawn(move || {
            sleep(MILLI);
            sender.send(5).unwrap();
        });
        let got = select! {
            future(&mut receiver) -> got => got,
            future(parked) -> _ => unreachable!("its sender sends nothing"),
        };
        assert_eq!(got, Ok(5));
        sending.join().unwrap();
    });
}

#[test]
fn a_waker_that_is_called_late_or_often_harms_nothing() {
    in_each(|| {
        let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
        let polls = Cell::new(0);
        for round in 0..20 {
            let mut ready = false;
            let n = select! {
                future(poll_fn(|cx| {
                    polls.set(polls.get() + 1);
                    kept.lock().push(cx.waker().clone());
                    // Wakes itself, and any earlier select that is over.
                    kept.lock().iter().for_each(Waker::wake_by_ref);
                    if std::mem::replace(&mut ready, true) { Poll::Ready(round) } else { Poll::Pending }
                })) -> n => n,
                future(pending::<i32>()) -> n => n,
            };
            assert_eq!(n, round);
        }
        assert_eq!(polls.get(), 40);
        // The thread's later waits are not ended by them.
        let wakers = kept.lock().clone();
        let waking = std::thread::spawn(move || wakers.into_iter().for_each(Waker::wake));
        let start = Instant::now();
        sleep(3 * MILLI);
        assert!(start.elapsed() >= 3 * MILLI);
        while !waking.is_finished() {
            sleep(MILLI);
        }
    });
}

#[test]
fn a_future_that_panics_or_parks_in_its_poll_or_destructor() {
    quiet_panics_on_purpose();
    in_each(|| {
        let notify = Notify::new();
        panics_with("on purpose", || {
            select! {
                notified(notify) -> () => {}
                future(async { panic!("on purpose") }) -> () => {}
            }
        });
        let (sender, messages) = bounded(1);
        sender.send(()).unwrap();
        panics_with("on purpose", || {
            select_biased! {
                notified(notify) -> () => {}
                future(async {
                    let _bomb = OnDrop(|| panic!("on purpose"));
                    pending::<()>().await;
                }) -> () => {}
                recv(messages) -> _ => unreachable!("the destructor panics"),
            }
        });
        panics_with("on purpose", || {
            let mut polled = false;
            let _bomb = select! {
                future(poll_fn(|_| {
                    assert!(!std::mem::replace(&mut polled, true));
                    Poll::<()>::Pending
                })) -> () => None,
                future(async { OnDrop(|| panic!("on purpose")) }) -> bomb => Some(bomb),
            };
        });
        assert!(!messages.is_empty(), "the message that the select had received is back");
        notify.notify_one();
        select! {
            notified(notify) -> () => {}
            default => panic!("a select that unwound has taken the notification"),
        }
        // A poll that parks, one with a select of its own, and a destructor that parks.
        let n = select! {
            future(async {
                sleep(MILLI);
                select! {
                    timer(MILLI) -> _ => {}
                    notified(notify) -> () => unreachable!("its notification was taken"),
                }
                3
            }) -> n => n,
            future(async {
                let _parks = OnDrop(|| sleep(MILLI));
                pending::<i32>().await
            }) -> n => n,
        };
        assert_eq!(n, 3);
    });
}

#[test]
fn a_poll_that_parks_stays_on_its_os_thread() {
    on_each(|| {
        let spinners = Spinners::new(4);
        for _ in 0..20 {
            select! {
                future(async {
                    let here = tests::os_thread();
                    for _ in 0..3 {
                        sleep(MILLI / 10);
                        assert_eq!(tests::os_thread(), here);
                    }
                }) -> () => {}
                timer(LONG) -> _ => unreachable!("an hour is not over"),
            }
        }
        drop(spinners);
    });
}

#[test]
fn a_select_in_the_poll_of_a_task() {
    in_each(|| {
        let notify = Arc::new(Notify::new());
        let ((sender, messages), (tells, told)) = (unbounded(), unbounded());
        let task = {
            let notify = notify.clone();
            spawn(async move {
                let mut notified = 0;
                loop {
                    sleep_async(Duration::ZERO).await;
                    select! {
                        notified(notify) -> () => {
                            notified += 1;
                            tells.send(()).unwrap();
                        }
                        recv(messages) -> n => return (n, notified),
                        default(MILLI) => {}
                    }
                }
            })
        };
        notify.notify_one();
        told.recv().unwrap();
        sender.send(1).unwrap();
        assert_eq!(task.join().unwrap(), (Ok(1), 1));
    });
}
