//! The arena of descriptors: slots that never move, found by the token that the system returns with an event.
//!
//! A token is a slot's index and its generation. The generation is odd while the slot is free, and changes
//! when the slot is given back. So the token of a late event matches no slot. An event that has matched
//! just *before* is still being delivered, and meanwhile the slot must get no new owner. So deliveries
//! happen in rounds, with an odd number while a round runs. A slot given back during a round stays out of
//! use until that round is over. (Protocol 3 in `lib.rs`.) Each poller has its own rounds: a slot waits
//! for those of all pollers that its source was registered with, one after the other.

#[cfg_attr(any(not(target_os = "linux"), portable), allow(dead_code, reason = "sources move on Linux alone"))]
mod at;

pub(crate) use at::{At, SHARED};

use std::collections::VecDeque;
use std::sync::OnceLock;

use crate::semaphore::Semaphore;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, CacheLine, Mutex, Ordering, broken, fence};
use crate::waiter::{Direction, Waiter};

/// 64-bit systems have 2^32 indices and 2^32 generations; 32-bit systems have a million indices and 4096
/// generations.
const INDEX_BITS: u32 = if usize::BITS == 64 { 32 } else { 20 };
const INDEX_MASK: usize = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = (usize::MAX >> INDEX_BITS) as u32;

/// Chunk k holds `FIRST << k` slots. loom gets few slots, because it tracks each atomic.
const FIRST: usize = if cfg!(loom) { 1 } else { 64 };
const CHUNKS: usize = (INDEX_BITS - FIRST.ilog2()) as usize;

/// How many near pollers there can be: with the shared one as many as a word has bits.
pub(crate) const MOST_NEAR: usize = 63;

/// The highest tokens belong to the netpoller's own sources: the waker, the alarm, the station, and the near
/// pollers.
pub(crate) const OWN: usize = 3;
const RESERVED: usize = OWN + MOST_NEAR;
/// How many slots there can be. All chunks together hold `FIRST` slots less than an index can number.
const CAPACITY: usize = INDEX_MASK + 1 - if FIRST > RESERVED { FIRST } else { RESERVED };

/// The place of a descriptor, on cache lines of its own.
#[repr(align(64))]
pub(crate) struct Slot {
    /// Even: has an owner. Odd: free.
    generation: AtomicU32,
    /// With which pollers the source was registered since the slot was taken: a bit for each.
    pollers: AtomicU64,
    pub(crate) at: At,
    read: Semaphore,
    write: Semaphore,
}

impl Slot {
    fn new() -> Slot {
        Slot {
            generation: AtomicU32::new(1),
            pollers: AtomicU64::new(0),
            at: At::new(),
            read: Semaphore::new(),
            write: Semaphore::new(),
        }
    }

    pub(crate) fn side(&self, direction: Direction) -> &Semaphore {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    pub(crate) fn close(&self, woken: &mut Vec<Waiter>) {
        self.read.close(woken);
        self.write.close(woken);
    }

    /// Gives the slot its next owner.
    fn begin(&self) -> u32 {
        self.read.reset();
        self.write.reset();
        self.pollers.store(1 << SHARED, Ordering::Relaxed);
        self.at.reset();
        let generation = self.generation.load(Ordering::Relaxed).wrapping_add(1);
        // Release: a delivery that matches this generation (`Slot::is`) finds the semaphores reset.
        self.generation.store(generation, Ordering::Release);
        generation
    }

    fn end(&self) {
        let generation = self.generation.load(Ordering::Relaxed);
        debug_assert!(generation.is_multiple_of(2), "a free slot was given back");
        // Relaxed: `Arena::give_back` fences.
        self.generation.store(generation.wrapping_add(1), Ordering::Relaxed);
    }

    /// Notes that the source is about to be registered with that poller, too. *Runs on: any thread that keeps
    /// the owner.*
    pub(crate) fn join(&self, poller: usize) {
        // Relaxed: the owner gives the slot back after this.
        self.pollers.fetch_or(1 << poller, Ordering::Relaxed);
    }

    fn is(&self, generation: u32) -> bool {
        // Acquire: the partner is the store in `begin`.
        self.generation.load(Ordering::Acquire) & GENERATION_MASK == generation
    }
}

/// The number that the system returns with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotToken(pub(crate) usize);

impl SlotToken {
    fn new(index: usize, generation: u32) -> SlotToken {
        SlotToken(((generation & GENERATION_MASK) as usize) << INDEX_BITS | index)
    }

