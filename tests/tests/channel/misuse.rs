//! Misuse of channels: the errors and panics are those of crossbeam-channel, and other threads are not
//! affected.

use std::panic::{AssertUnwindSafe, catch_unwind};

use runtime::channel::{Select, TryRecvError, TrySendError, after, bounded, unbounded};
use runtime::{sleep, spawn};
use tests::channels::{A_WHILE, BUFFERED, KINDS, Kind, LONG, start};
use tests::crowd::in_each;
use tests::{ON_PURPOSE, panics_with, quiet_panics_on_purpose};

const OTHER_SENDER: &str = "passed a sender that wasn't selected";
const OTHER_RECEIVER: &str = "passed a receiver that wasn't selected";
const DROPPED: &str = "dropped `SelectedOperation` without completing the operation";

#[test]
fn a_select_without_operations() {
    in_each(|| {
        panics_with("no operations have been added to `Select`", || Select::new().ready());
        panics_with("no operations have been added to `Select`", || {
            // `select` panics, so the operation is never forgotten.
            let mut select = Select::new();
            let operation = select.select();
            std::mem::forget(operation);
        });
        let (_s, r) = unbounded::<u8>();
        panics_with("no operations have been added to `Select`", || {
            let mut select = Select::new();
            select.recv(&r);
            select.remove(0);
            select.ready()
        });
    });
}

#[test]
fn removing_an_absent_operation() {
    let (s, _r) = unbounded::<u8>();
    let mut select = Select::new();
    panics_with("index out of bounds; 0 >= 0", || select.remove(0));
    select.send(&s);
    panics_with("index out of bounds; 7 >= 1", || select.remove(7));
    select.remove(0);
    panics_with("no operation with this index", || select.remove(0));
}

/// An operation takes only the handle with which it was chosen: a clone is a different handle, as in
/// crossbeam-channel.
#[test]
fn completing_with_another_handle() {
    in_each(|| {
        let ((s1, r1), (s2, r2)) = (bounded(1), bounded(1));
        // A channel of the same type.
        panics_with(OTHER_SENDER, || {
            let mut select = Select::new();
            select.send(&s1);
            select.select().send(&s2, 1)
        });
        s1.try_send(2).expect("the chosen room is free again");
        s2.try_send(3).expect("the other channel is unchanged");
        panics_with(OTHER_RECEIVER, || {
            let mut select = Select::new();
            select.recv(&r1);
            select.select().recv(&r2)
        });
        assert_eq!((r1.try_recv(), r2.try_recv()), (Ok(2), Ok(3)), "the messages are in their channels");
        // The handle of another operation of the same select.
        s2.send(4).unwrap();
        panics_with(OTHER_RECEIVER, || {
            let mut select = Select::new();
            [&r1, &r2, &r1].into_iter().for_each(|r| _ = select.recv(r));
            let operation = select.select();
            assert_eq!(operation.index(), 1);
            operation.recv(&r1)
        });
        assert_eq!(r2.try_recv(), Ok(4));
        // The other end of the same channel.
        panics_with(OTHER_RECEIVER, || {
            let mut select = Select::new();
            select.send(&s1);
            select.select().recv(&r1)
        });
        s1.try_send(5).unwrap();
        panics_with(OTHER_SENDER, || {
            let mut select = Select::new();
            select.recv(&r1);
            select.select().send(&s1, 6)
        });
        // A clone.
        let clone = r1.clone();
        panics_with(OTHER_RECEIVER, || {
            let mut select = Select::new();
            select.recv(&r1);
            select.select().recv(&clone)
        });
        assert_eq!((r1.try_recv(), r1.try_recv()), (Ok(5), Err(TryRecvError::Empty)));
    });
}

