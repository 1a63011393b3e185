//! The green threads that never go on, if channels are considered too: the largest set in which each waits for the set alone.
//!
//! One that waits for a lock or an end stays in the set while a thread that it waits for is in it. One that waits for channels stays while
//! all threads that have handles of the other ends are in it, and all green threads that these have spawned: a scoped one may
//! use a handle that it borrowed. A thread that does not stay takes those with it that depended on it.

use std::collections::{HashMap, HashSet};

use super::Snapshot;

/// What one of the stuck green threads waits for.
pub(super) enum Needs {
    /// Any of these has to go on, by index. Nothing is known if there is none.
    Any(Vec<usize>),
    /// Each of these must never go on, by id: they have all handles.
    All(Vec<u64>),
}

/// Returns which of the green threads `ids` never go on, if they wait for `needs`.
pub(super) fn doomed(snapshot: &Snapshot, ids: &[u64], needs: &[Needs]) -> Vec<bool> {
    let index: HashMap<u64, usize> = ids.iter().enumerate().map(|(at, &id)| (id, at)).collect();
    let mut is_in = vec![true; ids.len()];
    let mut left: Vec<usize> = vec![0; ids.len()];
    let mut waits_for: Vec<Vec<usize>> = vec![Vec::new(); ids.len()];
    // Which threads wait for the handles of this one.
    let mut handles_of: HashMap<u64, Vec<usize>> = HashMap::new();
    let mut out: Vec<usize> = Vec::new();
    for (from, needs) in needs.iter().enumerate() {
        match needs {
            Needs::Any(to) => {
                left[from] = to.len();
                to.iter().for_each(|&to| waits_for[to].push(from));
                if to.is_empty() {
                    out.push(from);
                }
            }
            Needs::All(holders) => {
                holders.iter().for_each(|&id| handles_of.entry(id).or_default().push(from));
                if !holders.iter().all(|id| index.contains_key(id)) {
                    out.push(from);
                }
            }
        }
    }
    // Those that have a descendant which may go on.
    let mut lends: HashSet<u64> = HashSet::new();
    let mut lend = |id: u64, out: &mut Vec<usize>| {
        for ancestor in snapshot.ancestors_of(id) {
            if !lends.insert(ancestor) {
                break;
            }
            out.extend(handles_of.get(&ancestor).into_iter().flatten());
        }
    };
    let others = snapshot.green_threads.iter().map(|thread| thread.id).filter(|id| !index.contains_key(id));
    others.for_each(|id| lend(id, &mut out));
    while let Some(at) = out.pop() {
        if !std::mem::replace(&mut is_in[at], false) {
            continue;
        }
        for &from in &waits_for[at] {
            left[from] -= 1;
            if left[from] == 0 {
                out.push(from);
            }
        }
        out.extend(handles_of.get(&ids[at]).into_iter().flatten());
        lend(ids[at], &mut out);
    }
    is_in
}
