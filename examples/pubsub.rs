//! Publish and subscribe: a broker on one green thread owns all topics, so it needs no lock.
//!
//! Publishers and subscribers send requests to the broker through a single channel. Each subscriber has a
//! bounded mailbox. The broker never waits for a full mailbox: it drops the message for that subscriber, so a
//! slow subscriber cannot delay the others. A subscriber leaves by dropping its receiver.
//!
//! Look at the last printed lines: fast subscribers received everything, the slow subscriber missed some
//! messages.
//!
//! ```sh
//! cargo run --release --example pubsub             # 20,000 messages on each of two topics
//! cargo run --release --example pubsub -- 1000000
//! ```

use std::collections::HashMap;

use runtime::channel::{Receiver, Sender, TrySendError, bounded};
use runtime::{JoinHandle, spawn, yield_now};

enum Request {
    Subscribe { topic: &'static str, mailbox: Sender<u64> },
    Publish { topic: &'static str, message: u64 },
}

/// The broker's counts.
#[derive(Debug, Default)]
struct Counts {
    delivered: u64,
    /// Messages for which a full mailbox had no room.
    dropped: u64,
    /// Subscribers that had left before the next message came.
    left: u64,
}

/// Serves requests until every sender of requests is dropped.
fn run_broker(requests: &Receiver<Request>) -> Counts {
    let mut topics = HashMap::<&str, Vec<Sender<u64>>>::new();
    let mut counts = Counts::default();
    for request in requests {
        match request {
            Request::Subscribe { topic, mailbox } => topics.entry(topic).or_default().push(mailbox),
            Request::Publish { topic, message } => {
                let mailboxes = topics.entry(topic).or_default();
                mailboxes.retain(|mailbox| deliver(message, mailbox, &mut counts));
            }
        }
    }
    counts
}

/// Puts `message` into `mailbox` without waiting. Returns `false` if the subscriber has left.
fn deliver(message: u64, mailbox: &Sender<u64>, counts: &mut Counts) -> bool {
    match mailbox.try_send(message) {
        Ok(()) => counts.delivered += 1,
        Err(TrySendError::Full(_)) => counts.dropped += 1,
        Err(TrySendError::Disconnected(_)) => {
            counts.left += 1;
            return false;
        }
    }
    true
}

/// How a subscriber behaves.
struct Subscriber {
    topic: &'static str,
    /// The capacity of the subscriber's mailbox.
    capacity: usize,
    /// The subscriber leaves after this many messages.
    limit: usize,
    /// The number of yields after each message.
    yields: u32,
}

impl Subscriber {
    /// Subscribes, and starts a green thread that reads the mailbox. Its result is the number of messages
    /// received.
    fn start(self, broker: &Sender<Request>) -> JoinHandle<u64> {
        let (mailbox, messages) = bounded(self.capacity);
        broker.send(Request::Subscribe { topic: self.topic, mailbox }).expect("the broker runs");
        spawn(move || {
            let (mut received, mut last) = (0, None);
            for message in messages.iter().take(self.limit) {
                assert!(last < Some(message), "message {message} came after {last:?}");
                (received, last) = (received + 1, Some(message));
                (0..self.yields).for_each(|_| yield_now());
            }
            received
        })
    }
}

fn main() {
    let messages: u64 =
        std::env::args().nth(1).map_or(20_000, |arg| arg.parse().expect("a number of messages"));
    runtime::block_on(|| {
        let (to_broker, requests) = bounded(64);
        let broker = spawn(move || run_broker(&requests));

        // The broker serves requests in order: these subscriptions precede the first message.
        let all = messages as usize;
        let fast = ["news", "sport", "news"]
            .map(|topic| Subscriber { topic, capacity: all, limit: all, yields: 0 }.start(&to_broker));
        let slow = Subscriber { topic: "news", capacity: 4, limit: all, yields: 3 }.start(&to_broker);
        let leaver = Subscriber { topic: "sport", capacity: all, limit: 10, yields: 0 }.start(&to_broker);

        let publishers = ["news", "sport"].map(|topic| {
            let to_broker = to_broker.clone();
            spawn(move || {
                for message in 0..messages {
                    to_broker.send(Request::Publish { topic, message }).expect("the broker runs");
                }
            })
        });
        publishers.into_iter().for_each(|publisher| publisher.join().expect("a publisher does not panic"));

        // The last sender of requests ends the broker. That drops the mailboxes, which ends the subscribers.
        drop(to_broker);
        let counts = broker.join().expect("the broker does not panic");
        let received = |subscriber: JoinHandle<u64>| subscriber.join().expect("a subscriber does not panic");
        let fast = fast.map(received);
        let (slow, leaver) = (received(slow), received(leaver));

        assert_eq!(fast, [messages; 3], "a mailbox with room for all messages lost some");
        assert_eq!(slow + counts.dropped, messages, "each message is received or counted as dropped");
        assert_eq!(leaver, messages.min(10));
        assert!(counts.left <= 1);
        println!("2 topics, {messages} messages each: {counts:?}");
        println!("received: fast subscribers {fast:?}, slow subscriber {slow}, leaver {leaver}");
    });
}
