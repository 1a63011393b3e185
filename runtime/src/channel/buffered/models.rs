//! Loom models of a channel with room: two ends that fill and empty it, wait at it, leave it and close it.

use loom::sync::Arc;
use loom::thread;

use super::super::buffer::{Buffer, Chain, Ring};
use super::super::model::helpers::{allow_waiting, explore, far, spawn_waiter};
use super::super::shared::Disconnect;
use super::{BegunSend, Buffered, RecvTimeoutError, SendTimeoutError};

type Chan<B> = Arc<Buffered<u32, B>>;

fn ring(capacity: usize) -> Chan<Ring<u32>> {
    Arc::new(Buffered::new(Ring::new(capacity)))
}

fn one_sends_three_to_one<B: Buffer<u32> + 'static>(make: fn() -> Chan<B>) {
    explore(3, move || {
        let (chan, _me) = (make(), allow_waiting());
        let sending = chan.clone();
        let sender = spawn_waiter(move || (1..=3).for_each(|n| sending.send(n, None).unwrap()));
        for n in 1..=3 {
            assert_eq!(chan.recv(None), Ok(n));
        }
        sender.end();
        assert_eq!(chan.len(), 0);
    });
}

#[test]
fn a_ring_of_one_goes_full_and_empty() {
    one_sends_three_to_one(|| ring(1));
}

#[test]
fn a_ring_of_two_goes_round() {
    one_sends_three_to_one(|| ring(2));
}

#[test]
fn a_chain_grows_and_frees_its_blocks() {
    one_sends_three_to_one(|| Arc::new(Buffered::new(Chain::new())));
}

/// More senders wait than there is room. Each must be woken for the room, also if the one before did not use
/// it.
#[test]
fn two_senders_wait_for_room() {
    explore(2, || {
        let (chan, _me) = (ring(1), allow_waiting());
        chan.try_send(0).unwrap();
        let senders = [1, 2].map(|n| {
            let chan = chan.clone();
            spawn_waiter(move || chan.send(n, None).unwrap())
        });
        let sum: u32 = (0..3).map(|_| chan.recv(None).unwrap()).sum();
        assert_eq!(sum, 3, "a message was lost, or came twice");
        senders.into_iter().for_each(|sender| sender.end());
    });
}

#[test]
fn a_receiver_that_times_out_takes_nothing_along() {
    explore(3, || {
        let (chan, me) = (ring(1), allow_waiting());
        let sending = chan.clone();
        let sender = spawn_waiter(move || sending.send(1, None).unwrap());
        let timed = me.clone();
        let timer = thread::spawn(move || timed.time_out(1));
        let received = chan.recv(Some(far()));
        sender.end();
        timer.join().unwrap();
        match received {
            Ok(message) => assert_eq!((message, chan.len()), (1, 0)),
            Err(error) => assert_eq!((error, chan.try_recv()), (RecvTimeoutError::Timeout, Ok(1))),
        }
    });
}

#[test]
fn a_sender_that_times_out_passes_the_room_on() {
    explore(2, || {
        let (chan, me) = (ring(1), allow_waiting());
        chan.try_send(0).unwrap();
        let timed = me.clone();
        let timer = thread::spawn(move || timed.time_out(1));
        let receiving = chan.clone();
        let receiver = thread::spawn(move || receiving.try_recv().unwrap());
        let sent = chan.send(1, Some(far()));
        timer.join().unwrap();
        receiver.join().unwrap();
        match sent {
            Ok(()) => assert_eq!(chan.try_recv(), Ok(1)),
            Err(error) => {
                assert_eq!(error, SendTimeoutError::Timeout(1));
                assert!(chan.try_send(2).is_ok(), "the room is there for the next");
            }
        }
    });
}

#[test]
fn waiters_hear_of_the_end() {
    explore(3, || {
        let (chan, _me) = (ring(1), allow_waiting());
        let closing = chan.clone();
        let closer = thread::spawn(move || {
            closing.try_send(1).unwrap();
            closing.senders_gone();
        });
        assert_eq!(chan.recv(None), Ok(1));
        assert_eq!(chan.recv(None), Err(RecvTimeoutError::Disconnected));
        closer.join().unwrap();
    });
}

#[test]
fn a_sender_that_waits_hears_that_the_receivers_are_gone() {
    explore(3, || {
        let (chan, _me) = (ring(1), allow_waiting());
        chan.try_send(0).unwrap();
        let closing = chan.clone();
        let closer = thread::spawn(move || closing.receivers_gone());
        assert_eq!(chan.send(1, None), Err(SendTimeoutError::Disconnected(1)));
        closer.join().unwrap();
        assert_eq!(chan.len(), 0, "the messages that were left are dropped");
    });
}

/// A select takes the only room before it sends. Meanwhile a sender must wait, and a receiver finds nothing.
#[test]
fn reserved_room_is_kept() {
    explore(2, || {
        let (chan, _me) = (ring(1), allow_waiting());
        let sending = chan.clone();
        let sender = spawn_waiter(move || sending.send(1, None).unwrap());
        let selecting = chan.clone();
        let select = spawn_waiter(move || match selecting.begin_send() {
            Some(BegunSend::Room) => {
                selecting.finish_send(BegunSend::Room, 2).unwrap();
                2
            }
            Some(BegunSend::Disconnected) => unreachable!("the channel is not closed"),
            None => 0,
        });
        let first = chan.recv(None).unwrap();
        let selected = select.end();
        let second = if selected > 0 { chan.recv(None).unwrap() } else { 0 };
        sender.end();
        assert_eq!(first + second, 1 + selected, "a message was lost, or came twice");
        assert_eq!(chan.len(), 0);
        assert!(chan.try_send(3).is_ok() && chan.try_send(4).is_err(), "the room is the same as before");
    });
}

/// The select's message goes to a waiting receiver, so a sender that waits for room must be woken for the
/// select's.
#[test]
fn room_that_a_select_did_not_need_is_told() {
    explore(2, || {
        let (chan, _me) = (ring(1), allow_waiting());
        assert!(matches!(chan.begin_send(), Some(BegunSend::Room)));
        let receiving = chan.clone();
        let receiver = spawn_waiter(move || receiving.recv(None).unwrap() + receiving.recv(None).unwrap());
        let sending = chan.clone();
        let sender = spawn_waiter(move || sending.send(1, None).unwrap());
        chan.finish_send(BegunSend::Room, 2).unwrap();
        assert_eq!(receiver.end(), 3);
        sender.end();
    });
}

/// A channel is closed while a permit has room. The receiver gets the message of that permit, and then the
/// end; without a message, the end alone.
#[test]
fn a_permit_outlives_the_close() {
    for sends in [true, false] {
        explore(3, move || {
            let (chan, _me) = (ring(2), allow_waiting());
            let begun = chan.begin_send().unwrap();
            let sending = chan.clone();
            let sender = spawn_waiter(move || match sends {
                true => sending.finish_send(begun, 1).unwrap(),
                false => sending.abandon_send(begun),
            });
            chan.end_sending();
            assert_eq!(chan.recv(None).ok(), sends.then_some(1));
            assert_eq!(chan.recv(None), Err(RecvTimeoutError::Disconnected));
            sender.end();
        });
    }
}

#[test]
fn a_sender_waits_for_the_close() {
    explore(3, || {
        let (chan, _me) = (ring(1), allow_waiting());
        let watching = chan.clone();
        let sender = spawn_waiter(move || watching.wait_closed());
        chan.end_sending();
        sender.end();
        assert!(chan.is_closed());
    });
}
