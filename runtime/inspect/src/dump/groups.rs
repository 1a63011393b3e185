//! A snapshot as text in groups, as Go prints its goroutines: green threads that do the same stand together.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::Write;
use std::time::Duration;

use super::text::{InWords, Indented, count, write_labels};
use super::{GreenThread, Place, Reason, Snapshot, State};

/// What the green threads of one group have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key<'s> {
    pub(super) state: State,
    pub(super) reason: Option<Reason>,
    pub(super) place: Option<Place>,
    pub(super) stack: Option<usize>,
    pub(super) labels: &'s [(String, String)],
}

/// Returns the groups, the largest first.
pub(super) fn group(snapshot: &Snapshot) -> Vec<(Key<'_>, Vec<&GreenThread>)> {
    let mut groups: HashMap<Key<'_>, Vec<&GreenThread>> = HashMap::new();
    for thread in &snapshot.green_threads {
        let reason = thread.wait.as_ref().map(|wait| wait.reason);
        let (place, stack, labels) = (thread.spawned_at, thread.stack, &*thread.labels);
        let key = Key { state: thread.state, reason, place, stack, labels };
        groups.entry(key).or_default().push(thread);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    // The threads of a group are in the order of their ids.
    groups.sort_unstable_by_key(|(_, threads)| (Reverse(threads.len()), threads[0].id));
    groups
}

/// At most so many ids of a group are written.
const MOST_IDS: usize = 16;

pub(super) fn of(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    for (key, threads) in group(snapshot) {
        let _ = write!(text, "{}: {}", count(threads.len()), key.state);
        if let Some(reason) = key.reason {
            let waited = || threads.iter().filter_map(|thread| Some(thread.wait.as_ref()?.waited));
            let (least, most) = (waited().min(), waited().max());
            let in_words = |time: Option<Duration>| InWords(time.unwrap_or_default()).to_string();
            let _ = write!(text, " for {reason}, for {}", in_words(least));
            if in_words(least) != in_words(most) {
                let _ = write!(text, " to {}", in_words(most));
            }
        }
        if let Some(place) = key.place {
            let _ = write!(text, ", spawned at {place}");
        }
        let _ = write_labels(&mut text, key.labels);
        let ids: Vec<_> = threads.iter().take(MOST_IDS).map(|thread| thread.id.to_string()).collect();
        let more = if threads.len() > MOST_IDS { ", .." } else { "" };
        let _ = writeln!(text, "\n    ids: {}{more}", ids.join(", "));
        for frame in key.stack.and_then(|stack| snapshot.stacks.get(stack)).into_iter().flatten() {
            let _ = writeln!(text, "{}", Indented(frame));
        }
    }
    for deadlock in &snapshot.deadlocks {
        let _ = writeln!(text, "{deadlock}");
    }
    let _ = writeln!(text, "{}", count(snapshot.green_threads.len()));
    text
}
