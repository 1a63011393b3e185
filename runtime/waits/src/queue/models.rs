//! Models of the queue: a grant, a time-out, a cancellation and a second grant race for waiters in one queue
//! and in two.

use std::time::Instant;

use loom::sync::Arc;
use loom::thread;

use super::{Lock, Node, Queue};
use sched::modelled::{Sleeper, Waiting};
use sched::sync::models::explore;
use sched::{Cancel, Outcome};

/// A minimal channel: messages that no receiver has taken, and receivers that wait for a message.
#[derive(Default)]
struct Chan {
    kept: Vec<u32>,
    receivers: Queue<Option<u32>>,
}

type Shared = Arc<Lock<Chan>>;

fn send(chan: &Lock<Chan>, message: u32) {
    let mut guard = chan.lock();
    let mut message = Some(message);
    let mut wake = None;
    while let Some(mut waiter) = guard.receivers.first() {
        *waiter.payload() = message.take();
        match waiter.wake() {
            Ok(woken) => {
                wake = Some(woken);
                break;
            }
            Err(mut over) => message = over.payload().take(),
        }
    }
    guard.kept.extend(message);
    drop(guard);
    drop(wake);
}

fn receive(chan: &Lock<Chan>, sleeper: &Sleeper) -> Result<u32, Outcome> {
    let mut guard = chan.lock();
    if let Some(message) = guard.kept.pop() {
        return Ok(message);
    }
    match super::wait(
        guard,
        |chan| &mut chan.receivers,
        Waiting::of(sleeper, Cancel::Ends),
        Option::<Instant>::None,
        None,
    ) {
        Ok(message) => Ok(message.expect("a woken receiver has a message")),
        Err(ended) => {
            assert_eq!(ended.payload, None, "a waiter that ended otherwise keeps nothing");
            Err(ended.outcome)
        }
    }
}

/// `sleeper` receives while `interfere` and a sender of each message run. Then each message must be there
/// just once.
fn race(messages: &'static [u32], interfere: impl Fn(&Sleeper) + Copy + Send + Sync + 'static) {
    explore(2, move || {
        let (chan, sleeper) = (Shared::default(), Sleeper::new());
        let mut threads: Vec<_> = messages
            .iter()
            .map(|&message| {
                let chan = chan.clone();
                thread::spawn(move || send(&chan, message))
            })
            .collect();
        let other = sleeper.clone();
        threads.push(thread::spawn(move || interfere(&other)));
        let received = receive(&chan, &sleeper);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(chan.lock().receivers.is_empty(), "the receiver is still in the queue");
        let mut all: Vec<u32> = received.into_iter().chain(chan.lock().kept.drain(..)).collect();
        all.sort_unstable();
        assert_eq!(all, messages, "a message was lost, or came twice");
    });
}

#[test]
fn a_message_meets_a_time_out() {
    race(&[7], |sleeper| sleeper.time_out(1));
}

#[test]
fn a_message_meets_a_cancellation() {
    race(&[7], |sleeper| _ = sleeper.cancel());
}

#[test]
fn two_messages_meet_a_time_out() {
    race(&[7, 8], |sleeper| sleeper.time_out(1));
}

/// The first receiver may time out. A message that meets the time-out goes to the second receiver.
#[test]
fn a_message_passes_a_waiter_that_timed_out() {
    explore(2, || {
        let chan = Shared::default();
        let (first, second) = (Sleeper::new(), Sleeper::new());
        let (chan_of_first, first_too) = (chan.clone(), first.clone());
        let receiver = thread::spawn(move || receive(&chan_of_first, &first_too).is_ok());
        let timer = thread::spawn(move || first.time_out(1));
        let sending = chan.clone();
        let sender = thread::spawn(move || {
            send(&sending, 1);
            send(&sending, 2);
        });
        assert!(receive(&chan, &second).is_ok(), "two messages for two receivers");
        let got = 1 + usize::from(receiver.join().unwrap());
        timer.join().unwrap();
        sender.join().unwrap();
        assert_eq!(got + chan.lock().kept.len(), 2, "a message was lost, or came twice");
    });
}

/// A wait in two queues ends with one message. The other message stays in its channel.
#[test]
fn a_select_takes_from_one_of_two() {
    explore(3, || {
        let chans = [Shared::default(), Shared::default()];
        let sleeper = Sleeper::new();
        let senders = [0, 1].map(|i| {
            let chan = chans[i].clone();
            thread::spawn(move || send(&chan, i as u32))
        });
        let got = select(&chans, &sleeper);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let mut all: Vec<u32> =
            chans.iter().flat_map(|chan| chan.lock().kept.drain(..).collect::<Vec<_>>()).collect();
        all.push(got);
        all.sort_unstable();
        assert_eq!(all, [0, 1], "a message was lost, or came twice");
        assert!(
            chans.iter().all(|chan| chan.lock().receivers.is_empty()),
            "the receiver is still in a queue"
        );
    });
}

fn select(chans: &[Shared; 2], sleeper: &Sleeper) -> u32 {
    let waiting = Waiting::of(sleeper, Cancel::Ends);
    let ticket = waiting.ticket();
    let nodes = [0, 1].map(|case| Node::of_thread(ticket, case, None));
    let mut case = None;
    for i in 0..2 {
        let mut guard = chans[i].lock();
        if !guard.kept.is_empty() {
            // A message is there: take it, unless a sender has decided the wait in a queue that was entered
            // before.
            if ticket.decide_own(i as u32) {
                case = Some((i, guard.kept.pop()));
            }
            break;
        }
        // SAFETY: the queue is under its lock, and the node is removed below, in this frame.
        unsafe { guard.receivers.push_back(&nodes[i]) };
    }
    let (case, ready) = case.unwrap_or_else(|| {
        assert_eq!(waiting.park(), Outcome::Woken);
        (ticket.case() as usize, None)
    });
    for i in 0..2 {
        if i != case || ready.is_some() {
            // SAFETY: the node was pushed into this queue, or into none.
            unsafe { chans[i].lock().receivers.remove(&nodes[i]) };
        }
    }
    let granted = nodes.into_iter().nth(case).unwrap().into_payload();
    ready.or(granted).expect("the case that won has a message")
}
