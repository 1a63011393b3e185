//! `Changes`: the changes of directories that are not sure yet. A power cut may lose each.
//!
//! A change happens as a whole or not at all: a rename never loses a file. A change that is lost takes with
//! it the later ones that build on it. A sync of a directory makes sure the changes in it, those by which it
//! is reached, and all on which they build.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use super::super::network::Decisions;
use super::super::schedule::Fault;

/// What is sure of the entries of all directories.
pub(super) type Synced = BTreeMap<u64, BTreeMap<OsString, u64>>;

/// How many changes wait. The system writes them by itself after a while, too.
const MOST: usize = 1000;

/// The probability that a power cut loses a change that is not sure.
const LOST: f64 = 0.5;

/// A change of directories.
#[derive(Debug)]
pub(super) struct Change {
    /// The entries: a directory, a name, and what has that name from now on.
    pub(super) entries: Vec<(u64, OsString, Option<u64>)>,
    /// What gets the name, or loses it.
    pub(super) inode: u64,
}

/// The changes that are not sure yet, in their order.
#[derive(Debug, Default)]
pub(super) struct Changes {
    waiting: Vec<Change>,
}

impl Change {
    /// Returns `true` if this change makes sense only after `earlier`.
    fn builds_on(&self, earlier: &Change) -> bool {
        let same = |dir: u64, name: &OsStr| {
            earlier.entries.iter().any(|(other, other_name, _)| *other == dir && other_name == name)
        };
        self.inode == earlier.inode
            || self.entries.iter().any(|(dir, name, _)| *dir == earlier.inode || same(*dir, name))
    }

    fn concerns(&self, dir: u64) -> bool {
        self.inode == dir || self.entries.iter().any(|(other, ..)| *other == dir)
    }

    fn apply(self, synced: &mut Synced) {
        for (dir, name, inode) in self.entries {
            let entries = synced.entry(dir).or_default();
            match inode {
                Some(inode) => entries.insert(name, inode),
                None => entries.remove(&name),
            };
        }
    }
}

impl Changes {
    pub(super) fn add(&mut self, change: Change, synced: &mut Synced) {
        self.waiting.push(change);
        if self.waiting.len() > MOST {
            self.waiting.drain(..MOST / 2).for_each(|change| change.apply(synced));
        }
    }

    /// Makes sure what a sync of `dir` does.
    pub(super) fn sync(&mut self, dir: u64, synced: &mut Synced) {
        let mut taken = vec![false; self.waiting.len()];
        for at in (0..self.waiting.len()).rev() {
            let builds = |later: usize| taken[later] && self.waiting[later].builds_on(&self.waiting[at]);
            taken[at] = self.waiting[at].concerns(dir) || (at + 1..taken.len()).any(builds);
        }
        let (sure, waiting): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.waiting).into_iter().zip(taken).partition(|(_, taken)| *taken);
        sure.into_iter().for_each(|(change, _)| change.apply(synced));
        self.waiting = waiting.into_iter().map(|(change, _)| change).collect();
    }

    /// Loses some of the changes, and makes sure the others.
    pub(super) fn lose(&mut self, synced: &mut Synced, decisions: &mut Decisions) {
        let mut lost: Vec<Change> = Vec::new();
        for change in std::mem::take(&mut self.waiting) {
            let is_lost = decisions.decide(Fault::Disk, &[LOST]).0 > 0;
            if is_lost || lost.iter().any(|earlier| change.builds_on(earlier)) {
                lost.push(change);
            } else {
                change.apply(synced);
            }
        }
    }

    /// Returns what the waiting changes refer to.
    pub(super) fn inodes(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().flat_map(|change| {
            change
                .entries
                .iter()
                .flat_map(|(dir, _, inode)| [Some(*dir), *inode])
                .flatten()
                .chain([change.inode])
        })
    }
}
