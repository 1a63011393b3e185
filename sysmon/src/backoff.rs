//! The backoff of sysmon: it sleeps 20 us after a round that found work. Each round that finds none doubles
//! the time, up to 10 ms. While all Ps are idle the time grows faster, because each round is a switch to a
//! thread that has nothing to watch. A P that begins to work is watched as late then as after a long busy
//! time.

const SHORTEST_NS: u64 = 20_000;
const LONGEST_NS: u64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct Backoff {
    ns: u64,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Backoff { ns: SHORTEST_NS }
    }

    pub(crate) fn found(&mut self) {
        self.ns = SHORTEST_NS;
    }

    pub(crate) fn found_nothing(&mut self) {
        self.ns = (self.ns * 2).min(LONGEST_NS);
    }

    pub(crate) fn found_all_idle(&mut self) {
        self.ns = (self.ns * 8).min(LONGEST_NS);
    }

    pub(crate) fn is_longest(&self) -> bool {
        self.ns == LONGEST_NS
    }

    pub(crate) fn ns(&self) -> u64 {
        self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_backoff_is_longest_after_three_rounds_without_a_busy_p() {
        let mut backoff = Backoff::new();
        (0..2).for_each(|_| backoff.found_all_idle());
        assert!(!backoff.is_longest());
        backoff.found_all_idle();
        assert!(backoff.is_longest());
    }

    #[test]
    fn the_backoff_doubles_to_ten_milliseconds_and_starts_again_at_twenty_microseconds() {
        let mut backoff = Backoff::new();
        backoff.found_nothing();
        assert_eq!(backoff.ns(), 40_000);
        (0..20).for_each(|_| backoff.found_nothing());
        assert_eq!(backoff.ns(), LONGEST_NS);
        backoff.found();
        assert_eq!(backoff.ns(), SHORTEST_NS);
    }
}
