//! Which green threads have the handles of a channel, and a search of the memory for further handles.
//!
//! A handle is one word that no other pointer has (`channel/shared.rs`). The search tells where it lies. If it lies only on stacks of
//! parked green threads, and in what they captured, then these alone may have handles. If it lies nowhere, the handles were forgotten.
//!
//! A word that was left behind looks like a handle. One case of this is common, and is known from counts: a closure has the handles that
//! it captured in the payload of its green thread. If these are as many as the channel counts, no other thread has one, unless a
//! green thread has given its own away since. Then the word lies elsewhere too. So the search confirms such a channel if it finds the
//! word in these places only:
//!
//! - where a closure that has begun was: it has moved away from there, and the words were left behind;
//! - on the used part of the stack of a green thread that captured it, where each such green thread must have it;
//! - on the unused part of a parked green thread's stack;
//! - on the stack of a green thread that spawned one of these: it made the channel, and its words were left behind.
//!
//! Words are kept inverted here, so that the search does not find its own.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use sched::StackCopy;

use super::Snapshot;
use crate::channel::{RECEIVER, SENDER};

/// The most memory that is searched, which takes about a second. In a larger process no channel is told.
const MOST_BYTES: usize = 2 << 30;
/// The most places of words that a search may find, and the most sides that it looks for.
const MOST_PLACES: usize = 100_000;
const MOST_SIDES: usize = 10_000;

/// Where the stack of a green thread lies, and what its closure captured.
#[derive(Clone, Debug)]
pub(super) struct At {
    stack: Range<usize>,
    /// The used part of the stack.
    used: Range<usize>,
    captured_at: Range<usize>,
    /// The captured words that may be handles, inverted.
    captured: Vec<usize>,
}

impl At {
    pub(super) fn of(copy: &StackCopy) -> At {
        let may_be_handle = |word: &&usize| matches!(!**word % align_of::<usize>(), SENDER | RECEIVER);
        At {
            stack: copy.stack.clone(),
            used: copy.sp..copy.stack.end,
            captured_at: copy.captured_at.clone(),
            captured: copy.captured.iter().filter(may_be_handle).copied().collect(),
        }
    }

    /// Returns the place of a green thread of which the stack alone is known.
    pub(super) fn of_stack(stack: Range<usize>) -> At {
        At { used: stack.clone(), stack, captured_at: 0..0, captured: Vec::new() }
    }
}

/// A side of a channel for which a green thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Side {
    /// The word of a handle, inverted.
    word: usize,
    /// How many handles there are.
    handles: usize,
}

impl Side {
    pub(super) fn senders(address: usize, handles: usize) -> Side {
        Side { word: !(address + SENDER), handles }
    }

    pub(super) fn receivers(address: usize, handles: usize) -> Side {
        Side { word: !(address + RECEIVER), handles }
    }
}

/// The handles that closures have captured.
#[derive(Debug)]
pub(super) struct Handles {
    /// The ids of the green threads that captured the word, once for each handle.
    captured: HashMap<usize, Vec<u64>>,
    refused: HashSet<usize>,
    /// The ids of the green threads with which the search has found the word, if it lies nowhere else. There may be none.
    found: HashMap<usize, Vec<u64>>,
}

impl Handles {
    pub(super) fn of(snapshot: &Snapshot) -> Handles {
        let mut captured: HashMap<usize, Vec<u64>> = HashMap::new();
        for thread in &snapshot.green_threads {
            for &word in thread.at.iter().flat_map(|at| &at.captured) {
                captured.entry(word).or_default().push(thread.id);
            }
        }
        Handles { captured, refused: HashSet::new(), found: HashMap::new() }
    }

    /// Returns the green threads that have the handles of `side`; `None` if others may have some.
    pub(super) fn holders(&self, side: Side) -> Option<&[u64]> {
        let captured = self.captured.get(&side.word).filter(|holders| holders.len() == side.handles);
        let captured = captured.filter(|_| !self.refused.contains(&side.word));
        captured.or_else(|| self.found.get(&side.word)).map(Vec::as_slice)
    }

