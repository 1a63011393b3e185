//! The ten states of a timer, the transitions between them, and the word that holds the state.

use crate::sync::{AtomicU8, Ordering};

/// The state of a timer. Go: `timerNoStatus` and the nine constants after it.
///
/// In a *brief* state the timer belongs to one thread, which ends that state within a few instructions. This
/// thread neither waits nor calls a function that may wait. Every other thread that reads a brief state
/// yields and reads again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// In no heap: fresh, or a one-shot that was taken to be fired.
    NoStatus,
    /// In a heap, sorted by the right time; fires at `when`.
    Waiting,
    /// Brief, in a heap: a holder of the heap's lock takes the timer to fire it.
    Running,
    /// In a heap, but stopped; a holder of the heap's lock will remove the timer.
    Deleted,
    /// Brief, in a heap: a holder of the heap's lock removes the timer.
    Removing,
    /// In no heap: stopped and removed.
    Removed,
    /// Brief, in a heap or in none: a thread changes the fields of the timer.
    Modifying,
    /// In a heap, sorted by too late a time: `nextwhen < when`.
    ModifiedEarlier,
    /// In a heap, sorted by too early a time or by the right one: `nextwhen >= when`.
    ModifiedLater,
    /// Brief, in a heap: a holder of the heap's lock moves the entry to its right place.
    Moving,
}

use State::*;

impl State {
    const ALL: [State; 10] = [
        NoStatus,
        Waiting,
        Running,
        Deleted,
        Removing,
        Removed,
        Modifying,
        ModifiedEarlier,
        ModifiedLater,
        Moving,
    ];

    pub(crate) fn is_brief(self) -> bool {
        matches!(self, Running | Removing | Modifying | Moving)
    }

    /// Returns `true` if the picture in `lib.rs` has an arrow from this state to `next`.
    pub(crate) fn may_become(self, next: State) -> bool {
        match self {
            NoStatus => matches!(next, Waiting | Modifying),
            Waiting => matches!(next, Running | Modifying | Moving),
            Running => matches!(next, Waiting | NoStatus),
            Deleted => matches!(next, Removing | Modifying),
            Removing => matches!(next, Removed),
            Removed => matches!(next, Modifying),
            Modifying => matches!(next, Waiting | Deleted | ModifiedEarlier | ModifiedLater),
            ModifiedEarlier | ModifiedLater => matches!(next, Modifying | Moving),
            Moving => matches!(next, Waiting),
        }
    }
}

/// The word that holds one timer's state. Only functions of `timer.rs` change it.
pub(crate) struct Status(AtomicU8);

impl Status {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(AtomicU8::new(NoStatus as u8))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(NoStatus as u8))
    }

    /// Returns the state.
    // Acquire: the partner is the Release in `put` and `step`. A thread that reads a state sees its fields
    // and counts.
    pub(crate) fn get(&self) -> State {
        State::ALL[self.0.load(Ordering::Acquire) as usize]
    }

    /// Returns `true` if the timer is in `state`.
    #[inline]
    pub(crate) fn is(&self, state: State) -> bool {
        // Acquire: the partner is the Release in `put` and `step`.
        self.0.load(Ordering::Acquire) == state as u8
    }

    /// Changes the state from `from` to `to`. Returns `false` if the timer is not in `from`.
    pub(crate) fn step(&self, from: State, to: State) -> bool {
        debug_assert!(from.may_become(to), "no such transition: {from:?} -> {to:?}");
        // Acquire: the partner is the Release in `put`. The winner sees the fields as the last claimer has
        // left them.
        self.0.compare_exchange(from as u8, to as u8, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Changes the state from the brief `from` to `to`, or from NoStatus. Precondition: the caller has
    /// claimed the timer, or no other thread has it yet. So no other thread writes the word at that time.
    pub(crate) fn put(&self, from: State, to: State) {
        debug_assert!(from.is_brief() || from == NoStatus, "{from:?} needs a claim");
        debug_assert!(from.may_become(to), "no such transition: {from:?} -> {to:?}");
        // Release: the partners are the Acquires in `get` and `step`. Publishes the fields that were set in
        // the state `from`.
        self.0.store(to as u8, Ordering::Release);
    }

    /// Changes the state to `brief` from any state. Only the broken twins of models call this.
    pub(crate) fn seize(&self, brief: State) {
        self.0.store(brief as u8, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_state_has_its_number_as_its_index() {
        for (number, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
        }
    }

    #[test]
    fn no_brief_state_follows_a_brief_state_and_each_state_has_a_next() {
        for from in State::ALL {
            let next: Vec<_> = State::ALL.into_iter().filter(|&to| from.may_become(to)).collect();
            assert!(!next.is_empty(), "{from:?} is a dead end");
            assert!(!next.contains(&from), "{from:?} follows itself");
            if from.is_brief() {
                assert!(next.iter().all(|to| !to.is_brief()), "{from:?} leads to another brief state");
            }
        }
    }

    #[test]
    fn only_one_of_two_steps_from_the_same_state_succeeds() {
        let status = Status::new();
        assert!(status.step(NoStatus, Waiting));
        assert!(status.step(Waiting, Modifying));
        assert!(!status.step(Waiting, Running));
        status.put(Modifying, Deleted);
        assert_eq!(status.get(), Deleted);
    }
}
