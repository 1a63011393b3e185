//! Channels as a single thread uses them: order, capacity, errors, iterators, and the traits of the handles.

use std::error::Error;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::rc::Rc;
use std::time::{Duration, Instant};

use runtime::channel::{
    IntoIter, Iter, Receiver, RecvError, RecvTimeoutError, Select, SelectTimeoutError, SendError,
    SendTimeoutError, Sender, TryIter, TryRecvError, TrySelectError, TrySendError, after, bounded, never,
    tick, unbounded,
};
use tests::channels::{BUFFERED, KINDS, Kind, LONG};
use tests::crowd::in_each;

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn messages_come_out_in_order() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make();
            for round in 0..50 {
                let n = kind.room(100);
                (0..n).for_each(|i| s.send(round + i).unwrap());
                (0..n).for_each(|i| assert_eq!(r.recv(), Ok(round + i), "{kind:?}"));
            }
        }
    });
}

#[test]
fn capacity_is_the_requested_one() {
    for n in [0, 1, 2, 5, 64, 1000] {
        let (s, r) = bounded::<u8>(n);
        assert_eq!((s.capacity(), r.capacity()), (Some(n), Some(n)));
    }
    let (s, r) = unbounded::<u8>();
    assert_eq!((s.capacity(), r.capacity()), (None, None));
    assert_eq!(after(SHORT).capacity(), Some(1));
    assert_eq!(tick(SHORT).capacity(), Some(1));
    assert_eq!(never::<u8>().capacity(), Some(0));
}

#[track_caller]
fn sees<T>(s: &Sender<T>, r: &Receiver<T>, len: usize, empty: bool, full: bool) {
    assert_eq!((s.len(), s.is_empty(), s.is_full()), (len, empty, full));
    assert_eq!((r.len(), r.is_empty(), r.is_full()), (len, empty, full));
}

#[test]
fn len_is_empty_and_is_full_follow_the_buffer() {
    let (s, r) = bounded(2);
    sees(&s, &r, 0, true, false);
    s.send(()).unwrap();
    sees(&s, &r, 1, false, false);
    s.send(()).unwrap();
    sees(&s, &r, 2, false, true);
    r.recv().unwrap();
    sees(&s, &r, 1, false, false);

    let (s, r) = unbounded();
    sees(&s, &r, 0, true, false);
    for n in 1..200 {
        s.send(()).unwrap();
        sees(&s, &r, n, false, false);
    }

    let (s, r) = bounded::<()>(0);
    sees(&s, &r, 0, true, true);
    let waiting = r.clone();
    let receiver = runtime::spawn(move || waiting.recv());
    runtime::sleep(SHORT);
    sees(&s, &r, 0, true, true);
    drop(s);
    assert_eq!(receiver.join().unwrap(), Err(RecvError));
}

#[test]
fn try_send_and_try_recv_report_why_they_fail() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            let room = kind.room(100);
            (0..room).for_each(|n| assert_eq!(s.try_send(n), Ok(())));
            if kind != Kind::Unbounded {
                assert_eq!(s.try_send(1000), Err(TrySendError::Full(1000)));
            }
            (0..room).for_each(|n| assert_eq!(r.try_recv(), Ok(n)));
            assert_eq!(r.try_recv(), Err(TryRecvError::Empty));
            drop(s);
            assert_eq!(r.try_recv(), Err(TryRecvError::Disconnected));

            let (s, r) = kind.make();
            drop(r);
            assert_eq!(s.try_send(7), Err(TrySendError::Disconnected(7)));
        }
    });
}

#[test]
fn a_timed_out_send_returns_the_message() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let start = Instant::now();
            assert_eq!(r.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
            assert!(start.elapsed() >= SHORT);
            assert_eq!(r.recv_deadline(start), Err(RecvTimeoutError::Timeout));
            (0..kind.room(10)).for_each(|n| s.send(n).unwrap());
            if kind != Kind::Unbounded {
                let start = Instant::now();
                assert_eq!(s.send_timeout(77, SHORT), Err(SendTimeoutError::Timeout(77)));
                assert!(start.elapsed() >= SHORT);
                assert_eq!(s.send_deadline(78, start), Err(SendTimeoutError::Timeout(78)));
                let start = Instant::now();
                assert_eq!(s.send_deadline(79, start + SHORT), Err(SendTimeoutError::Timeout(79)));
                assert!(start.elapsed() >= SHORT);
            }
            assert_eq!(r.try_iter().count(), kind.room(10), "a returned message is not in the channel");
        }
    });
}

