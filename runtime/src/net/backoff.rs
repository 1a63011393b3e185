//! Pauses that grow: for what the system gives no event for.

use std::time::Duration;

/// The pauses of one caller, each twice as long as the last one, up to a limit.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    most: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, most: Duration) -> Self {
        Backoff { next: first, most }
    }

    /// How long the next pause is.
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
