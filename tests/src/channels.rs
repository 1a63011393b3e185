//! Channels of each kind, and green and plain threads that use them.

use std::time::Duration;

use runtime::channel::{Receiver, Sender, bounded, unbounded};

/// A kind of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A channel with room for this number of messages. 0: a send waits for a receiver.
    Bounded(usize),
    /// A channel with room for any number of messages.
    Unbounded,
}

/// The kinds that differ in their implementation.
pub const KINDS: [Kind; 4] = [Kind::Bounded(0), Kind::Bounded(1), Kind::Bounded(7), Kind::Unbounded];

/// The kinds that have a buffer.
pub const BUFFERED: [Kind; 3] = [Kind::Bounded(1), Kind::Bounded(7), Kind::Unbounded];

impl Kind {
    /// Makes a channel of this kind.
    pub fn make<T>(self) -> (Sender<T>, Receiver<T>) {
        match self {
            Kind::Bounded(capacity) => bounded(capacity),
            Kind::Unbounded => unbounded(),
        }
    }

    /// Returns how many messages the channel holds without a receiver, at most `most`.
    pub fn room(self, most: usize) -> usize {
        match self {
            Kind::Bounded(capacity) => capacity.min(most),
            Kind::Unbounded => most,
        }
    }
}

/// A time in which a running thread has usually parked. No check depends on that.
pub const A_WHILE: Duration = Duration::from_millis(3);

/// A time much longer than any test.
pub const LONG: Duration = Duration::from_secs(3600);

/// A green thread or a plain OS thread.
#[derive(Debug)]
pub enum Either<T> {
    /// A green thread.
    Green(runtime::JoinHandle<T>),
    /// A plain OS thread.
    Plain(std::thread::JoinHandle<T>),
}

/// Starts a green thread for an even number, and a plain OS thread for an odd one.
pub fn start<T: Send + 'static>(number: usize, f: impl FnOnce() -> T + Send + 'static) -> Either<T> {
    if number.is_multiple_of(2) {
        Either::Green(runtime::spawn(f))
    } else {
        Either::Plain(std::thread::spawn(f))
    }
}

impl<T> Either<T> {
    /// Waits for the end of the thread and returns its result. Panics if the thread panicked.
    pub fn join(self) -> T {
        match self {
            Either::Green(thread) => thread.join().unwrap(),
            Either::Plain(thread) => {
                // Polls, and does not block: in a strict runtime, the plain thread may wait for green threads
                // of this OS thread.
                crate::wait_until("a plain thread has ended", || thread.is_finished());
                thread.join().unwrap()
            }
        }
    }
}
