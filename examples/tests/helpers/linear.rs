//! The model of the example raft's store, for the checker of linearizability: what a client asked of a key,
//! and what it got.

#[cfg(feature = "sim")]
#[allow(unused_imports)] // Some tests have no violation.
pub(crate) use runtime::sim::linear::{History, Model, Violation};

// The checker needs no simulation, but the module that has it is there with the feature `sim` only.
#[cfg(not(feature = "sim"))]
#[path = "../../../runtime/sim/src/linear.rs"]
#[allow(dead_code, unreachable_pub)]
mod checker;
#[cfg(not(feature = "sim"))]
#[allow(unused_imports)]
pub(crate) use checker::{History, Model, Violation};

/// What a client asked of a key, and what it got. A value of `None` is a key that is not there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Action {
    Read(Option<u64>),
    Write(Option<u64>),
    /// Sets `new` if the value is `old`; `swapped` is `None` if the answer is not known.
    Cas {
        old: Option<u64>,
        new: u64,
        swapped: Option<bool>,
    },
}

/// An action on a key.
#[derive(Clone, Debug)]
pub(crate) struct OnKey(pub(crate) String, pub(crate) Action);

impl Model for OnKey {
    type State = Option<u64>;
    type Part = String;

    fn part(&self) -> String {
        self.0.clone()
    }

    fn apply(&self, &value: &Option<u64>) -> Option<Option<u64>> {
        match self.1 {
            Action::Read(read) => (read == value).then_some(value),
            Action::Write(written) => Some(written),
            Action::Cas { old, new, swapped } => {
                let swaps = old == value;
                (swapped.unwrap_or(swaps) == swaps).then_some(if swaps { Some(new) } else { value })
            }
        }
    }
}