    /// A token of the netpoller itself, which no slot has.
    pub(crate) const fn reserved(which: usize) -> SlotToken {
        assert!(which < OWN);
        SlotToken(usize::MAX - which)
    }

    pub(crate) fn index(self) -> usize {
        self.0 & INDEX_MASK
    }

    fn generation(self) -> u32 {
        (self.0 >> INDEX_BITS) as u32
    }
}

pub(crate) struct Arena {
    chunks: [OnceLock<Box<[Slot]>>; CHUNKS],
    free: Mutex<Free>,
    /// On a cache line of its own, because each M that looks for work reads it.
    in_use: CacheLine<AtomicUsize>,
    /// Odd while the shared poller has a round of deliveries under way.
    round: AtomicU32,
    /// The same of each near poller.
    near_rounds: [OnceLock<Box<CacheLine<AtomicU32>>>; MOST_NEAR],
}

struct Free {
    /// Slots given back, oldest first.
    given_back: VecDeque<GivenBack>,
    /// Indices from here on were never used.
    fresh: usize,
}

struct GivenBack {
    index: usize,
    /// The pollers with rounds that may still be under way: a bit for each.
    pollers: u64,
    /// The number of the round of the first of these pollers, after the slot was given back.
    round: u32,
}

impl Arena {
    /// For the test of the layout.
    #[cfg(all(test, not(loom)))]
    pub(crate) const OFFSET_OF_IN_USE: usize = std::mem::offset_of!(Arena, in_use);

    pub(crate) fn new() -> Arena {
        Arena {
            chunks: [const { OnceLock::new() }; CHUNKS],
            free: Mutex::new(Free { given_back: VecDeque::new(), fresh: 0 }),
            in_use: CacheLine(AtomicUsize::new(0)),
            round: AtomicU32::new(0),
            near_rounds: [const { OnceLock::new() }; MOST_NEAR],
        }
    }

    /// Returns the number of the rounds of a poller.
    fn round(&self, poller: usize) -> &AtomicU32 {
        match poller {
            SHARED => &self.round,
            near => &self.near_rounds[near - 1].get_or_init(|| Box::new(CacheLine(AtomicU32::new(0)))).0,
        }
    }