#[test]
fn an_operation_that_need_not_wait_ignores_its_deadline() {
    for kind in BUFFERED {
        let (s, r) = kind.make();
        let past = Instant::now();
        assert_eq!(s.send_deadline(1, past), Ok(()));
        assert_eq!(r.recv_deadline(past), Ok(1));
        assert_eq!(s.send_timeout(2, Duration::ZERO), Ok(()));
        assert_eq!(r.recv_timeout(Duration::ZERO), Ok(2));
    }
}

#[test]
fn a_timeout_beyond_the_clock_never_expires() {
    let (s, r) = bounded(0);
    let sender = runtime::spawn(move || s.send_timeout(1, Duration::MAX));
    assert_eq!(r.recv_timeout(Duration::MAX), Ok(1));
    assert_eq!(sender.join().unwrap(), Ok(()));
    assert_eq!(r.recv_timeout(Duration::MAX), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn a_disconnected_channel_returns_the_message() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let clone = r.clone();
            drop(r);
            if kind != Kind::Bounded(0) {
                assert_eq!(s.try_send(1), Ok(()), "the clone is still a receiver");
            }
            drop(clone);
            assert_eq!(s.send(2), Err(SendError(2)));
            assert_eq!(s.send_timeout(3, LONG), Err(SendTimeoutError::Disconnected(3)));
            assert_eq!(s.len(), 0, "messages without a receiver are dropped");

            let (s, r) = kind.make();
            let room = kind.room(10);
            (0..room).for_each(|n| s.send(n).unwrap());
            let clone = s.clone();
            drop(s);
            drop(clone);
            for n in 0..room {
                assert_eq!(r.recv(), Ok(n), "messages sent before the disconnection are received");
            }
            assert_eq!(r.recv(), Err(RecvError));
            assert_eq!(r.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
        }
    });
}

#[test]
fn iterators_end_with_the_channel() {
    for kind in [Kind::Bounded(20), Kind::Unbounded] {
        let (s, r) = kind.make();
        (0..5).for_each(|n| s.send(n).unwrap());
        assert_eq!(r.iter().take(2).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(r.try_iter().collect::<Vec<_>>(), [2, 3, 4]);
        assert_eq!(r.try_iter().next(), None, "try_iter does not wait");
        s.send(5).unwrap();
        drop(s);
        let mut borrowed = (&r).into_iter();
        assert_eq!((borrowed.next(), borrowed.next(), borrowed.next()), (Some(5), None, None));
        assert_eq!(r.into_iter().next(), None);
    }
}

#[test]
fn an_iterator_waits_for_each_message() {
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make();
            let sender = runtime::spawn(move || {
                for n in 0..20u64 {
                    if n % 7 == 0 {
                        runtime::yield_now();
                    }
                    s.send(n).unwrap();
                }
            });
            let mut sum = 0;
            for n in &r {
                sum += n;
            }
            assert_eq!(sum, 190);
            sender.join().unwrap();
        }
    });
}

#[test]
fn same_channel_compares_handles() {
    for kind in KINDS {
        let (s, r) = kind.make::<u8>();
        let (s2, r2) = kind.make::<u8>();
        assert!(s.same_channel(&s.clone()) && r.same_channel(&r.clone()));
        assert!(!s.same_channel(&s2) && !r.same_channel(&r2));
        for other in KINDS.into_iter().filter(|other| *other != kind) {
            let (s2, r2) = other.make::<u8>();
            assert!(!s.same_channel(&s2) && !r.same_channel(&r2));
        }
    }
    let (one, other) = (after(LONG), tick(LONG));
    assert!(one.same_channel(&one.clone()) && other.same_channel(&other.clone()));
    assert!(!one.same_channel(&other) && !one.same_channel(&after(LONG)) && !one.same_channel(&never()));
    assert!(never::<u8>().same_channel(&never()));
}

