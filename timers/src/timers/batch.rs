//! A batch of due timers: one lock hold takes them, and they fire after the unlock.

/// How many due timers one lock hold takes. So many share the cost of the lock, and yet other threads get the
/// lock soon.
pub(super) const BATCH: usize = 32;

/// Timers to be fired, in the order of their times. A one-shot has left its heap; a ticker stays there for
/// its next tick.
pub(super) struct Batch<H> {
    due: [Option<(H, u64, u64)>; BATCH],
    pub(super) taken: usize,
    /// How many timers were removed unfired in the same lock hold.
    pub(super) removed: usize,
    /// How many entries adjust examined in the same lock hold.
    pub(super) adjusted: usize,
}

impl<H> Batch<H> {
    pub(super) fn new() -> Self {
        Self { due: [const { None }; BATCH], taken: 0, removed: 0, adjusted: 0 }
    }

    /// Adds a timer with its `seq` and the time at which it was due.
    pub(super) fn push(&mut self, due: (H, u64, u64)) {
        self.due[self.taken] = Some(due);
        self.taken += 1;
    }

    /// Calls `fire` for each timer of the batch. Leaves the batch empty.
    pub(super) fn fire(&mut self, fire: &mut impl FnMut(H, u64, u64)) {
        Firing { due: self.due[..self.taken].iter_mut(), fire }.fire();
        debug_assert!(self.due.iter().all(Option::is_none));
        self.taken = 0;
    }
}

/// A batch that is being fired. If a callback panics, the drop of this value fires the rest.
struct Firing<'a, H, F: FnMut(H, u64, u64)> {
    due: std::slice::IterMut<'a, Option<(H, u64, u64)>>,
    fire: &'a mut F,
}

impl<H, F: FnMut(H, u64, u64)> Firing<'_, H, F> {
    fn fire(&mut self) {
        for due in self.due.by_ref() {
            let (h, seq, when) = due.take().expect("each of these places is filled");
            (self.fire)(h, seq, when);
        }
    }
}

impl<H, F: FnMut(H, u64, u64)> Drop for Firing<'_, H, F> {
    fn drop(&mut self) {
        self.fire();
    }
}