#[test]
fn not_completing_a_send() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make();
            panics_with(DROPPED, || {
                let mut select = Select::new();
                select.send(&s);
                drop(select.select());
            });
            // The chosen room is free again.
            (0..kind.room(7)).for_each(|n| s.try_send(n).unwrap());
            if kind != Kind::Unbounded {
                assert_eq!(s.try_send(9), Err(TrySendError::Full(9)));
            }
            assert_eq!(r.try_iter().count(), kind.room(7));
        }
    });
}

/// A sender waits for the room that a dropped operation returns.
#[test]
fn returned_room_wakes_a_waiting_sender() {
    in_each(|| {
        let (s, r) = bounded(1);
        let waiting = std::sync::Mutex::new(None);
        panics_with(DROPPED, || {
            let mut select = Select::new();
            select.send(&s);
            let operation = select.select();
            let s = s.clone();
            *waiting.lock().unwrap() = Some(start(0, move || s.send(5)));
            sleep(A_WHILE);
            drop(operation);
        });
        waiting.into_inner().unwrap().unwrap().join().unwrap();
        assert_eq!(r.try_recv(), Ok(5));
    });
}

#[test]
fn not_completing_a_receive() {
    in_each(|| {
        for kind in BUFFERED {
            let (s, r) = kind.make();
            (0..kind.room(7)).for_each(|n| s.send(n).unwrap());
            panics_with(DROPPED, || {
                let mut select = Select::new();
                select.recv(&r);
                drop(select.select());
            });
            assert!(r.try_iter().eq(0..kind.room(7)), "the message is at the front again");
        }
        let due = after(std::time::Duration::ZERO);
        panics_with(DROPPED, || {
            let mut select = Select::new();
            select.recv(&due);
            drop(select.select());
        });
    });
}

#[test]
fn not_completing_a_rendezvous() {
    in_each(|| {
        // A waiting receiver keeps waiting.
        let (s, r) = bounded(0);
        let receiver = start(1, move || r.recv());
        panics_with(DROPPED, || {
            let mut select = Select::new();
            select.send(&s);
            drop(select.select_timeout(LONG).unwrap());
        });
        s.send(1).unwrap();
        assert_eq!(receiver.join(), Ok(1));
        // The sender has returned already, so its message stays in the channel.
        let (s, r) = bounded(0);
        let sender = start(1, move || s.send(2));
        panics_with(DROPPED, || {
            let mut select = Select::new();
            select.recv(&r);
            drop(select.select_timeout(LONG).unwrap());
        });
        sender.join().unwrap();
        assert_eq!(r.recv(), Ok(2));
        assert!(r.recv().is_err());
    });
}

/// An operation dropped during unwinding does not panic: a second panic would abort.
#[test]
fn not_completing_while_unwinding() {
    quiet_panics_on_purpose();
    in_each(|| {
        for kind in KINDS {
            let (s, r) = kind.make::<u8>();
            let waits = r.clone();
            let receiver = spawn(move || waits.recv());
            let end = catch_unwind(AssertUnwindSafe(|| {
                let mut select = Select::new();
                select.send(&s);
                let _operation = select.select();
                panic!("{ON_PURPOSE}");
            }));
            let said = end.unwrap_err();
            assert!(
                said.downcast_ref::<&str>().is_some_and(|said| *said == ON_PURPOSE) || said.is::<String>()
            );
            s.send(1).unwrap();
            assert_eq!(receiver.join().unwrap(), Ok(1));
        }
    });
}

/// A forgotten operation keeps its own room occupied, and no more.
#[test]
fn a_forgotten_operation_keeps_only_its_room() {
    let (s, r) = bounded(2);
    let mut select = Select::new();
    select.send(&s);
    std::mem::forget(select.select());
    s.try_send(1).unwrap();
    assert_eq!(s.try_send(2), Err(TrySendError::Full(2)), "a single room is lost");
    assert_eq!(r.try_recv(), Ok(1));
    s.try_send(3).unwrap();
}

#[test]
fn a_capacity_that_overflows() {
    panics_with("capacity overflow", || bounded::<u64>(usize::MAX));
}
