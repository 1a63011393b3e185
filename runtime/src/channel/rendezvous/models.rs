//! Loom models of a channel without a buffer: threads that meet at it, and threads that give up.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::thread;

use super::super::model::helpers::{allow_waiting, explore, far, spawn_waiter};
use super::super::shared::Disconnect;
use super::{BegunSend, RecvTimeoutError, Rendezvous};

type Chan = Arc<Rendezvous<u32>>;

fn chan() -> Chan {
    Arc::new(Rendezvous::new())
}

#[test]
fn two_meet_twice() {
    explore(3, || {
        let (chan, _me) = (chan(), allow_waiting());
        let sending = chan.clone();
        let sender = spawn_waiter(move || (1..=2).for_each(|n| sending.send(n, None).unwrap()));
        assert_eq!((chan.recv(None), chan.recv(None)), (Ok(1), Ok(2)));
        sender.end();
    });
}

#[test]
fn a_message_is_sent_or_comes_back() {
    explore(3, || {
        let (chan, _me) = (chan(), allow_waiting());
        let sending = chan.clone();
        let sender = spawn_waiter(move || sending.send(1, Some(far())));
        let timed = sender.sleeper.clone();
        let timer = thread::spawn(move || timed.time_out(1));
        let received = chan.try_recv();
        timer.join().unwrap();
        // For a sender that began to wait after all that.
        chan.receivers_gone();
        match sender.end() {
            Ok(()) => assert_eq!(received, Ok(1)),
            Err(error) => {
                assert_eq!(error.into_inner(), 1);
                assert!(received.is_err(), "the message came, and was given back");
            }
        }
    });
}

#[test]
fn waiters_hear_of_the_end() {
    explore(3, || {
        let (chan, _me) = (chan(), allow_waiting());
        let closing = chan.clone();
        let closer = thread::spawn(move || closing.senders_gone());
        assert_eq!(chan.recv(None), Err(RecvTimeoutError::Disconnected));
        closer.join().unwrap();
    });
}

/// A select meets a receiver and has its message only then. The receiver may be cancelled before that.
#[test]
fn a_promise_is_kept_or_the_receiver_has_left() {
    explore(3, || {
        let (chan, _me) = (chan(), allow_waiting());
        let receiving = chan.clone();
        // A cancelled receiver unwinds.
        let receiver = spawn_waiter(move || catch_unwind(AssertUnwindSafe(|| receiving.recv(None))).ok());
        let cancelled = receiver.sleeper.clone();
        let canceller = thread::spawn(move || cancelled.cancel());
        let sent = match chan.begin_send() {
            Some(BegunSend::Promise(promise, wake)) => {
                let kept = promise.fulfil(1).is_ok();
                drop(wake);
                kept
            }
            Some(BegunSend::Disconnected) => unreachable!("the channel is not closed"),
            None => false,
        };
        canceller.join().unwrap();
        assert_eq!(receiver.end(), sent.then_some(Ok(1)), "a message was lost, or was never sent");
    });
}
