//! A checker of linearizability: each operation seems to happen at one moment between its call and its
//! return. Each key is checked alone, with the search of Wing and Gong, and Lowe's memory of what was tried.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;

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

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) key: String,
    pub(crate) client: u64,
    /// The times of the call and of the return, on one clock. An operation that has not returned may happen
    /// at any later time, or never.
    pub(crate) called: u64,
    pub(crate) returned: Option<u64>,
    pub(crate) action: Action,
}

/// A key with operations that no order explains.
#[derive(Debug)]
pub(crate) struct Violation(Vec<Operation>);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "these operations are not linearizable:")?;
        for Operation { key, client, called, returned, action } in &self.0 {
            let returned = returned.map_or("?".into(), |at| at.to_string());
            writeln!(f, "  {called} to {returned}: client {client}, {key}: {action:?}")?;
        }
        Ok(())
    }
}

impl Action {
    /// Returns the value after the action, or `None` if the action cannot have had its result with this
    /// value.
    fn apply(self, value: Option<u64>) -> Option<Option<u64>> {
        match self {
            Action::Read(read) => (read == value).then_some(value),
            Action::Write(written) => Some(written),
            Action::Cas { old, new, swapped } => {
                let swaps = old == value;
                (swapped.unwrap_or(swaps) == swaps).then_some(if swaps { Some(new) } else { value })
            }
        }
    }
}

/// Checks a history. Returns the operations of a key that is not linearizable.
pub(crate) fn check(history: &[Operation]) -> Result<(), Violation> {
    let mut keys: BTreeMap<&str, Vec<Operation>> = BTreeMap::new();
    for operation in history {
        keys.entry(&operation.key).or_default().push(operation.clone());
    }
    for mut operations in keys.into_values() {
        operations.sort_by_key(|operation| operation.called);
        let mut search = Search { operations: &operations, tried: HashSet::new() };
        if !search.explains() {
            return Err(Violation(operations));
        }
    }
    Ok(())
}

/// How far a search has come: which operations have happened, and the value after them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct LinearState {
    /// All operations before this have happened.
    from: usize,
    /// Those after `from` that have happened.
    ahead: BTreeSet<usize>,
    value: Option<u64>,
}

impl LinearState {
    fn after(&self, at: usize, value: Option<u64>) -> LinearState {
        let mut next = LinearState { value, ..self.clone() };
        next.ahead.insert(at);
        while next.ahead.remove(&next.from) {
            next.from += 1;
        }
        next
    }
}

struct Search<'h> {
    /// In the order of their calls.
    operations: &'h [Operation],
    tried: HashSet<LinearState>,
}

impl Search<'_> {
    /// Returns `true` if an order of the operations explains their results.
    fn explains(&mut self) -> bool {
        // Depth first, without recursion: a history may be long.
        let mut stack = vec![LinearState::default()];
        while let Some(state) = stack.pop() {
            let Some(next) = self.next(&state) else { return true };
            // The operation that was called first is tried first.
            for at in next.into_iter().rev() {
                let value = self.operations[at].action.apply(state.value);
                let after = value.map(|value| state.after(at, value));
                stack.extend(after.filter(|after| self.tried.insert(after.clone())));
            }
        }
        false
    }

    /// Returns the operations that may happen next: each was called before any operation that is left has
    /// returned. Returns `None` if no operation is left that has returned.
    fn next(&self, state: &LinearState) -> Option<Vec<usize>> {
        let (mut next, mut first_return) = (Vec::new(), u64::MAX);
        for at in (state.from..self.operations.len()).filter(|at| !state.ahead.contains(at)) {
            let operation = &self.operations[at];
            if operation.called > first_return {
                break;
            }
            first_return = operation.returned.map_or(first_return, |returned| returned.min(first_return));
            next.push(at);
        }
        (first_return < u64::MAX).then_some(next)
    }
}
