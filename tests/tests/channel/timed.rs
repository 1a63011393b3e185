//! Timer channels: `after`, `at`, `tick` and `never`.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::channel::{
    Receiver, RecvTimeoutError, Select, TryRecvError, after, at, bounded, never, tick, unbounded,
};
use runtime::{select, sleep, spawn};
use tests::channels::{A_WHILE, LONG, start};
use tests::crowd::{crowd, in_each};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn after_sends_once_and_in_time() {
    in_each(|| {
        let begin = Instant::now();
        let r = after(LONG);
        assert_eq!((r.len(), r.is_empty(), r.is_full(), r.capacity()), (0, true, false, Some(1)));
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(r.recv_timeout(A_WHILE / 3), Err(RecvTimeoutError::Timeout));
        let r = after(A_WHILE);
        let due = r.recv().unwrap();
        assert!(due >= begin + A_WHILE && due <= Instant::now(), "the message is the due time");
        assert_eq!(r.try_recv(), Err(TryRecvError::Empty), "there is no second message");
        assert_eq!(r.recv_timeout(MILLI), Err(RecvTimeoutError::Timeout), "the channel is not disconnected");
    });
}

#[test]
fn a_due_message_is_in_the_channel() {
    let begin = Instant::now();
    let r = at(begin + MILLI);
    sleep(2 * MILLI);
    assert_eq!((r.len(), r.is_empty(), r.is_full()), (1, false, true));
    assert_eq!(r.try_recv(), Ok(begin + MILLI), "the message is the due time, not the time of the receive");
    assert_eq!((r.len(), r.is_empty(), r.is_full()), (0, true, false));
}

#[test]
fn at_sends_the_given_time() {
    in_each(|| {
        let now = Instant::now();
        assert_eq!(at(now).recv(), Ok(now));
        assert_eq!(at(now - MILLI).try_recv(), Ok(now - MILLI), "a past time is due at once");
        assert_eq!(at(now + A_WHILE).recv(), Ok(now + A_WHILE));
        assert!(now.elapsed() >= A_WHILE);
        assert_eq!(after(Duration::ZERO).recv().map(|due| due >= now), Ok(true));
    });
}

#[test]
fn ticks_repeat() {
    in_each(|| {
        let begin = Instant::now();
        assert_eq!(tick(LONG).try_recv(), Err(TryRecvError::Empty));
        let ticks = tick(2 * MILLI);
        for n in 1..=5 {
            assert!(ticks.recv().unwrap() >= begin + n * 2 * MILLI);
        }
        assert!(begin.elapsed() >= 10 * MILLI);
    });
}

#[test]
fn ticks_stay_on_their_grid_and_do_not_pile_up() {
    in_each(|| {
        let ticks = tick(2 * MILLI);
        let first = ticks.recv().unwrap();
        sleep(9 * MILLI);
        assert_eq!((ticks.len(), ticks.is_full()), (1, true), "a single tick waits for a slow receiver");
        let late = ticks.recv().unwrap();
        assert_eq!((late - first).as_nanos() % (2 * MILLI).as_nanos(), 0);
        let next = ticks.recv().unwrap();
        assert_eq!((next - first).as_nanos() % (2 * MILLI).as_nanos(), 0);
        assert!(next > late);
    });
}

#[test]
fn a_period_of_zero_is_always_due() {
    let ticks = tick(Duration::ZERO);
    for due in ticks.iter().take(1000) {
        assert!(due <= Instant::now());
    }
}

#[test]
fn a_time_beyond_the_clock_never_comes() {
    in_each(|| {
        for r in [after(Duration::MAX), tick(Duration::MAX), never()] {
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            assert_eq!(r.recv_timeout(MILLI), Err(RecvTimeoutError::Timeout));
            assert!(r.is_empty());
            select! { recv(r) -> _ => unreachable!(), recv(r) -> _ => unreachable!(), default(MILLI) => {} }
        }
        assert_eq!(
            (never::<u8>().len(), never::<u8>().is_full(), never::<u8>().capacity()),
            (0, true, Some(0))
        );
    });
}

#[test]
fn clones_share_their_messages() {
    in_each(|| {
        // Several threads compete for a single message.
        let (r, received) = (after(A_WHILE), AtomicUsize::new(0));
        crowd(3, 2, |i| {
            let got = match i % 3 {
                0 => r.clone().recv_timeout(3 * A_WHILE).is_ok(),
                1 => select! { recv(r) -> due => due.is_ok(), default(3 * A_WHILE) => false },
                _ => {
                    let mut select = Select::new();
                    select.recv(&r);
                    select.select_timeout(3 * A_WHILE).is_ok_and(|operation| operation.recv(&r).is_ok())
                }
            };
            received.fetch_add(usize::from(got), SeqCst);
        });
        assert_eq!(received.load(SeqCst), 1);

        // Each tick goes to a single receiver.
        let (ticks, all) = (tick(MILLI / 2), std::sync::Mutex::new(Vec::new()));
        crowd(3, 2, |_| {
            let mine: Vec<_> = ticks.clone().iter().take(4).collect();
            all.lock().unwrap().extend(mine);
        });
        let mut all = all.into_inner().unwrap();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 20, "no tick came twice");
    });
}

#[test]
fn a_receiver_that_loses_a_tick_waits_for_the_next() {
    in_each(|| {
        let (ticks, (s, _r)) = (tick(A_WHILE), bounded::<u8>(0));
        let second = ticks.clone();
        let waits =
            spawn(move || select! { recv(second) -> due => due.unwrap(), send(s, 0) -> _ => unreachable!() });
        let first = ticks.recv().unwrap();
        let other = waits.join().unwrap();
        assert_ne!(first, other);
    });
}

#[test]
fn a_pending_timer_channel_is_sent_to_another_thread() {
    in_each(|| {
        let (s, r) = unbounded::<Receiver<Instant>>();
        let begin = Instant::now();
        let waits = start(1, move || r.recv().unwrap().recv().unwrap());
        s.send(after(A_WHILE)).unwrap();
        assert!(waits.join() >= begin + A_WHILE);
    });
}

#[test]
fn a_message_arrives_before_the_deadline() {
    in_each(|| {
        let (s, r) = bounded(0);
        let sender = spawn(move || {
            sleep(A_WHILE);
            s.send(1).unwrap();
        });
        select! {
            recv(r) -> message => assert_eq!(message, Ok(1)),
            recv(after(LONG)) -> _ => unreachable!(),
            recv(tick(LONG)) -> _ => unreachable!(),
        }
        sender.join().unwrap();
    });
}

/// Dropping a timer channel without a waiter costs no timer.
#[test]
fn timer_channels_dropped_unused() {
    in_each(|| {
        for n in 0..2000 {
            drop(after(MILLI * n));
            drop(tick(MILLI * (n + 1)));
        }
    });
}
