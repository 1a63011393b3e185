//! `select!` over things that are no channels: each case wins and loses. A case that lost leaves nothing
//! behind and takes nothing with it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context as Cx, Poll, Waker};
use std::time::{Duration, Instant};

use runtime::channel::{Receiver, bounded, unbounded};
use runtime::context::{CancelOnDrop, Context, ContextError};
use runtime::sync::{Mutex, Notify, Semaphore};
use runtime::thread::{Cancelled, JoinHandle, Thread};
use runtime::time::{Ticker, Timer, timeout};
use runtime::{select, select_biased, sleep, spawn};
use tests::crowd::{crowd, in_each};
use tests::futures::drive_on_plain_thread;
use tests::{on, on_each, quiet_panics_on_purpose, until_it_waits};

const MILLI: Duration = Duration::from_millis(1);
const LONG: Duration = Duration::from_secs(3600);

/// A future that is ready once it is set.
#[derive(Clone, Default)]
struct Switch(Arc<Mutex<(bool, Option<Waker>)>>);

impl Switch {
    fn set(&self) {
        let mut state = self.0.lock();
        state.0 = true;
        let waker = state.1.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Future for Switch {
    type Output = i32;

    fn poll(self: Pin<&mut Self>, cx: &mut Cx<'_>) -> Poll<i32> {
        let waker = cx.waker().clone();
        let mut state = self.0.lock();
        let is_set = state.0;
        let before = state.1.replace(waker);
        drop(state);
        drop(before);
        if is_set { Poll::Ready(1) } else { Poll::Pending }
    }
}

/// What a select waits for beside a channel.
struct Things {
    notify: Arc<Notify>,
    semaphore: Arc<Semaphore>,
    context: Context,
    timer: Timer,
    thread: JoinHandle<i32>,
    switch: Switch,
}

/// What makes the things happen.
struct Hands {
    notify: Arc<Notify>,
    semaphore: Arc<Semaphore>,
    cancel: CancelOnDrop,
    thread: Thread,
    switch: Switch,
}

fn things() -> (Things, Hands) {
    let (context, cancel) = Context::background().with_cancel();
    let things = Things {
        notify: Arc::default(),
        semaphore: Arc::new(Semaphore::new(0)),
        context,
        timer: Timer::new(LONG),
        thread: spawn(|| {
            runtime::thread::park();
            7
        }),
        switch: Switch::default(),
    };
    let hands = Hands {
        notify: things.notify.clone(),
        semaphore: things.semaphore.clone(),
        cancel,
        thread: things.thread.thread().clone(),
        switch: things.switch.clone(),
    };
    (things, hands)
}

impl Hands {
    fn act(&self, name: &str) {
        match name {
            "notified" => self.notify.notify_one(),
            "acquired" => self.semaphore.add_permits(1),
            "done" => self.cancel.cancel(),
            "join" => self.thread.unpark(),
            "future" => self.switch.set(),
            other => panic!("{other}"),
        }
    }
}

impl Things {
    /// Waits for all of these, and for some of them twice. Returns the name of the chosen case.
    fn select(&mut self, messages: &Receiver<i32>, time: Duration) -> &'static str {
        select! {
            recv(messages) -> _ => "message",
            notified(self.notify) -> () => "notified",
            notified(self.notify) -> () => "notified",
            acquired(self.semaphore) -> permit => {
                permit.unwrap().forget();
                "acquired"
            }
            acquired(&*self.semaphore) -> permit => {
                permit.unwrap().forget();
                "acquired"
            }
            done(self.context) -> why => {
                assert_eq!(why, ContextError::Canceled);
                "done"
            }
            done(&self.context) -> _ => "done",
            timer(self.timer) -> _ => "timer",
            join(&mut self.thread) -> result => {
                assert_eq!(result.unwrap(), 7);
                "join"
            }
            future(&mut self.switch) -> n => {
                assert_eq!(n, 1);
                "future"
            }
            default(time) => "default",
        }
    }

    /// Checks that no earlier select has left anything behind or taken anything.
    fn check_untouched(self, hands: &Hands) {
        assert!(!is_kept(&self.notify));
        hands.notify.notify_one();
        assert!(is_kept(&self.notify), "a select that is over has taken the notification");
        assert_eq!(self.semaphore.available_permits(), 0);
        hands.semaphore.add_permits(1);
        assert_eq!(self.semaphore.available_permits(), 1, "a select that is over has taken the permit");
        assert!(self.timer.stop());
        assert!(self.context.err().is_none());
        hands.thread.unpark();
        assert_eq!(self.thread.join().unwrap(), 7);
        let waits = Arc::strong_count(&self.switch.0);
        assert_eq!(waits, 2, "the future is not dropped");
        hands.switch.set();
        assert_eq!(drive_on_plain_thread(self.switch), 1);
    }
}

fn is_kept(notify: &Notify) -> bool {
    select! {
        notified(notify) -> () => true,
        default => false,
    }
}

const NAMES: [&str; 5] = ["notified", "acquired", "done", "join", "future"];

#[test]
fn each_case_wins_before_and_after_the_select_waits() {
    in_each(|| {
        for name in NAMES {
            for waits in [false, true] {
                let (mut things, hands) = things();
                let (_sender, messages) = unbounded();
                let acts = move || {
                    sleep(MILLI);
                    hands.act(name);
                    hands
                };
                let acting = spawn(acts);
                let hands = if waits {
                    assert_eq!(things.select(&messages, LONG), name);
                    acting.join().unwrap()
                } else {
                    let hands = acting.join().unwrap();
                    if name == "join" {
                        tests::wait_until("the thread has ended", || things.thread.is_finished());
                    }
                    assert_eq!(things.select(&messages, Duration::ZERO), name);
                    hands
                };
                assert!(!is_kept(&things.notify));
                assert_eq!(things.semaphore.available_permits(), 0);
                drop(hands);
            }
        }
    });
}

#[test]
fn each_case_loses_to_a_message_and_leaves_nothing_behind() {
    in_each(|| {
        for waits in [false, true] {
            let (mut things, hands) = things();
            let (sender, messages) = bounded(1);
            if waits {
                let sending = spawn(move || {
                    sleep(MILLI);
                    sender.send(1).unwrap();
                });
                assert_eq!(things.select(&messages, LONG), "message");
                sending.join().unwrap();
            } else {
                sender.send(1).unwrap();
                assert_eq!(things.select(&messages, LONG), "message");
            }
            things.check_untouched(&hands);
        }
    });
}

#[test]
fn a_time_out_leaves_nothing_behind() {
    in_each(|| {
        let (mut things, hands) = things();
        let (_sender, messages) = unbounded();
        let start = Instant::now();
        assert_eq!(things.select(&messages, 2 * MILLI), "default");
        assert!(start.elapsed() >= 2 * MILLI);
        assert_eq!(things.select(&messages, Duration::ZERO), "default");
        assert!(timeout(MILLI, || things.select(&messages, LONG)).is_err());
        things.check_untouched(&hands);
    });
}

#[test]
fn a_cancellation_leaves_nothing_behind() {
    on_each(|| {
        let (mut things, hands) = things();
        let (back, returned) = bounded(1);
        let thread = spawn(move || {
            let (_sender, messages) = unbounded();
            let chosen = catch_unwind(AssertUnwindSafe(|| things.select(&messages, LONG)));
            let error = chosen.expect_err("a cancelled select unwinds");
            assert!(error.is::<Cancelled>());
            back.send(things).unwrap_or_else(|_| panic!("the test receives"));
        });
        until_it_waits(&thread);
        thread.cancel();
        returned.recv().unwrap().check_untouched(&hands);
        thread.join().unwrap();
    });
}

#[test]
fn what_a_select_was_granted_too_late_goes_to_the_next() {
    // In one arm the select is chosen by a message. The permit and the notification that it was given at the
    // same time must go on to the thread behind it.
    on(1, || {
        let (notify, semaphore) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(0)));
        let (sender, messages) = bounded(1);
        let selects = {
            let (notify, semaphore) = (notify.clone(), semaphore.clone());
            spawn(move || {
                select_biased! {
                    recv(messages) -> _ => {
                        // The arm keeps the thread until the others have what they want.
                        runtime::thread::park();
                    }
                    notified(notify) -> () => panic!("the message came first"),
                    acquired(semaphore) -> _ => panic!("the message came first"),
                }
            })
        };
        until_it_waits(&selects);
        let (next, another) = {
            let (notify, semaphore) = (notify.clone(), semaphore.clone());
            (spawn(move || notify.notified()), spawn(move || semaphore.acquire().unwrap().forget()))
        };
        until_it_waits(&next);
        until_it_waits(&another);
        // With one P the select runs after all three.
        sender.send(()).unwrap();
        notify.notify_one();
        semaphore.add_permits(1);
        next.join().unwrap();
        another.join().unwrap();
        selects.thread().unpark();
        selects.join().unwrap();
        assert!(!is_kept(&notify));
        assert_eq!(semaphore.available_permits(), 0);
    });
}

