//! Counters: what `eventfd` makes. Threads raise a count, and take it.

/// The highest count.
const MOST: u64 = u64::MAX - 1;

/// A count.
#[derive(Debug)]
pub(super) struct Counter {
    count: u64,
    by_one: bool,
}

impl Counter {
    /// `by_one`: a thread takes 1 only.
    pub(super) fn new(count: u64, by_one: bool) -> Self {
        Counter { count, by_one }
    }

    pub(super) fn is_readable(&self) -> bool {
        self.count > 0
    }

    pub(super) fn is_writable(&self) -> bool {
        self.count < MOST
    }

    /// Takes the count, or 1 of it. Returns `None` if it is 0.
    pub(super) fn take(&mut self) -> Option<u64> {
        let taken = if self.by_one { self.count.min(1) } else { self.count };
        self.count -= taken;
        (taken > 0).then_some(taken)
    }

    /// Raises the count. Returns `None` if it would be too high, and leaves it as it is.
    pub(super) fn raise(&mut self, by: u64) -> Option<()> {
        self.count = self.count.checked_add(by).filter(|&count| count <= MOST)?;
        Some(())
    }
}
