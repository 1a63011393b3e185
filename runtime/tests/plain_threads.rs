//! All that waits, on plain OS threads alone: no scheduler and no switch of stacks, so that Miri can run it
//! (`ci/miri.sh`).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use runtime::channel::{self, Receiver, RecvTimeoutError, Select, Sender, TrySendError};
use runtime::select;
use runtime::sync::{
    Barrier, Condvar, FairMutex, LazyLock, Mutex, Notify, Once, OnceLock, ReentrantMutex, RwLock, Semaphore,
    WaitGroup,
};
use runtime::time::{Ticker, Timer};

/// Miri explores one order for each seed and is slow. Elsewhere there is time for many rounds.
const ROUNDS: usize = if cfg!(miri) { 8 } else { 2_000 };
const THREADS: usize = 3;
const SHORT: Duration = Duration::from_micros(if cfg!(miri) { 2_000 } else { 50 });
const LONG: Duration = Duration::from_secs(600);

/// Runs `f` on `threads` OS threads at once. Each gets its number.
fn on_threads(threads: usize, f: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for number in 0..threads {
            let f = &f;
            scope.spawn(move || f(number));
        }
    });
}

// Locks ---------------------------------------------------------------------------------------------------

#[test]
fn a_mutex_has_one_owner() {
    let count = Mutex::new(0);
    on_threads(THREADS, |_| {
        for _ in 0..ROUNDS {
            *count.lock() += 1;
            if let Some(mut count) = count.try_lock_for(SHORT) {
                *count += 1;
                thread::yield_now();
                drop(count);
            } else {
                *count.lock() += 1;
            }
        }
    });
    assert_eq!(count.into_inner(), 2 * THREADS * ROUNDS);
}

#[test]
fn fair_and_reentrant_mutexes_have_one_owner() {
    let (fair, reentrant) = (FairMutex::new(0), ReentrantMutex::new(std::cell::Cell::new(0)));
    on_threads(THREADS, |_| {
        for _ in 0..ROUNDS {
            *fair.lock() += 1;
            let outer = reentrant.lock();
            thread::yield_now();
            let inner = reentrant.lock();
            inner.set(outer.get() + 1);
        }
    });
    assert_eq!(fair.into_inner(), THREADS * ROUNDS);
    assert_eq!(reentrant.into_inner().get(), THREADS * ROUNDS);
}

