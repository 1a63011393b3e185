//! A checker of linearizability: whether what clients have seen of a service has an order in which each
//! operation happens at one moment between its call and its return.
//!
//! A [`History`] notes the operations of all clients, with their results. A [`Model`] says what an operation
//! does to a state that it knows. [`check`](History::check) looks for an order, and returns the operations as
//! a [`Violation`] if there is none. It works outside of simulations, too.
//!
//! ```
//! # runtime::sim!();
//! use runtime::sim::{self, linear::{History, Model}};
//! use std::sync::Arc;
//! use std::sync::atomic::{AtomicU64, Ordering};
//!
//! /// What a client did to a register, with the result.
//! #[derive(Clone, Debug)]
//! enum Did { Read(u64), Add(u64) }
//!
//! impl Model for Did {
//!     type State = u64;
//!     type Part = ();
//!     fn part(&self) {}
//!     fn apply(&self, state: &u64) -> Option<u64> {
//!         match self {
//!             Did::Read(seen) => (seen == state).then_some(*state),
//!             Did::Add(more) => Some(state + more),
//!         }
//!     }
//! }
//!
//! let failure = sim::Builder::new().try_explore(100, || {
//!     let (register, history) = (Arc::new(AtomicU64::new(0)), Arc::new(History::new()));
//!     let clients: Vec<_> = (0..2).map(|client| {
//!         let (register, history) = (register.clone(), history.clone());
//!         runtime::spawn(move || {
//!             let call = history.call(client);
//!             let seen = register.load(Ordering::Relaxed);
//!             runtime::yield_now(); // The other client may add here.
//!             register.store(seen + 1, Ordering::Relaxed);
//!             call.returned(Did::Add(1));
//!         })
//!     }).collect();
//!     clients.into_iter().for_each(|client| client.join().unwrap());
//!     let call = history.call(2);
//!     call.returned(Did::Read(register.load(Ordering::Relaxed)));
//!     history.check().unwrap_or_else(|violation| panic!("{violation}"));
//! }).unwrap_err();
//! assert!(failure.message().contains("not linearizable"));
//! ```

// The search of Wing and Gong, with Lowe's memory of what was tried. Each part is searched alone.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What a service does, for the checker: the type is that of an operation of a client, with its result.
pub trait Model: Clone + fmt::Debug {
    /// What a part of the service remembers. It begins with the default value.
    type State: Clone + Default + Eq + Hash;
    /// What names a part: operations on different parts must not depend on each other. A part can be a key of
    /// a map, or `()` for the whole. The search is the faster, the more parts there are.
    type Part: Ord;

    /// Returns the part that the operation concerns.
    fn part(&self) -> Self::Part;

    /// Returns the state after the operation; `None` if the operation cannot have had its result in `state`.
    /// If the result is not known, any is right.
    fn apply(&self, state: &Self::State) -> Option<Self::State>;
}

/// An operation of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Operation<M> {
    client: u64,
    called: u64,
    /// An operation that has not returned may happen at any later time, or never.
    returned: Option<u64>,
    did: M,
}

/// What all clients have done. Clients share it, by reference or in an `Arc`.
#[derive(Debug)]
pub struct History<M> {
    start: Instant,
    noted: Mutex<Noted<M>>,
}

#[derive(Debug)]
struct Noted<M> {
    /// The last time that was given out.
    last: u64,
    operations: Vec<Operation<M>>,
}

impl<M: Model> Default for History<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Model> History<M> {
    /// Returns a history without operations.
    ///
    /// ```
    /// # runtime::sim!();
    /// use runtime::sim::linear::{History, Model};
    ///
    /// /// A read of a clock, which must not go back.
    /// #[derive(Clone, Debug)]
    /// struct Read(u32);
    ///
    /// impl Model for Read {
    ///     type State = u32;
    ///     type Part = ();
    ///     fn part(&self) {}
    ///     fn apply(&self, last: &u32) -> Option<u32> {
    ///         (self.0 >= *last).then_some(self.0)
    ///     }
    /// }
    ///
    /// let history = History::new();
    /// history.call(1).returned(Read(5)); // The client 1 calls, and gets an answer at once.
    /// history.add(2, 7_000_000_000, Some(8_000_000_000), Read(6)); // In ns, noted by the caller.
    /// history.call(3).unanswered(Read(2)); // It may never have happened.
    /// assert_eq!(history.answered(), 2);
    /// history.check().unwrap();
    /// history.add(2, 9_000_000_000, Some(9_000_000_001), Read(3));
    /// let violation = history.check().unwrap_err();
    /// assert!(violation.to_string().contains("client 2: Read(3)"));
    /// ```
    #[must_use]
    pub fn new() -> Self {
        History { start: Instant::now(), noted: Mutex::new(Noted { last: 0, operations: Vec::new() }) }
    }

