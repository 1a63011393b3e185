//! Old handles and wakers, of threads that may have ended. To use one must not disturb the thread that now
//! uses its G.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::task::Waker;

use runtime::thread::Thread;
use tests::Random;

/// The number of handles and wakers that are kept.
const KEPT: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Stale(Mutex<VecDeque<Old>>);

#[derive(Debug)]
pub(crate) enum Old {
    Waker(Waker),
    Thread(Thread),
}

impl From<Waker> for Old {
    fn from(waker: Waker) -> Self {
        Old::Waker(waker)
    }
}

impl From<Thread> for Old {
    fn from(thread: Thread) -> Self {
        Old::Thread(thread)
    }
}

impl Stale {
    /// Keeps `old`. Drops the oldest entry, on the calling thread, if there are too many.
    pub(crate) fn keep(&self, old: impl Into<Old>) {
        let mut kept = self.0.lock().unwrap();
        kept.push_back(old.into());
        let oldest = if kept.len() > KEPT { kept.pop_front() } else { None };
        drop(kept);
        drop(oldest);
    }

    /// Uses a random entry, if there is any.
    pub(crate) fn wake_some(&self, random: &mut Random) {
        let old = {
            let mut kept = self.0.lock().unwrap();
            let place = random.below(kept.len().max(1) as u64) as usize;
            kept.remove(place)
        };
        match old {
            None => {}
            Some(Old::Thread(thread)) => thread.unpark(),
            Some(Old::Waker(waker)) if random.below(2) == 0 => waker.wake(),
            Some(Old::Waker(waker)) => waker.wake_by_ref(),
        }
    }

    pub(crate) fn forget(&self) {
        let kept = std::mem::take(&mut *self.0.lock().unwrap());
        drop(kept);
    }
}