#[test]
fn results_are_patterns_and_arms_leave_the_macro() {
    fn first(messages: &Receiver<Result<i32, String>>) -> Result<i32, String> {
        let mut turns = 0;
        loop {
            let n = select! {
                recv(messages) -> received => {
                    let Ok(received) = received else { break };
                    received?
                }
                future(async { (1, [2, 3]) }) -> (one, [two, _three]) => {
                    turns += 1;
                    if turns < 50 {
                        continue;
                    }
                    if messages.is_empty() {
                        return Ok(one + two);
                    }
                    one
                }
            };
            if n != 1 {
                return Ok(n);
            }
        }
        Err("disconnected".into())
    }
    in_each(|| {
        let (sender, messages) = unbounded();
        assert_eq!(first(&messages), Ok(3));
        sender.send(Ok(9)).unwrap();
        assert_eq!(first(&messages), Ok(9));
        sender.send(Err("no".into())).unwrap();
        assert_eq!(first(&messages), Err("no".into()));
        drop(sender);
        assert_eq!(first(&messages), Err("disconnected".into()));
    });
}

#[test]
fn ready_cases_are_chosen_in_turn() {
    in_each(|| {
        let (sender, messages) = unbounded();
        let semaphore = Semaphore::new(1);
        let mut chosen = [0; 4];
        for _ in 0..1000 {
            sender.send(()).unwrap();
            let at = select! {
                recv(messages) -> _ => 0,
                acquired(semaphore) -> _ => 1,
                future(async {}) -> () => 2,
                timer(Duration::ZERO) -> _ => 3,
            };
            chosen[at] += 1;
            // The first case that is ready.
            select_biased! {
                join(spawn(runtime::thread::park)) -> _ => unreachable!("it parks for ever"),
                acquired(semaphore) -> _ => {}
                future(async {}) -> () => unreachable!("the second is ready"),
            }
        }
        assert!(chosen.iter().all(|&times| times > 150), "{chosen:?}");
    });
}

