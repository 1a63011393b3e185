//! `Ring`: the last values that were sent, each with the number of receivers that have not received it.

use std::collections::VecDeque;

/// The values have numbers, counted from the first that was sent.
pub(super) struct Ring<V> {
    slots: VecDeque<Slot<V>>,
    capacity: usize,
    /// The number of the first slot's value.
    first: u64,
}

struct Slot<V> {
    /// `None` if `left` is 0.
    value: Option<V>,
    /// The number of receivers that have not received the value.
    left: usize,
}

/// What a receiver finds in the ring.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<V> {
    Value(V),
    /// So many values were dropped before the receiver came.
    Lagged(u64),
    Nothing,
}

impl<V: Clone> Ring<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Ring { slots: VecDeque::with_capacity(capacity), capacity, first: 0 }
    }

    /// Returns the number that the next value gets.
    pub(super) fn next(&self) -> u64 {
        self.first + self.slots.len() as u64
    }

    /// Returns the number of values that a receiver lacks.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Puts a value for `receivers` receivers, of which there is at least one. Returns the value that it
    /// replaces.
    pub(super) fn push(&mut self, value: V, receivers: usize) -> Option<V> {
        debug_assert!(receivers > 0, "a value without receivers is not kept");
        let mut replaced = None;
        if self.slots.len() == self.capacity {
            replaced = self.slots.pop_front().and_then(|slot| slot.value);
            self.first += 1;
        }
        self.slots.push_back(Slot { value: Some(value), left: receivers });
        debug_assert!(self.slots.len() <= self.capacity);
        replaced
    }

    /// Receives the value with the number `at`, and moves `at` to the next number. The last receiver of a
    /// value takes it out of the ring.
    pub(super) fn receive(&mut self, at: &mut u64) -> Found<V> {
        if *at < self.first {
            let missed = self.first - *at;
            *at = self.first;
            return Found::Lagged(missed);
        }
        if *at == self.next() {
            return Found::Nothing;
        }
        let value = self.count_off(*at);
        *at += 1;
        self.trim();
        Found::Value(value)
    }

    /// Counts one receiver of the value off. Returns the value.
    fn count_off(&mut self, at: u64) -> V {
        let slot = self.slot(at);
        debug_assert!(slot.left > 0, "each receiver receives a value once");
        slot.left -= 1;
        let value = if slot.left == 0 { slot.value.take() } else { slot.value.clone() };
        value.expect("a value is kept for its receivers")
    }

    fn slot(&mut self, at: u64) -> &mut Slot<V> {
        &mut self.slots[(at - self.first) as usize]
    }

    /// Removes the first slots that no receiver lacks. All receivers stand behind them.
    fn trim(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.left == 0) {
            self.slots.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Ring};

    #[test]
    fn each_receiver_gets_each_value_once() {
        let mut ring = Ring::new(3);
        let (mut a, mut b) = (ring.next(), ring.next());
        assert_eq!(ring.push('x', 2), None);
        assert_eq!(ring.receive(&mut a), Found::Value('x'));
        assert_eq!((ring.receive(&mut a), ring.len()), (Found::Nothing, 1));
        assert_eq!(ring.receive(&mut b), Found::Value('x'));
        assert_eq!((ring.receive(&mut b), ring.len()), (Found::Nothing, 0));
        // A later receiver starts at the next value.
        let mut c = ring.next();
        ring.push('y', 3);
        assert_eq!(ring.receive(&mut c), Found::Value('y'));
        assert_eq!((ring.receive(&mut a), ring.receive(&mut b)), (Found::Value('y'), Found::Value('y')));
    }

    #[test]
    fn a_full_ring_drops_the_oldest_value() {
        let mut ring = Ring::new(2);
        let (mut slow, mut fast) = (ring.next(), ring.next());
        let replaced = [1, 2, 3, 4].map(|n| {
            let replaced = ring.push(n, 2);
            assert_eq!(ring.receive(&mut fast), Found::Value(n));
            replaced
        });
        assert_eq!(replaced, [None, None, Some(1), Some(2)]);
        assert_eq!(ring.receive(&mut slow), Found::Lagged(2));
        assert_eq!((ring.receive(&mut slow), ring.receive(&mut slow)), (Found::Value(3), Found::Value(4)));
        assert_eq!((ring.receive(&mut slow), ring.len()), (Found::Nothing, 0));
    }
}
