//! A snapshot as a tree: each green thread below the one that spawned it.

use std::collections::HashMap;
use std::fmt::Write;

use super::text::{Line, count};
use super::{GreenThread, Snapshot};

pub(super) fn of(snapshot: &Snapshot) -> String {
    let ids = snapshot.ids();
    let mut children: HashMap<u64, Vec<&GreenThread>> = HashMap::new();
    let mut roots = Vec::new();
    for thread in &snapshot.green_threads {
        // A parent that has ended is not in the snapshot.
        match thread.scope.or(thread.parent).filter(|parent| ids.contains(parent)) {
            Some(parent) => children.entry(parent).or_default().push(thread),
            None => roots.push(thread),
        }
    }
    let mut text = String::new();
    // A list of what is left to write, the next at its end: a tree may be deeper than the stack of the caller
    // allows.
    let mut left: Vec<_> = roots.into_iter().rev().map(|root| (0, root)).collect();
    while let Some((depth, thread)) = left.pop() {
        let _ = write!(text, "{:depth$}{}", "", Line { snapshot, thread }, depth = 2 * depth);
        text.push_str(if thread.scope.is_some() { " (in its scope)\n" } else { "\n" });
        // Removed: two looks at different moments could otherwise show a circle.
        let children = children.remove(&thread.id).unwrap_or_default();
        left.extend(children.into_iter().rev().map(|child| (depth + 1, child)));
    }
    let _ = writeln!(text, "{}", count(snapshot.green_threads.len()));
    text
}