    /// Takes a slot for a new owner. Returns `None` if all indices are in use. *Runs on: any thread.*
    pub(crate) fn take(&self) -> Option<SlotToken> {
        let index = self.free_index()?;
        let (chunk, offset) = place(index);
        let slots = self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| Slot::new()).collect());
        self.in_use.0.fetch_add(1, Ordering::Relaxed);
        Some(SlotToken::new(index, slots[offset].begin()))
    }

    fn free_index(&self) -> Option<usize> {
        let mut free = self.free.lock();
        if let Some(oldest) = free.given_back.front_mut()
            && self.are_over(oldest)
        {
            return free.given_back.pop_front().map(|oldest| oldest.index);
        }
        // The oldest slot must wait for its round, so this takes a fresh slot. A round is short, so this
        // happens to few slots.
        if free.fresh < CAPACITY {
            free.fresh += 1;
            return Some(free.fresh - 1);
        }
        None
    }

    /// Returns `true` if no round of any of its pollers can still deliver to the former owner of the slot.
    fn are_over(&self, slot: &mut GivenBack) -> bool {
        // Acquire, here and below: the partner is `Round::drop`. All that the round did to the slot comes
        // before its next owner.
        let is_over = |round: u32, poller| {
            round.is_multiple_of(2)
                || self.round(poller).load(Ordering::Acquire) != round
                || broken!("netpoll_reuse_in_round")
        };
        while is_over(slot.round, first(slot.pollers)) {
            slot.pollers &= slot.pollers - 1;
            if slot.pollers == 0 || broken!("netpoll_reuse_in_near_round") {
                return true;
            }
            // The rounds that matter began before the fence in `give_back`, which comes before this load.
            slot.round = self.round(first(slot.pollers)).load(Ordering::Acquire);
        }
        false
    }

    /// The slot of an index that `take` has returned.
    pub(crate) fn slot(&self, index: usize) -> &Slot {
        let (chunk, offset) = place(index);
        &self.chunks[chunk].get().expect("the chunk of a slot in use exists")[offset]
    }

    /// The token of a slot that has an owner. *Runs on: the owner of the descriptor.*
    pub(crate) fn token(&self, index: usize) -> SlotToken {
        // Relaxed: only the owner ends the generation, so it does not change during this call.
        SlotToken::new(index, self.slot(index).generation.load(Ordering::Relaxed))
    }

    /// All slots that were ever taken, including free ones.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        let fresh = self.free.lock().fresh;
        (0..fresh).filter_map(|index| {
            let (chunk, offset) = place(index);
            // A slot that is just being taken may not have its chunk yet.
            self.chunks[chunk].get().map(|slots| &slots[offset])
        })
    }

    /// Gives a slot back. *Runs on: the owner of the descriptor.*
    pub(crate) fn give_back(&self, index: usize) {
        self.slot(index).end();
        // The partner is the fence in `begin_round`: either that round's deliveries find the new generation,
        // or this load finds that round's number.
        fence(Ordering::SeqCst);
        // Acquire: pairs with `Round::drop`. If the number is even, all that the last round did comes before
        // the next owner.
        let pollers = self.slot(index).pollers.load(Ordering::Relaxed);
        let round = self.round(first(pollers)).load(Ordering::Acquire);
        self.in_use.0.fetch_sub(1, Ordering::Relaxed);
        self.free.lock().given_back.push_back(GivenBack { index, pollers, round });
    }

    /// How many slots have an owner.
    pub(crate) fn in_use(&self) -> usize {
        self.in_use.0.load(Ordering::Relaxed)
    }

    /// Delivers an event to the owner of `token`. Does nothing if the slot has been given back. *Runs on: the
    /// holder of a round, or a caller that knows that no owner gives its slot back meanwhile.*
    pub(crate) fn deliver(&self, token: SlotToken, what: What, woken: &mut Vec<Waiter>) {
        let slot = self.slot(token.index());
        if !slot.is(token.generation()) {
            return;
        }
        if what.read {
            slot.read.event(what.unreported, woken);
        }
        if what.write {
            slot.write.event(what.unreported, woken);
        }
    }

    /// Begins a round of deliveries. *Runs on: the thread that has the lock of that poller.*
    pub(crate) fn begin_round(&self, poller: usize) -> Round<'_> {
        let number = self.round(poller);
        number.fetch_add(1, Ordering::Relaxed);
        // The partner is the fence in `give_back`.
        fence(Ordering::SeqCst);
        Round { arena: self, number }
    }
}

/// What an event reports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct What {
    /// Readers must try again.
    pub(crate) read: bool,
    /// Writers must try again.
    pub(crate) write: bool,
    /// Attempts may find what no event reports: see `Semaphore::event`.
    pub(crate) unreported: bool,
}

/// A round of deliveries. While it lives, a slot that is given back gets no new owner.
pub(crate) struct Round<'a> {
    arena: &'a Arena,
    /// That of its poller.
    number: &'a AtomicU32,
}

impl Round<'_> {
    /// Delivers an event to the owner of `token`. Does nothing if the slot has been given back since.
    pub(crate) fn deliver(&self, token: SlotToken, what: What, woken: &mut Vec<Waiter>) {
        self.arena.deliver(token, what, woken);
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        // Release: the partners are the loads in `are_over` and `give_back`.
        self.number.fetch_add(1, Ordering::Release);
    }
}

/// The first of these pollers: a bit for each.
fn first(pollers: u64) -> usize {
    pollers.trailing_zeros() as usize
}

