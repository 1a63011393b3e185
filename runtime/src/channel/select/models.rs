//! Loom models of a select at two channels, with threads that make a case ready and threads that end its
//! wait.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use loom::sync::Arc;
use loom::thread;
use sched::modelled::Sleeper;

use super::super::case::SelectHandle;
use super::super::model::helpers::{ModelThread, allow_waiting, explore, far, spawn_waiter};
use super::super::slot::Begun;
use super::super::{Receiver, Sender, bounded};
use super::Select;

type Ends = (Sender<u32>, Receiver<u32>);

/// Returns two channels of that capacity.
fn channels(capacity: usize) -> [Ends; 2] {
    [bounded(capacity), bounded(capacity)]
}

fn sends(channel: &Ends, message: u32) -> ModelThread<()> {
    let s = channel.0.clone();
    spawn_waiter(move || s.send(message).unwrap())
}

/// Receives from the first ready channel. Returns `None` if it is timed out before. (Random choices would
/// make no model.)
fn recv_any(channels: &[Ends; 2]) -> Option<u32> {
    let mut select = Select::new_biased();
    channels.iter().for_each(|(_, r)| _ = select.recv(r));
    let operation = select.select_deadline(far()).ok()?;
    let r = &channels[operation.index()].1;
    Some(operation.recv(r).unwrap())
}

/// Returns the sum of the messages left in the channels and with senders that still wait.
fn left(channels: &[Ends; 2]) -> u32 {
    channels.iter().flat_map(|(_, r)| r.try_recv()).sum()
}

fn one_of_each(capacity: usize) {
    explore(2, move || {
        let (channels, _me) = (channels(capacity), allow_waiting());
        let senders = [sends(&channels[0], 1), sends(&channels[1], 2)];
        let sum = recv_any(&channels).unwrap() + recv_any(&channels).unwrap();
        assert_eq!(sum, 3, "a message was lost, or came twice");
        senders.into_iter().for_each(ModelThread::end);
    });
}

#[test]
fn one_of_each_with_room() {
    one_of_each(1);
}

#[test]
fn one_of_each_without_room() {
    one_of_each(0);
}

fn a_message_meets(capacity: usize, ends: fn(&Sleeper)) {
    explore(2, move || {
        let (channels, me) = (channels(capacity), allow_waiting());
        let sender = sends(&channels[1], 1);
        let other = thread::spawn({
            let me = me.clone();
            move || ends(&me)
        });
        let received = catch_unwind(AssertUnwindSafe(|| recv_any(&channels))).ok().flatten();
        other.join().unwrap();
        if capacity == 0 && received.is_none() {
            // This thread waits, or will.
            let _patient = allow_waiting();
            assert_eq!(channels[1].1.recv(), Ok(1), "the message was lost");
            return sender.end();
        }
        sender.end();
        assert_eq!(received.unwrap_or(0) + left(&channels), 1, "the message was lost, or came twice");
    });
}

#[test]
fn a_message_with_room_meets_a_time_out() {
    a_message_meets(1, |sleeper| sleeper.time_out(1));
}

#[test]
fn a_message_without_room_meets_a_time_out() {
    a_message_meets(0, |sleeper| sleeper.time_out(1));
}

#[test]
fn a_message_with_room_meets_a_cancellation() {
    a_message_meets(1, |sleeper| _ = sleeper.cancel());
}

#[test]
fn a_message_without_room_meets_a_cancellation() {
    a_message_meets(0, |sleeper| _ = sleeper.cancel());
}

/// A select that sends waits for room in one channel, or for a receiver in the other. It is timed out at any
/// moment.
#[test]
fn a_send_is_chosen_or_not() {
    explore(2, || {
        let (full, meets, me) = (bounded(1), bounded(0), allow_waiting());
        full.0.send(0).unwrap();
        // A receiver that meets the select while that waits gets a promise, and waits for the message.
        let receivers = [&meets.1, &full.1].map(Receiver::clone);
        let receiver = spawn_waiter(move || receivers.map(|r| r.try_recv().unwrap_or(0)));
        let timer = thread::spawn({
            let me: Arc<Sleeper> = me.clone();
            move || me.time_out(1)
        });
        let mut select = Select::new_biased();
        let (first, second) = (select.send(&full.0), select.send(&meets.0));
        let chosen = select.select_deadline(far()).ok().map(|operation| match operation.index() {
            i if i == first => operation.send(&full.0, 5).map(|()| i).unwrap(),
            i => operation.send(&meets.0, 6).map(|()| i).unwrap(),
        });
        let [met, received] = receiver.end();
        timer.join().unwrap();
        let rest = full.1.try_recv().unwrap_or(0);
        assert_eq!(received + rest, if chosen == Some(first) { 5 } else { 0 });
        assert_eq!(met, if chosen == Some(second) { 6 } else { 0 });
    });
}

/// A receiver meets a waiting select and leaves without its message, which is for the next receiver.
#[test]
fn a_receiver_that_leaves_loses_no_message() {
    explore(2, || {
        let ((s, r), _me) = (bounded(0), allow_waiting());
        let sender = spawn_waiter(move || {
            let mut select = Select::new_biased();
            select.send(&s);
            select.select().send(&s, 5).unwrap();
        });
        let mut begun = Begun::new();
        if r.try_begin(&mut begun) {
            // SAFETY: the operation has just begun, and is taken out once.
            unsafe { r.abandon(&mut begun) };
        }
        assert_eq!(r.recv(), Ok(5), "the message was lost");
        sender.end();
    });
}

/// A message moves from one channel to the other meanwhile. A select without patience looks into both. It
/// must not return that there was none.
#[test]
fn a_select_without_patience_sees_what_moves() {
    explore(2, || {
        let (channels, _me) = (channels(1), allow_waiting());
        channels[1].0.send(1).unwrap();
        let mover = thread::spawn({
            let (s, r) = (channels[0].0.clone(), channels[1].1.clone());
            move || {
                s.send(2).unwrap();
                _ = r.try_recv();
            }
        });
        let mut select = Select::new_biased();
        channels.iter().for_each(|(_, r)| _ = select.recv(r));
        let operation = select.try_select().expect("there is a message at every moment");
        let r = &channels[operation.index()].1;
        assert!(operation.recv(r).is_ok());
        mover.join().unwrap();
    });
}