#[test]
fn timers_of_each_kind() {
    in_each(|| {
        let start = Instant::now();
        let (timer, ticker) = (Timer::new(LONG), Ticker::new(MILLI));
        for _ in 0..3 {
            select! {
                timer(timer) -> _ => unreachable!("an hour is not over"),
                timer(&ticker) -> tick => assert!(tick <= Instant::now()),
                timer(LONG) -> _ => unreachable!("an hour is not over"),
                timer(start + LONG) -> _ => unreachable!("an hour is not over"),
            }
        }
        assert!(start.elapsed() >= 3 * MILLI);
        timer.reset(MILLI);
        let due = select! {
            timer(timer) -> due => due,
            default(LONG) => unreachable!("an hour is not over"),
        };
        assert!(due <= Instant::now());
        select! { timer(MILLI) -> _ => {} }
        select! { timer(Instant::now() + MILLI) -> _ => {} }
    });
}

#[test]
fn a_cancelled_and_a_panicked_thread_are_joined() {
    quiet_panics_on_purpose();
    in_each(|| {
        let mut parked = spawn(runtime::thread::park);
        select! {
            join(&mut parked) -> _ => unreachable!("it parks for ever"),
            default(MILLI) => parked.cancel(),
        }
        select! { join(parked) -> result => assert!(result.unwrap_err().is::<Cancelled>()) }
        select! { join(spawn(|| panic!("on purpose"))) -> result => assert!(result.is_err()) }
        // Of two, and scoped ones.
        runtime::scope(|s| {
            let n = select! {
                join(s.spawn(|| 1)) -> n => n.unwrap(),
                join(s.spawn(|| 2)) -> n => n.unwrap(),
            };
            assert!([1, 2].contains(&n));
        });
    });
}

