//! The clients of a cluster under test: each does random operations on a few keys, and notes them in a
//! history.

use std::time::Duration;

use fastrand::Rng;

use crate::linear::{self, Action, OnKey, Violation};
use crate::raft::client::{Client, Error};

const KEYS: u64 = 3;

/// What all clients have done.
#[derive(Debug)]
pub(crate) struct History(linear::History<OnKey>);

impl History {
    pub(crate) fn new() -> History {
        History(linear::History::new())
    }

    /// Returns how many operations have an answer.
    pub(crate) fn answered(&self) -> usize {
        self.0.answered()
    }

    pub(crate) fn check(&self) -> Result<(), Violation<OnKey>> {
        self.0.check()
    }

    /// Does random operations until `ends` returns `true`, with a pause of up to `pause` after each.
    pub(crate) fn work(
        &self,
        number: u64,
        mut client: Client,
        mut random: Rng,
        pause: Duration,
        ends: impl Fn() -> bool,
    ) {
        let mut seen = [None; KEYS as usize];
        let mut last = 0;
        while !ends() {
            let key = random.u64(..KEYS);
            last += 1;
            // Each value is written once.
            let new = number * 1_000_000 + last;
            let seen = &mut seen[key as usize];
            let wanted = match random.u32(..10) {
                0..4 => Action::Read(None),
                4..7 => Action::Write(Some(new)),
                7 => Action::Write(None),
                _ => Action::Cas { old: *seen, new, swapped: None },
            };
            let key = format!("key{key}");
            let call = self.0.call(number);
            let done = perform(&mut client, &key, wanted);
            *seen = match done.unwrap_or(wanted) {
                Action::Read(value) | Action::Write(value) => value,
                Action::Cas { new, .. } => Some(new),
            };
            match done {
                Some(action) => call.returned(OnKey(key, action)),
                // A read without an answer says nothing.
                None if matches!(wanted, Action::Read(_)) => drop(call),
                None => call.unanswered(OnKey(key, wanted)),
            }
            runtime::sleep(pause.mul_f64(random.f64()));
        }
    }
}

/// Performs an action. Returns it with its result, or `None` if there is no answer.
fn perform(client: &mut Client, key: &str, action: Action) -> Option<Action> {
    let text = |value: u64| value.to_string();
    let done = match action {
        Action::Read(_) => {
            client.get(key).map(|value| Action::Read(value.map(|value| value.parse().unwrap())))
        }
        Action::Write(Some(value)) => client.put(key, &text(value)).map(|()| action),
        Action::Write(None) => client.delete(key).map(|()| action),
        Action::Cas { old, new, .. } => client
            .cas(key, old.map(text).as_deref(), &text(new))
            .map(|swapped| Action::Cas { old, new, swapped: Some(swapped) }),
    };
    match done {
        Ok(action) => Some(action),
        Err(Error::Unknown(_)) => None,
        Err(Error::Refused(why)) => panic!("{why}"),
    }
}