/// The chunk of an index, and the place in that chunk.
fn place(index: usize) -> (usize, usize) {
    let shifted = index + FIRST;
    let chunk = shifted.ilog2() - FIRST.ilog2();
    (chunk as usize, shifted - (FIRST << chunk))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_one_place() {
        let mut expected = (0, 0);
        for index in 0..if cfg!(miri) { 5_000 } else { 100_000 } {
            assert_eq!(place(index), expected, "index {index}");
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn the_last_index_has_a_place_and_no_reserved_token() {
        let last = CAPACITY - 1;
        let (chunk, offset) = place(last);
        assert!(chunk < CHUNKS && offset < FIRST << chunk);
        let token = SlotToken::new(last, u32::MAX);
        assert!(token.0 <= usize::MAX - RESERVED && SlotToken::reserved(0).0 == usize::MAX);
        assert_eq!((token.index(), token.generation()), (last, GENERATION_MASK));
    }

    #[test]
    fn a_slot_given_back_is_used_again_under_another_generation() {
        let arena = Arena::new();
        let first = arena.take().unwrap();
        arena.give_back(first.index());
        let second = arena.take().unwrap();
        assert_eq!(first.index(), second.index());
        assert_ne!(first, second);
        assert_eq!(arena.in_use(), 1);
    }

    #[test]
    fn a_slot_given_back_during_a_round_is_used_again_after_it() {
        let arena = Arena::new();
        let first = arena.take().unwrap();
        let round = arena.begin_round(SHARED);
        arena.give_back(first.index());
        let second = arena.take().unwrap();
        assert_ne!(first.index(), second.index());
        drop(round);
        assert_eq!(arena.take().unwrap().index(), first.index());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::*;
    use crate::semaphore::Wait;
    use loom::sync::Arc;
    use loom::thread;

    /// Makes the numbers of the near pollers' rounds: loom does not see that `OnceLock` orders their making.
    fn with_near_rounds() -> Arc<Arena> {
        let arena = Arena::new();
        [1, 2].map(|poller| arena.round(poller));
        Arc::new(arena)
    }

    /// A poller delivers an event of a former owner while the slot gets its next one. `joins` are the pollers
    /// that the source has moved to.
    fn a_late_event(poller: usize, joins: &'static [usize]) {
        loom::model(move || {
            let arena = with_near_rounds();
            let old = arena.take().unwrap();
            joins.iter().for_each(|poller| arena.slot(old.index()).join(*poller));
            let poller = thread::spawn({
                let arena = Arc::clone(&arena);
                move || {
                    let mut woken = Vec::new();
                    let what = What { read: true, ..What::default() };
                    arena.begin_round(poller).deliver(old, what, &mut woken);
                    woken
                }
            });
            arena.give_back(old.index());
            let new = arena.take().unwrap();
            let side = arena.slot(new.index()).side(Direction::Read);
            let next_owner = Waiter::new(2);
            assert_eq!(side.wait(side.seen(), next_owner), Ok(Wait::Park));
            assert_eq!(poller.join().unwrap(), [], "the event of a former owner woke the next owner");
            assert!(side.withdraw(next_owner));
        });
    }

    #[test]
    fn a_late_event_does_not_reach_the_next_owner() {
        a_late_event(SHARED, &[]);
    }

    #[test]
    fn nor_does_one_of_a_poller_that_the_source_has_left_or_moved_to() {
        a_late_event(SHARED, &[1]);
        a_late_event(1, &[1, 2]);
        a_late_event(2, &[1, 2]);
    }

    /// The slot is given back by one thread and taken by another, which then looks at the second poller.
    #[test]
    fn nor_does_one_that_another_thread_waits_for() {
        loom::model(|| {
            let arena = with_near_rounds();
            let old = arena.take().unwrap();
            arena.slot(old.index()).join(1);
            let (giver, poller) = (Arc::clone(&arena), Arc::clone(&arena));
            let giver = thread::spawn(move || giver.give_back(old.index()));
            let poller = thread::spawn(move || {
                let mut woken = Vec::new();
                poller.begin_round(1).deliver(old, What { read: true, ..What::default() }, &mut woken);
                woken
            });
            let new = arena.take().unwrap();
            let side = arena.slot(new.index()).side(Direction::Read);
            assert_eq!(side.wait(side.seen(), Waiter::new(2)), Ok(Wait::Park));
            giver.join().unwrap();
            assert_eq!(poller.join().unwrap(), [], "the event of a former owner woke the next owner");
        });
    }

    #[test]
    fn an_event_reaches_the_owner_after_any_reuse() {
        loom::model(|| {
            let arena = Arc::new(Arena::new());
            let old = arena.take().unwrap();
            let earlier = thread::spawn({
                let arena = Arc::clone(&arena);
                move || drop(arena.begin_round(SHARED))
            });
            arena.give_back(old.index());
            let new = arena.take().unwrap();
            let owner = Waiter::new(2);
            let side = arena.slot(new.index()).side(Direction::Write);
            assert_eq!(side.wait(side.seen(), owner), Ok(Wait::Park));
            earlier.join().unwrap();
            let mut woken = Vec::new();
            arena.begin_round(SHARED).deliver(new, What { write: true, ..What::default() }, &mut woken);
            assert_eq!(woken, [owner]);
        });
    }
}
