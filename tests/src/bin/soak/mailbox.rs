//! Letters for one thread of any kind, which parks while it has none: what `unpark` must never lose.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use runtime::thread::{self, Thread};
use tests::Random;

#[derive(Debug)]
pub(crate) struct Mailbox<T> {
    letters: Mutex<VecDeque<T>>,
    owner: OnceLock<Thread>,
}

impl<T> Mailbox<T> {
    pub(crate) fn new() -> Self {
        Mailbox { letters: Mutex::new(VecDeque::new()), owner: OnceLock::new() }
    }

    /// The calling thread gets the letters. It has not looked into the box before.
    pub(crate) fn open(&self) {
        assert!(self.owner.set(thread::current()).is_ok(), "a mailbox has one owner");
    }

    pub(crate) fn put(&self, letter: T) {
        self.letters.lock().unwrap().push_back(letter);
        self.wake();
    }

    /// The owner looks again at what it waits for.
    pub(crate) fn wake(&self) {
        // The lock: either the owner has not looked into the box yet, or we see who it is.
        drop(self.letters.lock().unwrap());
        if let Some(owner) = self.owner.get() {
            owner.unpark();
        }
    }

    pub(crate) fn try_take(&self) -> Option<T> {
        self.letters.lock().unwrap().pop_front()
    }

    /// The next letter; `None` when there is none and `stop` is set. *By the owner.*
    pub(crate) fn take(&self, stop: &AtomicBool, random: &mut Random) -> Option<T> {
        loop {
            if let letter @ Some(_) = self.try_take() {
                return letter;
            }
            if stop.load(SeqCst) {
                return None;
            }
            match random.below(4) {
                0 => thread::park_timeout(Duration::from_micros(random.below(200))),
                _ => thread::park(),
            }
        }
    }
}
