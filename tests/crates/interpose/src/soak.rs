//! The operations of the program `soak`: each uses std's blocking calls alone, and returns what it has
//! observed.

mod channels;
mod green;
mod locks;
mod sockets;

/// An operation. A side and a seed decide what it does; the seed alone decides what it returns.
pub type Operation = fn(Side, u64) -> String;

/// The operations that green threads and OS threads perform.
pub const OPERATIONS: &[(&str, Operation)] = &[
    ("stream", sockets::stream),
    ("tcp", sockets::tcp),
    ("pipe", sockets::pipe),
    ("datagrams", sockets::datagrams),
    ("time-out of a socket", sockets::time_out),
    ("poll", sockets::poll),
    ("many readers", sockets::many_readers),
    ("a copy is closed", sockets::a_copy_is_closed),
    ("shutdown", sockets::shutdown),
    ("name", sockets::name),
    ("sleep", locks::sleep),
    ("counter", locks::counter),
    ("connection under a lock", locks::connection_under_a_lock),
    ("condition", locks::condition),
    ("barrier", locks::barrier),
    ("rendezvous", channels::rendezvous),
    ("bounded channel", channels::bounded),
    ("answers of OS threads", channels::answers),
    ("scope", channels::scope),
];

/// Operations that only green threads perform. They return nothing.
pub const GREEN_ONLY: &[(&str, Operation)] = &[
    ("cancellation", green::cancellation),
    ("time-out around a call", green::time_out_around),
    ("a descriptor is replaced", green::replaced),
];

/// Which threads perform an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Green threads.
    Green,
    /// Plain OS threads.
    Plain,
}

/// The handle of a thread of either side.
enum Handle<T> {
    Green(runtime::thread::JoinHandle<T>),
    Plain(std::thread::JoinHandle<T>),
}

impl Side {
    fn spawn<T: Send + 'static>(self, f: impl FnOnce() -> T + Send + 'static) -> Handle<T> {
        match self {
            Side::Green => Handle::Green(runtime::spawn(f)),
            Side::Plain => Handle::Plain(std::thread::spawn(f)),
        }
    }
}

impl<T> Handle<T> {
    fn join(self) -> T {
        match self {
            Handle::Green(thread) => thread.join(),
            Handle::Plain(thread) => thread.join(),
        }
        .expect("a thread of an operation")
    }
}

/// Random numbers. The same seed gives the same numbers.
#[derive(Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// Begins the sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit)
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = 1 + self.below(most);
        (0..length).map(|_| self.0.u8(..)).collect()
    }
}

/// A sum of bytes in order (FNV-1a).
#[derive(Clone, Copy)]
struct Sum(u64);

impl Sum {
    fn new() -> Self {
        Sum(0xCBF2_9CE4_8422_2325)
    }

    fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}
