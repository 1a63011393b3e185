//! The log in memory. The first entry has the index 1; index 0 stands for the empty log, with term 0.

use super::message::{ENTRIES, Entry};

#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn last_index(&self) -> u64 {
        self.entries.len() as u64
    }

    pub(crate) fn last_term(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.term)
    }

    pub(crate) fn get(&self, index: u64) -> Option<&Entry> {
        self.entries.get(index.checked_sub(1)? as usize)
    }

    /// Returns the term of an entry, or `None` if there is none at `index`.
    pub(crate) fn term(&self, index: u64) -> Option<u64> {
        if index == 0 { Some(0) } else { self.get(index).map(|entry| entry.term) }
    }

    /// Puts an entry at `index`, which is at most one beyond the last, and removes all that follow.
    pub(crate) fn put(&mut self, index: u64, entry: Entry) {
        assert!((1..=self.last_index() + 1).contains(&index), "the log has no gaps");
        self.entries.truncate(index as usize - 1);
        self.entries.push(entry);
    }

    /// Returns copies of the entries from `index` on, as many as one message may have.
    pub(crate) fn some_from(&self, index: u64) -> Vec<Entry> {
        let mut size = 0;
        let from = self.entries.get(index as usize - 1..).unwrap_or_default();
        let some = from.iter().take_while(|entry| {
            let fits = size < ENTRIES;
            size += entry.size();
            fits
        });
        some.cloned().collect()
    }

    /// Returns the index of the first entry of the term that the entry at `index` has.
    pub(crate) fn first_of_term(&self, index: u64) -> u64 {
        let term = self.term(index);
        let earlier = (1..index).rev().take_while(|&earlier| self.term(earlier) == term);
        earlier.last().unwrap_or(index)
    }
}