#[test]
fn no_notification_permit_or_message_is_lost_among_many_selects() {
    const TURNS: usize = 150;
    in_each(|| {
        let (notify, semaphore) = (Notify::new(), Semaphore::new(2));
        let (sender, messages) = bounded(1);
        let (notified, received, inside) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let sender = Mutex::new(Some(sender));
        crowd(6, 2, |number| {
            match number {
                0 => {
                    let sender = sender.lock().take().unwrap();
                    (0..TURNS).for_each(|n| sender.send(n).unwrap());
                    // The last notification has been counted before this thread ends the others.
                    tests::wait_until("all are notified", || notified.load(SeqCst) == TURNS);
                }
                1 => {
                    for n in 0..TURNS {
                        notify.notify_one();
                        // A notification that a select loses would never be counted.
                        tests::wait_until("the notification is taken", || notified.load(SeqCst) > n);
                    }
                }
                _ => loop {
                    select! {
                        recv(messages) -> n => match n {
                            Ok(_) => _ = received.fetch_add(1, SeqCst),
                            Err(_) => break,
                        },
                        notified(notify) -> () => _ = notified.fetch_add(1, SeqCst),
                        acquired(semaphore) -> permit => {
                            let permit = permit.unwrap();
                            assert!(inside.fetch_add(1, SeqCst) < 2);
                            runtime::yield_now();
                            inside.fetch_sub(1, SeqCst);
                            drop(permit);
                            // A thread that only acquires, in the same line as the selects.
                            if number == 2 {
                                drop(semaphore.acquire().unwrap());
                            }
                        }
                        timer(20 * Duration::from_micros(1)) -> _ => {}
                    }
                },
            }
        });
        assert_eq!((notified.load(SeqCst), received.load(SeqCst)), (TURNS, TURNS));
        assert_eq!(semaphore.available_permits(), 2);
        assert!(!is_kept(&notify));
    });
}

#[test]
fn cancelled_selects_pass_on_what_they_were_granted() {
    on_each(|| {
        let (notify, semaphore) = (Arc::new(Notify::new()), Arc::new(Semaphore::new(1)));
        let got = Arc::new(AtomicUsize::new(0));
        for turn in 0..200 {
            let victim = {
                let (notify, semaphore, got) = (notify.clone(), semaphore.clone(), got.clone());
                spawn(move || {
                    let held = semaphore.acquire().unwrap();
                    select! {
                        notified(notify) -> () => _ = got.fetch_add(1, SeqCst),
                        acquired(semaphore) -> _ => unreachable!("this thread holds the permit"),
                    }
                    drop(held);
                })
            };
            if turn % 2 == 0 {
                until_it_waits(&victim);
            }
            let waker = {
                let notify = notify.clone();
                spawn(move || notify.notify_one())
            };
            victim.cancel();
            let _either = victim.join();
            waker.join().unwrap();
            // The victim has taken the notification, or it is there for the next.
            let before = got.swap(0, SeqCst);
            assert_eq!(before + usize::from(is_kept(&notify)), 1, "turn {turn}");
            assert_eq!(semaphore.available_permits(), 1);
        }
    });
}