    /// Learns who may have handles of the sides `awaited`. `places` is what [`search`] has found between the two looks; without it each
    /// side is refused.
    pub(super) fn judge(
        &mut self,
        awaited: &[Side],
        places: Option<Vec<(usize, usize)>>,
        [earlier, before, after]: [&Snapshot; 3],
    ) {
        let known = Known::of(earlier, before, after);
        let mut of_sides: Vec<Vec<usize>> = vec![Vec::new(); awaited.len()];
        places.iter().flatten().for_each(|&(address, side)| of_sides[side].push(address));
        for (side, addresses) in awaited.iter().zip(of_sides) {
            self.found.remove(&side.word);
            let owners: Option<Vec<Place>> = places
                .is_some()
                .then(|| addresses.into_iter().map(|address| known.what_lies_at(address)).collect())
                .flatten();
            let Some(owners) = owners else {
                self.refused.insert(side.word);
                continue;
            };
            if !self.confirms(*side, &owners, before) {
                self.refused.insert(side.word);
                self.found.extend(holders_of(&owners).map(|holders| (side.word, holders)));
            }
        }
    }

    /// Returns `true` if the green threads that captured handles of `side` have them still, and no other thread has one.
    fn confirms(&self, side: Side, places: &[Place], before: &Snapshot) -> bool {
        let holders = self.captured.get(&side.word).map_or(&[][..], Vec::as_slice);
        let mut without: HashSet<u64> = holders.iter().copied().collect();
        let spawners: HashSet<u64> = holders.iter().flat_map(|&holder| before.ancestors_of(holder)).collect();
        let mut is_stale = |place: &Place| match *place {
            Place::Captured(_) | Place::Unused => true,
            Place::Used(id) => without.remove(&id) || holders.contains(&id) || spawners.contains(&id),
            Place::Running(id) => spawners.contains(&id),
        };
        holders.len() == side.handles && places.iter().all(&mut is_stale) && without.is_empty()
    }
}

/// Returns the green threads that may have a handle, if its word lies at `places`; `None` if one of them goes on.
fn holders_of(places: &[Place]) -> Option<Vec<u64>> {
    let mut holders = Vec::new();
    for place in places {
        match *place {
            Place::Unused => {}
            // A closure that has begun has moved what it captured to its stack, and may have dropped it since.
            Place::Captured(id) | Place::Used(id) => holders.push(id),
            Place::Running(_) => return None,
        }
    }
    holders.sort_unstable();
    holders.dedup();
    Some(holders)
}

/// Searches the memory for the words of `awaited`, which is sorted. Returns each address with an index; `None` if the memory cannot be
/// searched.
pub(super) fn search(awaited: &[Side]) -> Option<Vec<(usize, usize)>> {
    if awaited.len() > MOST_SIDES {
        return None;
    }
    let words: Vec<usize> = awaited.iter().map(|side| side.word).collect();
    let mut places = Vec::new();
    let found = sched::memory::find(&words, MOST_BYTES, |address, index| {
        if places.len() < MOST_PLACES {
            places.push((address, index));
        }
    });
    (found && places.len() < MOST_PLACES).then_some(places)
}

/// What lies at an address.
#[derive(Clone, Copy)]
enum Place {
    /// The closure of this green thread was there, which has begun.
    Captured(u64),
    /// The unused part of the stack of a parked green thread.
    Unused,
    /// The used part of the stack of a parked green thread.
    Used(u64),
    /// The stack of a green thread that has run in between.
    Running(u64),
}

/// The known places, by their addresses.
struct Known(Vec<(Range<usize>, Place)>);

impl Known {
    fn of(earlier: &Snapshot, before: &Snapshot, after: &Snapshot) -> Known {
        let mut known = Vec::new();
        for thread in &before.green_threads {
            let Some(later) = after.get(thread.id) else { continue };
            let Some(at) = &thread.at else {
                // It runs or is ready. Its stack has been where it was.
                let at = earlier.get(thread.id).and_then(|thread| thread.at.as_ref()).or(later.at.as_ref());
                known.extend(at.map(|at| (at.stack.clone(), Place::Running(thread.id))));
                continue;
            };
            if later.at.as_ref().is_some_and(|later| later.captured_at == at.captured_at) {
                known.push((at.captured_at.clone(), Place::Captured(thread.id)));
            }
            let number = |thread: &super::GreenThread| thread.wait.as_ref().and_then(|wait| wait.number);
            if number(thread).is_some() && number(thread) == number(later) {
                known.push((at.stack.start..at.used.start, Place::Unused));
                known.push((at.used.clone(), Place::Used(thread.id)));
            } else {
                known.push((at.stack.clone(), Place::Running(thread.id)));
            }
        }
        known.retain(|(range, _)| !range.is_empty());
        known.sort_unstable_by_key(|(range, _)| range.start);
        Known(known)
    }

    fn what_lies_at(&self, address: usize) -> Option<Place> {
        let next = self.0.partition_point(|(range, _)| range.start <= address);
        let (range, place) = self.0.get(next.checked_sub(1)?)?;
        range.contains(&address).then_some(*place)
    }
}
