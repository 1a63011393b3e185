//! `Backoff`: the lengths of repeated pauses, each twice the last, up to a limit. The caller sleeps.
//! `Backoff` serves accepts that fail (`incoming.rs`), and Unix sockets whose peer is full (`unix.rs`).

use std::time::Duration;

/// The pauses of one caller. Each is twice as long as the one before, up to a limit.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Backoff { next: first, most }
    }

    /// Returns the length of the next pause.
    pub(crate) fn step(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.most);
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_limit() {
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(15));
        let steps = [(); 4].map(|()| backoff.step().as_millis());
        assert_eq!(steps, [5, 10, 15, 15]);
    }
}
