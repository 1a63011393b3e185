//! Publish and subscribe: a broker of one green thread, topics, subscribers that come, go, and lag behind.
//!
//! `cargo run --release --example pubsub -- [MESSAGES]`

use std::collections::HashMap;

use runtime::channel::{Receiver, Sender, TrySendError, bounded};
use runtime::{JoinHandle, spawn, yield_now};

/// What one can ask of the broker.
enum Request {
    Subscribe { topic: &'static str, mailbox: Sender<u64> },
    Publish { topic: &'static str, value: u64 },
}

/// What it did in its life.
#[derive(Debug, Default)]
struct Done {
    delivered: u64,
    /// Messages for a mailbox that was full: a slow subscriber holds up nobody.
    dropped: u64,
    /// Subscribers whose mailbox was gone when there was mail.
    gone: u64,
}

/// Serves until nobody can ask any more.
fn broker(requests: &Receiver<Request>) -> Done {
    let (mut topics, mut done) = (HashMap::<_, Vec<Sender<u64>>>::new(), Done::default());
    for request in requests {
        match request {
            Request::Subscribe { topic, mailbox } => topics.entry(topic).or_default().push(mailbox),
            Request::Publish { topic, value } => {
                topics.entry(topic).or_default().retain(|mailbox| match mailbox.try_send(value) {
                    Ok(()) => {
                        done.delivered += 1;
                        true
                    }
                    Err(TrySendError::Full(_)) => {
                        done.dropped += 1;
                        true
                    }
                    Err(TrySendError::Disconnected(_)) => {
                        done.gone += 1;
                        false
                    }
                });
            }
        }
    }
    done
}

/// Reads its mail, which must come in order; how many letters.
fn reader(mailbox: Receiver<u64>, most: usize, pause: u32) -> JoinHandle<u64> {
    spawn(move || {
        let (mut letters, mut last) = (0, None);
        for value in mailbox.iter().take(most) {
            assert!(last < Some(value), "{value} came after {last:?}");
            (letters, last) = (letters + 1, Some(value));
            (0..pause).for_each(|_| yield_now());
        }
        letters
    })
}

fn main() {
    let messages = std::env::args().nth(1).map_or(20_000, |arg| arg.parse().expect("a number of messages"));
    runtime::block_on(|| {
        let (ask, requests) = bounded(64);
        let broker = spawn(move || broker(&requests));
        let subscribe = |topic, room, most, pause| {
            let (mailbox, mail) = bounded(room);
            ask.send(Request::Subscribe { topic, mailbox }).expect("the broker serves");
            reader(mail, most, pause)
        };
        // All of them are subscribed before anything is published: requests are served in order.
        let everything = messages as usize;
        let patient: Vec<_> =
            ["news", "sport", "news"].map(|topic| subscribe(topic, everything, everything, 0)).into();
        let slow = subscribe("news", 4, everything, 3);
        let leaves = subscribe("sport", everything, 10, 0);

        let publishers: Vec<_> = ["news", "sport"]
            .into_iter()
            .map(|topic| {
                let ask = ask.clone();
                spawn(move || (0..messages).all(|value| ask.send(Request::Publish { topic, value }).is_ok()))
            })
            .collect();
        for publisher in publishers {
            assert!(publisher.join().expect("it publishes to the end"), "the broker has gone");
        }
        // Nobody asks any more: the broker ends, with it the mailboxes, and so the readers.
        drop(ask);
        let done = broker.join().expect("the broker serves to the end");
        let read = |reader: JoinHandle<u64>| reader.join().expect("it reads to the end");
        let patient: Vec<u64> = patient.into_iter().map(read).collect();
        let (slow, left) = (read(slow), read(leaves));

        assert!(patient.iter().all(|&letters| letters == messages), "{patient:?}");
        assert_eq!(left, 10.min(messages));
        assert!(slow <= messages && slow + done.dropped == messages);
        assert!(done.delivered >= 3 * messages + slow + left && done.gone <= 1);
        println!("2 topics, {messages} messages each: {done:?}");
        println!("the patient read {patient:?}, the slow one {slow}, who left early {left}");
    });
}