#[test]
fn errors_say_what_happened() {
    fn text(error: impl Error) -> String {
        error.to_string()
    }
    assert_eq!(text(SendError(1)), "sending on a disconnected channel");
    assert_eq!(text(TrySendError::Full(1)), "sending on a full channel");
    assert_eq!(text(TrySendError::Disconnected(1)), "sending on a disconnected channel");
    assert_eq!(text(SendTimeoutError::Timeout(1)), "timed out waiting on send operation");
    assert_eq!(text(SendTimeoutError::Disconnected(1)), "sending on a disconnected channel");
    assert_eq!(text(RecvError), "receiving on an empty and disconnected channel");
    assert_eq!(text(TryRecvError::Empty), "receiving on an empty channel");
    assert_eq!(text(TryRecvError::Disconnected), "receiving on an empty and disconnected channel");
    assert_eq!(text(RecvTimeoutError::Timeout), "timed out waiting on receive operation");
    assert_eq!(text(RecvTimeoutError::Disconnected), "channel is empty and disconnected");
    assert_eq!(text(TrySelectError), "all operations in select would block");
    assert_eq!(text(SelectTimeoutError), "timed out waiting on select");
}

#[test]
fn debug_output_needs_no_debug_of_the_message() {
    struct Hidden;
    let (s, r) = unbounded::<Hidden>();
    assert_eq!(format!("{s:?} {r:?}"), "Sender { .. } Receiver { .. }");
    assert_eq!(format!("{:?} {:?}", r.iter(), r.try_iter()), "Iter { .. } TryIter { .. }");
    assert_eq!(format!("{:?}", SendError(Hidden)), "SendError(..)");
    assert_eq!(format!("{:?}", TrySendError::Full(Hidden)), "Full(..)");
    assert_eq!(format!("{:?}", TrySendError::Disconnected(Hidden)), "Disconnected(..)");
    assert_eq!(format!("{:?}", SendTimeoutError::Timeout(Hidden)), "SendTimeoutError(..)");
    assert_eq!(format!("{:?}", r.into_iter()), "IntoIter { .. }");
    assert_eq!(format!("{:?}", Select::new()), "Select { .. }");
}

#[test]
fn errors_convert_into_each_other() {
    assert_eq!(TrySendError::from(SendError(1)), TrySendError::Disconnected(1));
    assert_eq!(SendTimeoutError::from(SendError(1)), SendTimeoutError::Disconnected(1));
    assert_eq!(TryRecvError::from(RecvError), TryRecvError::Disconnected);
    assert_eq!(RecvTimeoutError::from(RecvError), RecvTimeoutError::Disconnected);
    assert_eq!(SendTimeoutError::Timeout(3).into_inner(), 3);
    assert_eq!(TrySendError::Disconnected(3).into_inner(), 3);
    assert!(TrySendError::Full(3).is_full() && !TrySendError::Full(3).is_disconnected());
    assert!(SendTimeoutError::Timeout(3).is_timeout() && SendTimeoutError::Disconnected(3).is_disconnected());
    assert!(TryRecvError::Empty.is_empty() && TryRecvError::Disconnected.is_disconnected());
    assert!(RecvTimeoutError::Timeout.is_timeout() && RecvTimeoutError::Disconnected.is_disconnected());
}

#[test]
fn handles_are_send_sync_and_unwind_safe() {
    fn shared<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    fn unwinds<T: UnwindSafe + RefUnwindSafe>() {}
    shared::<Sender<u8>>();
    shared::<Receiver<u8>>();
    shared::<Receiver<Instant>>();
    unwinds::<Sender<Rc<u8>>>();
    fn sent<T: Send>(_: T) {}
    let (s, r) = unbounded::<u8>();
    sent(s.send_async(1));
    sent(r.recv_async());
    sent::<Option<Iter<'_, u8>>>(None);
    sent::<Option<TryIter<'_, u8>>>(None);
    sent::<Option<IntoIter<u8>>>(None);
    fn both<T: Send + Sync>() {}
    both::<Select<'_>>();
}

#[test]
fn zero_sized_and_large_messages() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make();
            let n = kind.room(100);
            (0..n).for_each(|_| s.send([(); 3]).unwrap());
            assert_eq!(r.try_iter().count(), n);

            let (s, r) = kind.make();
            (0..kind.room(40)).for_each(|n| s.send([n; 512]).unwrap());
            (0..kind.room(40)).for_each(|n| assert!(r.recv().unwrap().iter().all(|m| *m == n)));
        }
    });
}

#[test]
fn a_channel_may_hold_messages_that_are_not_send() {
    let (s, r) = bounded(2);
    let kept = Rc::new(5);
    s.send(Rc::clone(&kept)).unwrap();
    assert_eq!(Rc::strong_count(&kept), 2);
    assert_eq!(*r.recv().unwrap(), 5);
    assert_eq!(Rc::strong_count(&kept), 1);
}
