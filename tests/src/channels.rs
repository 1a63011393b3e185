//! Channels of each kind, and threads of both worlds at them.

use std::time::Duration;

use runtime::channel::{Receiver, Sender, bounded, unbounded};

/// A kind of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// With room for so many messages; 0 for none.
    Bounded(usize),
    /// With room for any number.
    Unbounded,
}

/// The kinds that differ in how they work.
pub const KINDS: [Kind; 4] = [Kind::Bounded(0), Kind::Bounded(1), Kind::Bounded(7), Kind::Unbounded];

/// Those in which a message can lie.
pub const BUFFERED: [Kind; 3] = [Kind::Bounded(1), Kind::Bounded(7), Kind::Unbounded];

impl Kind {
    /// A channel of it.
    pub fn make<T>(self) -> (Sender<T>, Receiver<T>) {
        match self {
            Kind::Bounded(capacity) => bounded(capacity),
            Kind::Unbounded => unbounded(),
        }
    }

    /// How many messages it takes without a receiver; `most` of any number.
    pub fn room(self, most: usize) -> usize {
        match self {
            Kind::Bounded(capacity) => capacity.min(most),
            Kind::Unbounded => most,
        }
    }
}

/// Long enough that a running thread has usually parked by then. No check depends on it.
pub const A_WHILE: Duration = Duration::from_millis(3);

/// Much longer than any test lasts.
pub const LONG: Duration = Duration::from_secs(3600);

/// A thread of one of the two worlds.
#[derive(Debug)]
pub enum Either<T> {
    /// A green thread.
    Green(runtime::JoinHandle<T>),
    /// An OS thread that knows no runtime.
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
    /// Its result; panics if it panicked.
    pub fn join(self) -> T {
        match self {
            Either::Green(thread) => thread.join().unwrap(),
            Either::Plain(thread) => {
                // Not by blocking: in strict mode that would hold up the green threads of this OS thread, which it may wait for.
                crate::wait_until("a plain thread has ended", || thread.is_finished());
                thread.join().unwrap()
            }
        }
    }
}
