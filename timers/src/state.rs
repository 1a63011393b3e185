//! The ten states of a timer, which may follow which, and the word that holds one.

use crate::sync::{AtomicU32, Ordering};

/// Where a timer is in its life. Go: `timerNoStatus` and its nine followers.
///
/// The *brief* ones belong to one thread, which leaves them within a few instructions: it neither waits for anything
/// nor calls anything that could. Whoever else meets a brief state yields and looks again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum State {
    /// In no heap: fresh, or a one-shot that was taken to be fired.
    NoStatus,
    /// In a heap, in its right place; fires at `when`.
    Waiting,
    /// Brief, in a heap: being taken to be fired.
    Running,
    /// In a heap, but stopped; a holder of the heap's lock will remove it.
    Deleted,
    /// Brief, in a heap: being removed.
    Removing,
    /// In no heap: stopped and removed.
    Removed,
    /// Brief, in a heap or not: its fields are being changed.
    Modifying,
    /// In a heap, in a place too late for it: `nextwhen < when`.
    ModifiedEarlier,
    /// In a heap, in a place too early for it or just right: `nextwhen >= when`.
    ModifiedLater,
    /// Brief, in a heap: being put into its right place.
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

    /// The arrows of the picture in `lib.rs`.
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

/// One timer's state. Private to `timer.rs`, whose verbs are all that changes it.
pub(crate) struct Status(AtomicU32);

impl Status {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NoStatus as u32))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(NoStatus as u32))
    }

    /// Acquire, with the Release of [`Status::put`]: who sees a state sees the fields and counts that go with it.
    pub(crate) fn get(&self) -> State {
        State::ALL[self.0.load(Ordering::Acquire) as usize]
    }

    /// One step, if nobody else took one first.
    pub(crate) fn step(&self, from: State, to: State) -> bool {
        debug_assert!(from.may_become(to), "no such transition: {from:?} -> {to:?}");
        // Acquire, with the Release of `put`: the winner works on the fields as the last one left them. Release: an
        // `add` goes NoStatus -> Waiting in this one step, and its fields must be seen by who claims it (`get`, `step`).
        self.0.compare_exchange(from as u32, to as u32, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Leaves the brief state `from`, which the caller entered: no one else may write the word until then.
    pub(crate) fn put(&self, from: State, to: State) {
        debug_assert!(from.is_brief() && from.may_become(to), "no such transition: {from:?} -> {to:?}");
        // Release, with the Acquire of `get` and `step`: hands on what was done in the brief state.
        self.0.store(to as u32, Ordering::Release);
    }

    /// Takes the word whatever it says. Right nowhere: for the models, which must see this fail.
    pub(crate) fn seize(&self, brief: State) {
        self.0.store(brief as u32, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn all_states_stand_at_their_number() {
        for (number, state) in State::ALL.into_iter().enumerate() {
            assert_eq!(state as usize, number);
        }
    }

    #[test]
    fn brief_states_lead_only_to_settled_ones_and_each_state_can_be_left() {
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
    fn of_two_steps_from_one_state_one_is_taken() {
        let status = Status::new();
        assert!(status.step(NoStatus, Waiting));
        assert!(status.step(Waiting, Modifying));
        assert!(!status.step(Waiting, Running));
        status.put(Modifying, Deleted);
        assert_eq!(status.get(), Deleted);
    }
}
