//! A mailbox: letters for its owner, a thread that parks while there are none. It tests that `unpark` is
//! never lost.

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

    /// Makes the calling thread the owner. The owner calls this before it takes its first letter.
    pub(crate) fn open(&self) {
        assert!(self.owner.set(thread::current()).is_ok(), "a mailbox has one owner");
    }

    pub(crate) fn put(&self, letter: T) {
        self.letters.lock().unwrap().push_back(letter);
        self.wake();
    }

    /// Makes the owner check its letters and its stop flag again.
    pub(crate) fn wake(&self) {
        // The lock orders this call with the owner: it has not yet looked into the box, or `owner` is visible
        // here.
        drop(self.letters.lock().unwrap());
        if let Some(owner) = self.owner.get() {
            owner.unpark();
        }
    }

    pub(crate) fn try_take(&self) -> Option<T> {
        self.letters.lock().unwrap().pop_front()
    }

    /// Takes the next letter, parking until there is one. Returns `None` if there is none and `stop` is set.
    /// Only the owner calls this.
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