/// The last owner frees the mutex while the owner before may still be unlocking it.
#[test]
fn a_mutex_is_freed_by_its_last_owner() {
    for _ in 0..ROUNDS {
        let shared = Arc::new(Mutex::new(0));
        let threads = [(); THREADS].map(|()| {
            let shared = shared.clone();
            thread::spawn(move || *shared.lock() += 1)
        });
        while *shared.lock() < THREADS {
            thread::yield_now();
        }
        drop(shared);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_rwlock_has_readers_or_a_writer() {
    let lock = RwLock::new([0, 0]);
    on_threads(THREADS, |number| {
        for round in 0..ROUNDS {
            match (number + round) % 4 {
                0 => {
                    let mut pair = lock.write();
                    pair[0] += 1;
                    thread::yield_now();
                    pair[1] += 1;
                }
                1 => {
                    let pair = lock.upgradable_read();
                    assert_eq!(pair[0], pair[1]);
                    let mut pair = runtime::sync::RwLockUpgradableReadGuard::upgrade(pair);
                    pair[0] += 1;
                    pair[1] += 1;
                }
                2 => {
                    if let Some(pair) = lock.try_read_for(SHORT) {
                        thread::yield_now();
                        assert_eq!(pair[0], pair[1]);
                    }
                }
                _ => {
                    let pair = lock.read();
                    assert_eq!(pair[0], pair[1]);
                }
            }
        }
    });
    let [first, second] = lock.into_inner();
    assert_eq!(first, second);
}

#[test]
fn each_permit_that_is_notified_is_taken() {
    let (permits, condition) = (Mutex::new(0), Condvar::new());
    let taken = AtomicUsize::new(0);
    on_threads(THREADS + 1, |number| {
        if number == THREADS {
            for round in 0..THREADS * ROUNDS {
                *permits.lock() += 1;
                if round % 4 == 0 {
                    condition.notify_all()
                } else {
                    usize::from(condition.notify_one())
                };
            }
            return;
        }
        for round in 0..ROUNDS {
            let mut permits = permits.lock();
            while *permits == 0 {
                if round % 2 == 0 {
                    condition.wait(&mut permits);
                } else {
                    let _ = condition.wait_for(&mut permits, SHORT);
                }
            }
            *permits -= 1;
            taken.fetch_add(1, Ordering::Relaxed);
        }
    });
    assert_eq!((permits.into_inner(), taken.into_inner()), (0, THREADS * ROUNDS));
}

/// A waiter takes its mutex and frees it while the notifier, which does not have that mutex, is still
/// notifying.
#[test]
fn a_waiter_frees_its_mutex_while_it_is_notified() {
    static CONDITION: Condvar = Condvar::new();
    let over = AtomicBool::new(false);
    on_threads(2, |number| {
        if number == 0 {
            while !over.load(Ordering::Relaxed) {
                CONDITION.notify_one();
                thread::yield_now();
            }
            return;
        }
        for round in 0..ROUNDS {
            let mutex = Box::new(Mutex::new(()));
            let mut guard = mutex.lock();
            if round % 2 == 0 {
                CONDITION.wait(&mut guard);
            } else {
                let _ = CONDITION.wait_for(&mut guard, SHORT);
            }
            drop(guard);
            drop(mutex);
        }
        over.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_made_once_is_seen_by_all() {
    for _ in 0..ROUNDS.div_ceil(2) {
        let (once, lock) = (Once::new(), OnceLock::new());
        let lazy = LazyLock::new(|| Box::new(7));
        let calls = AtomicUsize::new(0);
        on_threads(THREADS, |number| {
            once.call_once(|| _ = calls.fetch_add(1, Ordering::Relaxed));
            assert_eq!(calls.load(Ordering::Relaxed), 1);
            let made = **lock.get_or_init(|| Box::new(number));
            assert_eq!(**lock.wait(), made);
            assert_eq!(**lazy, 7);
        });
    }
}

#[test]
fn a_barrier_has_a_leader_each_time() {
    let (barrier, leaders) = (Barrier::new(THREADS), AtomicUsize::new(0));
    on_threads(THREADS, |_| {
        for round in 1..=ROUNDS {
            leaders.fetch_add(usize::from(barrier.wait().is_leader()), Ordering::Relaxed);
            barrier.wait();
            assert_eq!(leaders.load(Ordering::Relaxed), round);
            barrier.wait();
        }
    });
}

#[test]
fn a_wait_group_waits_for_all() {
    for _ in 0..ROUNDS.div_ceil(4) {
        let (group, done) = (WaitGroup::new(), Arc::new(AtomicUsize::new(0)));
        let threads = [(); THREADS].map(|()| {
            let (group, done) = (group.clone(), done.clone());
            thread::spawn(move || {
                done.fetch_add(1, Ordering::Relaxed);
                drop(group);
            })
        });
        group.wait();
        assert_eq!(done.load(Ordering::Relaxed), THREADS);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn a_semaphore_has_so_many_permits() {
    let (semaphore, inside) = (Semaphore::new(2), AtomicUsize::new(0));
    on_threads(THREADS, |number| {
        for round in 0..ROUNDS {
            let wanted = 1 + (number + round) % 2;
            let permit = semaphore.acquire_many(wanted as u32).unwrap();
            assert!(inside.fetch_add(wanted, Ordering::Relaxed) + wanted <= 2);
            thread::yield_now();
            inside.fetch_sub(wanted, Ordering::Relaxed);
            drop(permit);
        }
    });
    assert_eq!(semaphore.available_permits(), 2);
}

/// The last waiter frees the semaphore whose permit it was just given.
#[test]
fn a_semaphore_is_freed_by_its_last_waiter() {
    for _ in 0..ROUNDS {
        let semaphore = Arc::new(Semaphore::new(0));
        let adds = semaphore.clone();
        let adder = thread::spawn(move || adds.add_permits(1));
        let permit = semaphore.acquire().unwrap();
        permit.forget();
        drop(semaphore);
        adder.join().unwrap();
    }
}

#[test]
fn each_notification_is_received() {
    let (notify, received) = (Notify::new(), AtomicUsize::new(0));
    on_threads(2, |number| {
        for round in 1..=ROUNDS {
            if number == 0 {
                notify.notified();
                received.store(round, Ordering::Relaxed);
            } else {
                notify.notify_one();
                while received.load(Ordering::Relaxed) < round {
                    thread::yield_now();
                }
            }
        }
    });
}

// Channels ------------------------------------------------------------------------------------------------

/// Two senders and two receivers: each message arrives once.
fn all_arrive((sender, receiver): (Sender<Box<usize>>, Receiver<Box<usize>>)) {
    let sum = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..2 {
            let (sender, receiver, sum) = (sender.clone(), receiver.clone(), &sum);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut message = Box::new(round);
                    if number == 0 {
                        sender.send(message).unwrap();
                        continue;
                    }
                    loop {
                        message = match sender.send_timeout(message, SHORT) {
                            Ok(()) => break,
                            Err(error) => error.into_inner(),
                        };
                    }
                }
            });
            scope.spawn(move || {
                loop {
                    let message = if number == 0 {
                        receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
                    } else {
                        receiver.recv_timeout(SHORT)
                    };
                    match message {
                        Ok(message) => _ = sum.fetch_add(*message, Ordering::Relaxed),
                        Err(RecvTimeoutError::Timeout) => {}
                        Err(RecvTimeoutError::Disconnected) => return,
                    }
                }
            });
        }
        drop((sender, receiver));
    });
    assert_eq!(sum.into_inner(), ROUNDS * (ROUNDS - 1));
}

#[test]
fn messages_arrive_without_a_bound() {
    all_arrive(channel::unbounded());
}

#[test]
fn messages_arrive_through_room_for_one() {
    all_arrive(channel::bounded(1));
}

#[test]
fn messages_arrive_through_room_for_three() {
    all_arrive(channel::bounded(3));
}

#[test]
fn messages_arrive_hand_to_hand() {
    all_arrive(channel::bounded(0));
}

#[test]
fn what_was_not_received_is_dropped() {
    for cap in [None, Some(0), Some(2)] {
        let (sender, receiver) = cap.map_or_else(channel::unbounded, channel::bounded);
        let token = Arc::new(());
        let (its, gone) = (token.clone(), receiver.clone());
        let sending = thread::spawn(move || {
            for _ in 0..ROUNDS {
                match sender.try_send(its.clone()) {
                    Ok(()) | Err(TrySendError::Full(_)) => thread::yield_now(),
                    Err(TrySendError::Disconnected(_)) => return,
                }
            }
        });
        let _ = gone.recv_timeout(SHORT);
        drop((gone, receiver));
        sending.join().unwrap();
        assert_eq!(Arc::strong_count(&token), 1);
    }
}

/// The last sender, the receiver and the weak senders end at one time; one of them frees the channel.
#[test]
fn a_channel_is_freed_by_its_last_handle() {
    for round in 0..ROUNDS {
        let (sender, receiver) = if round % 2 == 0 { channel::bounded(4) } else { channel::unbounded() };
        let weak = sender.downgrade();
        let sent = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                let (weak, sent) = (weak.clone(), &sent);
                scope.spawn(move || {
                    if let Some(sender) = weak.upgrade() {
                        sender.send(Box::new(round)).expect("the receiver waits for the end of all senders");
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            drop(weak);
            scope.spawn(move || drop(sender));
            let received = receiver.iter().inspect(|message| assert_eq!(**message, round)).count();
            drop(receiver);
            // Each sender has counted before it was dropped.
            assert_eq!(received, sent.load(Ordering::Relaxed));
        });
    }
}

/// Room that is reserved is used by its permit, or goes to another sender.
#[test]
fn each_permit_has_room() {
    let (sender, receiver) = channel::bounded(1);
    on_threads(THREADS + 1, |number| match number {
        0 => {
            let received =
                receiver.iter().take(2 * ROUNDS).map(|message: Box<usize>| *message).sum::<usize>();
            assert_eq!(received, 3 * ROUNDS);
        }
        1 => (0..ROUNDS).for_each(|_| sender.reserve().unwrap().send(Box::new(1))),
        2 => (0..ROUNDS).for_each(|_| drop(sender.clone().reserve_owned().unwrap().send(Box::new(2)))),
        _ => (0..ROUNDS).for_each(|_| drop(sender.reserve().unwrap())),
    });
}

#[test]
fn threads_meet_through_mpsc() {
    let (sender, receiver) = runtime::sync::mpsc::sync_channel(1);
    let sending = thread::spawn(move || while sender.send(Box::new(0)).is_ok() {});
    (0..ROUNDS).for_each(|_| assert_eq!(receiver.recv(), Ok(Box::new(0))));
    drop(receiver);
    sending.join().unwrap();
    let (sender, receiver) = runtime::sync::mpsc::channel();
    let sending = thread::spawn(move || (0..ROUNDS).for_each(|round| sender.send(Box::new(round)).unwrap()));
    assert_eq!(receiver.iter().map(|message| *message).sum::<usize>(), ROUNDS * (ROUNDS - 1) / 2);
    sending.join().unwrap();
}

// Select --------------------------------------------------------------------------------------------------

/// Three threads send and receive at once on channels of these kinds, until each has had its share.
fn selects_meet(first: Option<usize>, second: Option<usize>) {
    let make = |cap: Option<usize>| cap.map_or_else(channel::unbounded, channel::bounded);
    let ((s1, r1), (s2, r2)) = (make(first), make(second));
    let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let open = channel::never::<()>();
    on_threads(THREADS, |number| {
        for round in 0..ROUNDS {
            let message = Box::new(number);
            let count = |message: Result<Box<usize>, channel::RecvError>| {
                assert!(*message.unwrap() < THREADS);
                received.fetch_add(1, Ordering::Relaxed);
            };
            let patience = channel::after(SHORT);
            select! {
                send(s1, message) -> result => { result.unwrap(); sent.fetch_add(1, Ordering::Relaxed); }
                recv(r1) -> message => count(message),
                recv(r2) -> message => count(message),
                recv(open) -> _ => unreachable!("nothing comes there"),
                recv(patience) -> due => assert!(due.unwrap() <= Instant::now()),
            }
            if round % 2 == 0 {
                select! {
                    send(s2, Box::new(number)) -> result => { result.unwrap(); sent.fetch_add(1, Ordering::Relaxed); }
                    recv(r1) -> message => count(message),
                    default(SHORT) => {}
                }
            }
        }
    });
    let left = std::iter::from_fn(|| r1.try_recv().or_else(|_| r2.try_recv()).ok()).count();
    assert_eq!(sent.into_inner(), received.into_inner() + left);
}

#[test]
fn selects_meet_hand_to_hand() {
    selects_meet(Some(0), Some(0));
}

#[test]
fn selects_meet_with_little_room() {
    selects_meet(Some(1), Some(2));
}

#[test]
fn selects_meet_in_mixed_channels() {
    selects_meet(Some(0), None);
}

/// A message that does not fit into a select's slot.
#[test]
fn selects_receive_large_messages() {
    let (sender, receiver) = channel::bounded(0);
    let (_other, nothing) = channel::bounded::<[usize; 40]>(1);
    on_threads(2, |number| {
        for round in 0..ROUNDS {
            if number == 0 {
                select! { send(sender, [round; 40]) -> result => result.unwrap() }
            } else {
                select! {
                    recv(receiver) -> message => assert_eq!(message.unwrap(), [round; 40]),
                    recv(nothing) -> _ => unreachable!("nothing comes there"),
                }
            }
        }
    });
}

/// One thread only waits for readiness, one sends, and one closes.
#[test]
fn a_list_of_channels_gets_ready() {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..6).map(|n| channel::bounded::<usize>(n % 3)).unzip();
    thread::scope(|scope| {
        let receivers = &receivers;
        scope.spawn(move || {
            let mut open: Vec<_> = receivers.iter().collect();
            while !open.is_empty() {
                let mut select = Select::new();
                open.iter().for_each(|receiver| _ = select.recv(*receiver));
                let ready = select.ready();
                if matches!(open[ready].try_recv(), Err(channel::TryRecvError::Disconnected)) {
                    open.remove(ready);
                }
            }
        });
        for sender in senders {
            scope.spawn(move || {
                for round in 0..ROUNDS.div_ceil(4) {
                    sender.send(round).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_select_in_each_channel_gives_up_at_once() {
    let channels: Vec<_> = (0..6).map(|n| channel::bounded::<usize>(n % 2)).collect();
    on_threads(2, |_| {
        for _ in 0..ROUNDS {
            let mut select = Select::new();
            channels.iter().for_each(|(_, receiver)| _ = select.recv(receiver));
            assert!(select.try_select().is_err());
            assert!(select.ready_timeout(Duration::ZERO).is_err());
        }
    });
}

// Time ----------------------------------------------------------------------------------------------------

#[test]
fn timers_are_waited_for_moved_and_stopped() {
    let timer = Timer::new(LONG);
    let fired = AtomicUsize::new(0);
    on_threads(THREADS, |number| {
        for _ in 0..ROUNDS {
            match number {
                0 => _ = timer.reset(SHORT),
                1 => _ = timer.stop(),
                _ => {
                    _ = fired.fetch_add(
                        usize::from(timer.channel().recv_timeout(SHORT).is_ok()),
                        Ordering::Relaxed,
                    )
                }
            }
        }
    });
    timer.stop();
    assert!(timer.channel().try_recv().is_err(), "nothing comes of a timer that was stopped");
    assert!(fired.into_inner() <= ROUNDS);
}

#[test]
fn tickers_tick_until_they_are_stopped() {
    let start = Instant::now();
    let ticker = Ticker::new(SHORT);
    for n in 1..=3 {
        ticker.channel().recv().unwrap();
        assert!(start.elapsed() >= SHORT * n);
    }
    on_threads(2, |number| {
        for _ in 0..ROUNDS {
            match number {
                0 => ticker.reset(SHORT),
                _ => _ = ticker.channel().recv_timeout(SHORT),
            }
        }
    });
    ticker.stop();
    assert!(ticker.channel().try_recv().is_err());
}

#[test]
fn a_plain_thread_sleeps_parks_and_yields() {
    let start = Instant::now();
    runtime::sleep(SHORT);
    runtime::time::sleep_until(Instant::now() + SHORT);
    assert!(start.elapsed() >= 2 * SHORT);
    runtime::yield_now();
    let me = runtime::thread::current();
    let waker = thread::spawn(move || me.unpark());
    runtime::thread::park();
    waker.join().unwrap();
    runtime::thread::park_timeout(SHORT);
    assert!(start.elapsed() >= 3 * SHORT);
}

// Futures -------------------------------------------------------------------------------------------------

struct Unparks(thread::Thread);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on the calling thread, without a runtime. With `polls`, gives up after that many.
fn drive<T>(future: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unparks(thread::current())));
    for _ in 0..polls {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(value);
        }
        if polls == usize::MAX {
            thread::park();
        } else {
            thread::yield_now();
        }
    }
    None
}

#[test]
fn futures_take_and_give() {
    let (semaphore, notify) = (Semaphore::new(1), Notify::new());
    let (sender, receiver) = channel::bounded(1);
    let (to_hand, from_hand) = channel::bounded(0);
    let sum = AtomicUsize::new(0);
    on_threads(4, |number| {
        for round in 0..ROUNDS {
            match number {
                0 => drive(
                    async {
                        let _permit = semaphore.acquire_async().await.unwrap();
                        sender.send_async(round).await.unwrap();
                        to_hand.send_async(round).await.unwrap();
                    },
                    usize::MAX,
                ),
                1 => drive(
                    async { _ = sum.fetch_add(receiver.recv_async().await.unwrap(), Ordering::Relaxed) },
                    usize::MAX,
                ),
                2 => drive(
                    async { _ = sum.fetch_add(from_hand.recv_async().await.unwrap(), Ordering::Relaxed) },
                    usize::MAX,
                ),
                // Some selects give up and must return what they were granted.
                _ => {
                    drop(drive(semaphore.acquire_async(), 1 + round % 3));
                    notify.notify_one();
                    let _ = drive(notify.notified_async(), 1 + round % 3);
                    let _ = drive(receiver.recv_async(), 1).map(|message| {
                        sum.fetch_add(message.unwrap(), Ordering::Relaxed);
                        sender.send(0).unwrap();
                    });
                    Some(())
                }
            };
        }
    });
    assert_eq!(sum.into_inner(), ROUNDS * (ROUNDS - 1));
}

#[test]
fn a_plain_thread_runs_a_future_that_is_not_send() {
    for _ in 0..ROUNDS.min(200) {
        let (s, r) = channel::bounded(0);
        let group = WaitGroup::new();
        thread::scope(|scope| {
            let member = group.clone();
            scope.spawn(move || {
                s.send(7).unwrap();
                drop(member);
            });
            let waits = group.wait_async();
            let sum = runtime::block_on_local(async move {
                let mine = std::rc::Rc::new(35);
                let seven = r.recv_async().await.unwrap();
                waits.await;
                *mine + seven
            });
            assert_eq!(sum, 42);
        });
    }
}
