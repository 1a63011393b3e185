//! A batch of due timers: one lock hold takes them, and they fire after the unlock.

/// How many due timers one lock hold takes. So many share the cost of the lock, and yet other threads get the
/// lock soon.
pub(super) const BATCH: usize = 32;

/// A timer with its `seq` and the time at which it was due.
type Due<H> = (H, u64, u64);

/// Timers to be fired, in the order of their times. A one-shot has left its heap; a ticker stays there for
/// its next tick.
pub(super) struct Batch<H> {
    first: Option<Due<H>>,
    /// Made for the second timer: the timer of a lone sleeper need not clear the places of all.
    others: Option<[Option<Due<H>>; BATCH - 1]>,
    pub(super) taken: usize,
    /// How many timers were removed unfired in the same lock hold.
    pub(super) removed: usize,
    /// How many entries adjust examined in the same lock hold.
    pub(super) adjusted: usize,
}

impl<H> Batch<H> {
    pub(super) fn new() -> Self {
        Self { first: None, others: None, taken: 0, removed: 0, adjusted: 0 }
    }

    /// Adds a timer with its `seq` and the time at which it was due.
    pub(super) fn push(&mut self, due: Due<H>) {
        match self.taken {
            0 => self.first = Some(due),
            n => self.others.get_or_insert([const { None }; BATCH - 1])[n - 1] = Some(due),
        }
        self.taken += 1;
    }

    /// Takes timer `n` out.
    fn take(&mut self, n: usize) -> Option<Due<H>> {
        match n {
            0 => self.first.take(),
            n => self.others.as_mut()?[n - 1].take(),
        }
    }

    /// Calls `fire` for each timer of the batch. Leaves the batch empty.
    pub(super) fn fire(&mut self, fire: &mut impl FnMut(H, u64, u64)) {
        Firing { batch: self, next: 0, fire }.fire();
        debug_assert!(self.first.is_none() && self.others.iter().flatten().all(Option::is_none));
        self.taken = 0;
    }
}

/// A batch that is being fired. If a callback panics, the drop of this value fires the rest.
struct Firing<'a, H, F: FnMut(H, u64, u64)> {
    batch: &'a mut Batch<H>,
    next: usize,
    fire: &'a mut F,
}

impl<H, F: FnMut(H, u64, u64)> Firing<'_, H, F> {
    fn fire(&mut self) {
        while self.next < self.batch.taken {
            let due = self.batch.take(self.next);
            self.next += 1;
            let (h, seq, when) = due.expect("each of these places is filled");
            (self.fire)(h, seq, when);
        }
    }
}

impl<H, F: FnMut(H, u64, u64)> Drop for Firing<'_, H, F> {
    fn drop(&mut self) {
        self.fire();
    }
}
