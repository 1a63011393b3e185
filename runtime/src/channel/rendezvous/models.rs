//! The models: those who meet at a channel without a buffer, and those who give up.

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::thread;

use super::super::model::people::{explore, far, i_may_wait, person};
use super::super::shared::Disconnect;
use super::{RecvTimeoutError, Rendezvous, Right};

type Chan = Arc<Rendezvous<u32>>;

fn chan() -> Chan {
    Arc::new(Rendezvous::new())
}

#[test]
fn two_meet_twice() {
    explore(3, || {
        let (chan, _me) = (chan(), i_may_wait());
        let sending = chan.clone();
        let sender = person(move || (1..=2).for_each(|n| sending.send(n, None).unwrap()));
        assert_eq!((chan.recv(None), chan.recv(None)), (Ok(1), Ok(2)));
        sender.end();
    });
}

#[test]
fn a_message_is_sent_or_comes_back() {
    explore(3, || {
        let (chan, _me) = (chan(), i_may_wait());
        let sending = chan.clone();
        let sender = person(move || sending.send(1, Some(far())));
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
fn who_waits_hears_of_the_end() {
    explore(3, || {
        let (chan, _me) = (chan(), i_may_wait());
        let closing = chan.clone();
        let closer = thread::spawn(move || closing.senders_gone());
        assert_eq!(chan.recv(None), Err(RecvTimeoutError::Disconnected));
        closer.join().unwrap();
    });
}

/// A select meets a receiver, and only then has its message. The receiver may be cancelled before that.
#[test]
fn a_promise_is_kept_or_nobody_is_there() {
    explore(3, || {
        let (chan, _me) = (chan(), i_may_wait());
        let receiving = chan.clone();
        // Cancelled, it unwinds.
        let receiver = person(move || catch_unwind(AssertUnwindSafe(|| receiving.recv(None))).ok());
        let cancelled = receiver.sleeper.clone();
        let canceller = thread::spawn(move || cancelled.cancel());
        let sent = match chan.begin_send() {
            Some(Right::Promise(promise, wake)) => {
                let kept = promise.keep(1).is_ok();
                drop(wake);
                kept
            }
            Some(Right::Disconnected) => unreachable!("nobody closes it"),
            None => false,
        };
        canceller.join().unwrap();
        assert_eq!(receiver.end(), sent.then_some(Ok(1)), "a message was lost, or came from nowhere");
    });
}
