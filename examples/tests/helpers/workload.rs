//! The clients of a cluster under test: each does random operations on a few keys, and notes them in a
//! history.

use std::time::{Duration, Instant};

use fastrand::Rng;
use runtime::sync::Mutex;

use crate::linear::{Action, Operation, Violation, check};
use crate::raft::client::{Client, Error};

const KEYS: u64 = 3;

/// What all clients have done.
#[derive(Debug)]
pub(crate) struct History {
    start: Instant,
    operations: Mutex<Vec<Operation>>,
}

impl History {
    pub(crate) fn new() -> History {
        History { start: Instant::now(), operations: Mutex::default() }
    }

    /// Returns how many operations have an answer.
    pub(crate) fn answered(&self) -> usize {
        self.operations.lock().iter().filter(|operation| operation.returned.is_some()).count()
    }

    pub(crate) fn check(&self) -> Result<(), Violation> {
        check(&self.operations.lock())
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
            let called = self.now();
            let done = perform(&mut client, &key, wanted);
            let returned = done.is_some().then(|| self.now());
            *seen = match done.unwrap_or(wanted) {
                Action::Read(value) | Action::Write(value) => value,
                Action::Cas { new, .. } => Some(new),
            };
            // A read without an answer says nothing.
            if returned.is_some() || !matches!(wanted, Action::Read(_)) {
                let action = done.unwrap_or(wanted);
                self.operations.lock().push(Operation { key, client: number, called, returned, action });
            }
            runtime::sleep(pause.mul_f64(random.f64()));
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
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