    /// Notes that a client makes a call now. A client makes one call at a time.
    pub fn call(&self, client: u64) -> Call<'_, M> {
        Call { of: self, client, called: self.now() }
    }

    /// Adds an operation with times that the caller has noted, on one clock of any unit. `returned` is `None`
    /// if there was no answer: the operation may have happened at any later time, or never.
    pub fn add(&self, client: u64, called: u64, returned: Option<u64>, did: M) {
        self.noted().operations.push(Operation { client, called, returned, did });
    }

    /// Returns how many operations have an answer.
    pub fn answered(&self) -> usize {
        self.noted().operations.iter().filter(|operation| operation.returned.is_some()).count()
    }

    /// Looks for an order of the operations that explains their results. It takes time and memory
    /// exponential in how many operations of a part overlap, at worst.
    ///
    /// # Errors
    /// Returns the operations of a part that has no such order.
    pub fn check(&self) -> Result<(), Violation<M>> {
        let mut parts: BTreeMap<M::Part, Vec<Operation<M>>> = BTreeMap::new();
        for operation in &self.noted().operations {
            parts.entry(operation.did.part()).or_default().push(operation.clone());
        }
        parts.into_values().try_for_each(|mut operations| {
            operations.sort_by_key(|operation| operation.called);
            let mut search = Search { operations: &operations, tried: HashSet::new(), furthest: At::new() };
            if search.explains() {
                return Ok(());
            }
            let explained = search.furthest;
            let stuck = (0..operations.len()).filter(|&at| !explained.has(at)).collect();
            Err(Violation { operations, stuck })
        })
    }

    /// Returns the time in ns, later than every time before: operations of one moment have an order, too.
    fn now(&self) -> u64 {
        let elapsed = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut noted = self.noted();
        noted.last = elapsed.max(noted.last + 1);
        noted.last
    }

    fn noted(&self) -> MutexGuard<'_, Noted<M>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that a client has made. If it is dropped, the history has nothing of it: that is right only for an
/// operation that changes nothing.
#[derive(Debug)]
#[must_use = "a call is part of the history when it has returned, or has no answer"]
pub struct Call<'h, M> {
    of: &'h History<M>,
    client: u64,
    called: u64,
}

impl<M: Model> Call<'_, M> {
    /// Notes that the call returns now, and what it did.
    pub fn returned(self, did: M) {
        let now = self.of.now();
        self.of.add(self.client, self.called, Some(now), did);
    }

    /// Notes that the client gets no answer, such as after a time-out: the service may have done it or not.
    pub fn unanswered(self, did: M) {
        self.of.add(self.client, self.called, None, did);
    }
}

/// The operations of a part of a service that no order explains. Its text lists them in the order of their
/// calls. A star marks each operation that is left where the search came furthest.
#[derive(Clone, PartialEq, Eq)]
pub struct Violation<M> {
    operations: Vec<Operation<M>>,
    stuck: BTreeSet<usize>,
}

/// How many signs of a line show when an operation was under way.
const WIDTH: usize = 40;

impl<M: fmt::Debug> fmt::Display for Violation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "these operations are not linearizable (*: left where the longest order ends):")?;
        // The picture has a column for each call and return, as far as there is room.
        let mut times: Vec<u64> = self.operations.iter().map(|operation| operation.called).collect();
        times.extend(self.operations.iter().filter_map(|operation| operation.returned));
        times.sort_unstable();
        let column = |time| times.partition_point(|other| *other < time) * WIDTH / times.len();
        for (at, Operation { client, called, returned, did }) in self.operations.iter().enumerate() {
            let mark = if self.stuck.contains(&at) { '*' } else { ' ' };
            let (from, to) = (column(*called), returned.map_or(WIDTH, column));
            let bar = "=".repeat(to.saturating_sub(from).max(1));
            let line = format!("{}{bar}{}", " ".repeat(from), if returned.is_some() { "" } else { ">" });
            let until = returned.map_or("?".into(), |at| at.to_string());
            writeln!(
                f,
                "{mark} [{line:<width$}] client {client}: {did:?} ({called} to {until})",
                width = WIDTH + 2
            )?;
        }
        Ok(())
    }
}

impl<M: fmt::Debug> fmt::Debug for Violation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<M: fmt::Debug> std::error::Error for Violation<M> {}

/// Which operations have happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct At {
    /// All operations before this have happened.
    from: usize,
    /// The operations after `from` that have happened.
    ahead: BTreeSet<usize>,
}

impl At {
    fn new() -> At {
        At { from: 0, ahead: BTreeSet::new() }
    }

    fn has(&self, at: usize) -> bool {
        at < self.from || self.ahead.contains(&at)
    }

    fn count(&self) -> usize {
        self.from + self.ahead.len()
    }

    fn after(&self, at: usize) -> At {
        let mut next = self.clone();
        next.ahead.insert(at);
        while next.ahead.remove(&next.from) {
            next.from += 1;
        }
        next
    }
}

struct Search<'h, M: Model> {
    /// In the order of their calls.
    operations: &'h [Operation<M>],
    tried: HashSet<(At, M::State)>,
    furthest: At,
}

impl<M: Model> Search<'_, M> {
    /// Returns `true` if an order of the operations explains their results.
    fn explains(&mut self) -> bool {
        // Depth first, without recursion: a history may be long.
        let mut stack = vec![(At::new(), M::State::default())];
        while let Some((at, state)) = stack.pop() {
            let Some(next) = self.next(&at) else { return true };
            if at.count() > self.furthest.count() {
                self.furthest = at.clone();
            }
            // The operation that was called first is tried first.
            for operation in next.into_iter().rev() {
                let state = self.operations[operation].did.apply(&state);
                let after = state.map(|state| (at.after(operation), state));
                stack.extend(after.filter(|after| self.tried.insert(after.clone())));
            }
        }
        false
    }

    /// Returns the operations that may happen next: each was called before any operation that is left has
    /// returned. Returns `None` if no operation is left that has returned.
    fn next(&self, at: &At) -> Option<Vec<usize>> {
        let (mut next, mut first_return) = (Vec::new(), u64::MAX);
        for number in (at.from..self.operations.len()).filter(|number| !at.has(*number)) {
            let operation = &self.operations[number];
            if operation.called > first_return {
                break;
            }
            first_return = operation.returned.map_or(first_return, |returned| returned.min(first_return));
            next.push(number);
        }
        (first_return < u64::MAX).then_some(next)
    }
}
