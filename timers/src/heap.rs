//! A 4-ary min-heap of (time, item), laid out so that the four children of an entry are one cache line.
//!
//! The heap is plain data and knows nothing of timers or threads. The parent of entry i is (i - 1) / 4, and
//! its children are 4i + 1 to 4i + 4. A node has four slots and is aligned to a cache line. The first three
//! slots of node 0 stay empty:
//!
//! ```text
//! node 0  [ -  -  -  0 ]     the root alone
//! node 1  [ 1  2  3  4 ]     the children of 0
//! node 2  [ 5  6  7  8 ]     the children of 1: node i + 1 has the children of entry i and nothing else
//! ```
//!
//! So a sift reads one line a level. An empty slot has the time [`NEVER`], which no time exceeds. So the
//! search for the least of four children needs no check of the length. A leaf is an entry whose children's
//! node is empty or does not exist.
//!
//! The nodes lie in chunks of 4 KiB. So the heap grows without copying, and returns its memory chunk by
//! chunk. A single vector of a million entries would be copied in 17 ms when it grows, and unmapped in 4 ms.
//!
//! # Where an entry is
//!
//! Each item keeps a place. The item's entry is at that place, or at an ancestor of it ([`Heap::find`]). A
//! sift writes the place of the entry that it sifts, and of each entry that it moves down. An entry that
//! moves up moves to its parent, so its old place still leads to it. So a removal of the head writes one
//! place, and not one for each level.

use std::mem;

const NEVER: u64 = u64::MAX;
const ARITY: usize = 4;
/// The slot of entry 0: the last slot of node 0.
const SHIFT: usize = ARITY - 1;
/// How many nodes a chunk has: 256 entries, 4 KiB. A chunk is small, because each P with a timer has one, and
/// a process that is short of memory gets small pieces for longer. A model makes many heaps, so its chunks
/// have few nodes.
const CHUNK: usize = if cfg!(loom) { 4 } else { 64 };

/// What the heap sorts. See "Where an entry is" in the head of this file.
pub(crate) trait Item {
    /// Keeps the place of the item's entry, for [`Heap::find`].
    fn keep_place(&self, place: u32);
}

struct Slot<T> {
    when: u64,
    item: Option<T>,
}

impl<T> Slot<T> {
    const EMPTY: Self = Self { when: NEVER, item: None };

    fn take(&mut self) -> Self {
        mem::replace(self, Self::EMPTY)
    }

    fn open(self) -> (u64, T) {
        (self.when, self.item.expect("an entry has an item"))
    }
}

#[repr(align(64))]
struct Node<T>([Slot<T>; ARITY]);

impl<T> Node<T> {
    const EMPTY: Self = Self([const { Slot::EMPTY }; ARITY]);

    /// Returns the slot with the least time in the node, and that time. Compares two pairs and then the
    /// lesser of each: no branch depends on the data.
    #[inline]
    fn least(&self) -> (usize, u64) {
        let [a, b, c, d] = &self.0;
        let low = if b.when < a.when { (1, b.when) } else { (0, a.when) };
        let high = if d.when < c.when { (3, d.when) } else { (2, c.when) };
        if high.1 < low.1 { high } else { low }
    }
}

type Chunk<T> = Box<[Node<T>; CHUNK]>;

/// A 4-ary min-heap: see the head of this file.
pub(crate) struct Heap<T> {
    /// The slots of all entries, and empty slots behind them.
    chunks: Vec<Chunk<T>>,
    len: usize,
}

/// Memory without entries that a heap does not need any more.
pub(crate) struct Spare<T> {
    _chunks: Vec<Chunk<T>>,
}

impl<T: Item> Heap<T> {
    pub(crate) const fn new() -> Self {
        Self { chunks: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the time and item of the head; `None` if the heap is empty.
    pub(crate) fn head(&self) -> Option<(u64, &T)> {
        (self.len > 0).then(|| self.get(0))
    }

    /// Returns the time and item of entry `i`.
    pub(crate) fn get(&self, i: usize) -> (u64, &T) {
        let slot = self.slot(i);
        (slot.when, slot.item.as_ref().expect("an entry has an item"))
    }

    /// Makes room for `more` entries: the next `more` pushes do not allocate.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) {
        let chunks = chunks_for(self.len + more);
        if self.chunks.len() < chunks {
            self.grow(chunks);
        }
    }

    #[cold]
    fn grow(&mut self, chunks: usize) {
        assert!(u32::try_from(chunks * ARITY * CHUNK).is_ok(), "timers: fewer timers than 2^32 in one heap");
        self.chunks.resize_with(chunks, || {
            // Collected on the heap: the stack of a green thread may have no room for an array of this size.
            let nodes: Box<[Node<T>]> = (0..CHUNK).map(|_| Node::EMPTY).collect();
            nodes.try_into().unwrap_or_else(|_| unreachable!("the length is that of a chunk"))
        });
    }

    /// Adds an entry. Allocates unless [`Heap::reserve`] has made room.
    pub(crate) fn push(&mut self, when: u64, item: T) {
        self.reserve(1);
        let last = self.len;
        self.len += 1;
        self.sift_up(last, Slot { when, item: Some(item) });
    }

    /// Removes entry `i`. The entry at place `i` afterwards was behind `i` before, or was an ancestor of `i`.
    /// No other entry moves from a place before `i` to `i` or behind it. So a walk from the last entry to the
    /// first that examines `i` again after a removal examines every entry.
    pub(crate) fn remove(&mut self, i: usize) -> (u64, T) {
        let removed = self.slot_mut(i).take();
        let last = self.take_last();
        if i < self.len {
            self.sift(i, last);
        }
        removed.open()
    }

    /// Gives entry `i` another time. Returns its new place. If entry `i` moves, an entry from the path to the
    /// new place takes place `i`; no other entry passes place `i`.
    pub(crate) fn reschedule(&mut self, i: usize, when: u64) -> usize {
        let mut slot = self.slot_mut(i).take();
        slot.when = when;
        self.sift(i, slot)
    }

    /// Returns the place of an entry, which is `kept` or an ancestor of it; `None` if `is` returns `true` for
    /// none of these entries. Examines one entry for each level of the heap.
    pub(crate) fn find(&self, kept: usize, is: impl Fn(u64, &T) -> bool) -> Option<usize> {
        let mut i = kept;
        loop {
            if i < self.len {
                let (when, item) = self.get(i);
                if is(when, item) {
                    return Some(i);
                }
            }
            i = i.checked_sub(1)? / ARITY;
        }
    }

    /// Returns the nearest ancestor of place `i` that is before `end`; `None` if `i` itself is before `end`.
    pub(crate) fn ancestor_before(&self, mut i: usize, end: usize) -> Option<usize> {
        debug_assert!(end > 0);
        let mut ancestor = None;
        while i >= end {
            i = (i - 1) / ARITY;
            ancestor = Some(i);
        }
        ancestor
    }

    /// Removes all entries, in any order.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(u64, T)) {
        for i in 0..mem::take(&mut self.len) {
            let (when, item) = self.slot_mut(i).take().open();
            each(when, item);
        }
    }

    /// Returns the memory that the heap does not need, for the caller to drop after the unlock. The heap
    /// keeps one empty chunk: so it next grows or shrinks only after some hundred entries.
    #[must_use]
    #[inline]
    pub(crate) fn give_back(&mut self) -> Option<Spare<T>> {
        let keep = chunks_for(self.len) + 1;
        (self.chunks.len() > keep).then(|| Spare { _chunks: self.chunks.split_off(keep) })
    }

    /// Returns all entries, in any order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0..self.len).map(|i| self.get(i))
    }

    /// Returns the first entry that is earlier than its parent; `None` if the heap is in order.
    pub(crate) fn misplaced(&self) -> Option<usize> {
        (1..self.len).find(|&i| self.slot(i).when < self.slot((i - 1) / ARITY).when)
    }

    /// Puts `slot` at `hole`, or above or below the hole where its time belongs. Returns its place.
    #[inline]
    fn sift(&mut self, hole: usize, slot: Slot<T>) -> usize {
        let parent_is_later = hole > 0 && slot.when < self.slot((hole - 1) / ARITY).when;
        if parent_is_later { self.sift_up(hole, slot) } else { self.sift_down(hole, slot) }
    }

    /// Puts `slot` at `hole`, or above the hole where its time belongs: later ancestors move down. Returns
    /// its place.
    #[inline]
    fn sift_up(&mut self, mut hole: usize, slot: Slot<T>) -> usize {
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.slot(parent).when <= slot.when {
                break;
            }
            let later = self.slot_mut(parent).take();
            self.settle(hole, later);
            hole = parent;
        }
        self.settle(hole, slot);
        hole
    }

    /// Puts `slot` at `hole`, or below the hole where its time belongs: earlier children move up. Returns its
    /// place.
    #[inline]
    fn sift_down(&mut self, mut hole: usize, slot: Slot<T>) -> usize {
        while let Some(children) = self.node_mut(hole + 1) {
            let (nth, least) = children.least();
            // An empty slot has the time NEVER, which is not less than any time: no entry sinks into an empty
            // slot.
            if slot.when <= least {
                break;
            }
            let earlier = children.0[nth].take();
            // The place that this entry keeps leads to `hole`, too.
            self.fill(hole, earlier);
            hole = ARITY * hole + 1 + nth;
        }
        self.settle(hole, slot);
        hole
    }

    /// Takes the last slot away. Returns an empty slot if the caller has just taken that entry.
    fn take_last(&mut self) -> Slot<T> {
        self.len -= 1;
        self.slot_mut(self.len).take()
    }

    #[inline]
    fn slot(&self, i: usize) -> &Slot<T> {
        let node = (i + SHIFT) / ARITY;
        &self.chunks[node / CHUNK][node % CHUNK].0[(i + SHIFT) % ARITY]
    }

    #[inline]
    fn slot_mut(&mut self, i: usize) -> &mut Slot<T> {
        let node = (i + SHIFT) / ARITY;
        &mut self.chunks[node / CHUNK][node % CHUNK].0[(i + SHIFT) % ARITY]
    }

    #[inline]
    fn node_mut(&mut self, node: usize) -> Option<&mut Node<T>> {
        Some(&mut self.chunks.get_mut(node / CHUNK)?[node % CHUNK])
    }

    /// Fills the hole at `i`, and lets the item keep that place.
    #[inline(always)]
    fn settle(&mut self, i: usize, slot: Slot<T>) {
        if let Some(item) = &slot.item {
            // `grow` keeps places below 2^32.
            item.keep_place(i as u32);
        }
        self.fill(i, slot);
    }

    /// Fills the hole at `i`.
    #[inline]
    fn fill(&mut self, i: usize, slot: Slot<T>) {
        let hole = mem::replace(self.slot_mut(i), slot);
        debug_assert!(hole.item.is_none());
        // A hole has no item to drop. The `forget` saves a check at each level of a sift.
        mem::forget(hole);
    }
}

/// How many chunks hold the slots of `len` entries.
fn chunks_for(len: usize) -> usize {
    if len == 0 { 0 } else { (len + SHIFT).div_ceil(ARITY * CHUNK) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    /// A number that keeps a place.
    #[derive(Debug)]
    struct Number(u32, Cell<u32>);

    impl Item for Rc<Number> {
        fn keep_place(&self, place: u32) {
            self.1.set(place);
        }
    }

    impl PartialEq for Number {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }

    fn number(number: u32) -> Rc<Number> {
        Rc::new(Number(number, Cell::new(u32::MAX)))
    }

    /// Tests of the order and of the memory need no places.
    impl Item for u64 {
        fn keep_place(&self, _: u32) {}
    }

    #[derive(Clone, Debug)]
    enum Op {
        Push(u64),
        Pop,
        Remove(usize),
        Reschedule(usize, u64),
        /// Removes every `one_in`th entry, from the last entry to the first.
        RemoveBackwards(usize),
        Drain,
    }

    /// Generates few different times, so that many are equal. NEVER is one of these times.
    fn when() -> impl Strategy<Value = u64> {
        prop_oneof![10 => 0..50_u64, 1 => Just(NEVER), 1 => any::<u64>()]
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            20 => when().prop_map(Op::Push),
            8 => Just(Op::Pop),
            4 => any::<usize>().prop_map(Op::Remove),
            6 => (any::<usize>(), when()).prop_map(|(i, when)| Op::Reschedule(i, when)),
            1 => (1..5_usize).prop_map(Op::RemoveBackwards),
            1 => Just(Op::Drain),
        ]
    }

    type Model = BTreeMap<(u64, u32), ()>;

    fn apply(heap: &mut Heap<Rc<Number>>, model: &mut Model, op: Op, id: u32) {
        match op {
            Op::Push(when) => {
                heap.push(when, number(id));
                model.insert((when, id), ());
            }
            Op::Pop if !heap.is_empty() => {
                let (when, id) = heap.remove(0);
                assert_eq!(model.keys().next().unwrap().0, when, "the head has the least time");
                model.remove(&(when, id.0)).unwrap();
            }
            Op::Remove(i) if !heap.is_empty() => {
                let (when, id) = heap.remove(i % heap.len());
                model.remove(&(when, id.0)).unwrap();
            }
            Op::Reschedule(i, when) if !heap.is_empty() => {
                // Chooses the head as often as all other entries together.
                let i = if i % 2 == 0 { 0 } else { i % heap.len() };
                let (before, id) = Some(heap.get(i)).map(|(when, id)| (when, id.0)).unwrap();
                let at = heap.reschedule(i, when);
                assert_eq!(heap.get(at), (when, &number(id)));
                model.remove(&(before, id)).unwrap();
                model.insert((when, id), ());
            }
            Op::RemoveBackwards(one_in) => {
                let mut i = heap.len();
                while i > 0 {
                    i = i.min(heap.len());
                    if i > 0 && (heap.get(i - 1).1.0 as usize).is_multiple_of(one_in) {
                        let (when, id) = heap.remove(i - 1);
                        model.remove(&(when, id.0)).unwrap();
                    } else {
                        i = i.saturating_sub(1);
                    }
                }
                let left = heap.iter().filter(|(_, id)| (id.0 as usize).is_multiple_of(one_in)).count();
                assert_eq!(left, 0, "a walk backwards examines every entry");
            }
            Op::Drain => heap.drain(|when, id| {
                model.remove(&(when, id.0)).unwrap();
            }),
            Op::Pop | Op::Remove(_) | Op::Reschedule(..) => {}
        }
    }

    proptest! {
        #[test]
        fn a_heap_agrees_with_a_sorted_map(ops in vec(op(), 0..400)) {
            let (mut heap, mut model) = (Heap::new(), Model::new());
            for (id, op) in ops.into_iter().enumerate() {
                apply(&mut heap, &mut model, op, id as u32);
                drop(heap.give_back());
                prop_assert_eq!(heap.misplaced(), None);
                let slots = heap.chunks.iter().flat_map(|chunk| chunk.iter()).flat_map(|node| &node.0);
                prop_assert_eq!(slots.filter(|slot| slot.when != NEVER || slot.item.is_some()).count(), heap.len());
                let entries: Model = heap.iter().map(|(when, id)| ((when, id.0), ())).collect();
                prop_assert_eq!(&entries, &model);
                prop_assert_eq!(heap.len(), model.len());
                for (i, (_, id)) in heap.iter().enumerate() {
                    let found = heap.find(id.1.get() as usize, |_, other| other.0 == id.0);
                    prop_assert_eq!(found, Some(i), "the kept place leads to the entry");
                }
            }
        }
    }

    #[test]
    fn a_node_of_one_word_items_is_a_cache_line() {
        assert_eq!(size_of::<Node<Rc<Number>>>(), 64);
        assert_eq!(align_of::<Node<Rc<Number>>>(), 64);
    }

    /// Sweep and adjust rely on this: see `Heap::remove`.
    #[test]
    fn a_walk_backwards_that_removes_examines_every_entry() {
        for seed in 1..50_u64 {
            let mut heap = Heap::new();
            let mut random = fastrand::Rng::with_seed(seed);
            for id in 0..200_u64 {
                heap.push(random.u64(..1 << 24), id);
            }
            let mut seen = std::collections::BTreeSet::new();
            let mut i = heap.len();
            while i > 0 {
                i = i.min(heap.len());
                if i == 0 {
                    break;
                }
                let id = *heap.get(i - 1).1;
                seen.insert(id);
                if id % 3 == seed % 3 {
                    heap.remove(i - 1);
                    assert_eq!(heap.misplaced(), None);
                } else {
                    i -= 1;
                }
            }
            assert_eq!(seen.len(), 200, "seed {seed}");
            assert!(heap.iter().all(|(_, id)| id % 3 != seed % 3));
        }
    }

    /// Growing moves no entry, and `give_back` returns memory in small portions.
    #[test]
    fn a_heap_grows_and_shrinks_by_chunks() {
        const ENTRIES: u64 = 100_000;
        let places = |heap: &Heap<u64>| heap.chunks.iter().map(|chunk| chunk.as_ptr()).collect::<Vec<_>>();
        let (mut heap, mut before) = (Heap::new(), Vec::new());
        for id in 0..ENTRIES {
            heap.push(id, id);
            if heap.chunks.len() > before.len() {
                let now = places(&heap);
                assert!(now.starts_with(&before), "a chunk has moved");
                before = now;
            }
        }
        assert_eq!(heap.chunks.len(), chunks_for(heap.len()));
        let mut given_back = 0;
        while !heap.is_empty() {
            (0..heap.len().min(ARITY * CHUNK)).for_each(|_| _ = heap.remove(0));
            if let Some(spare) = heap.give_back() {
                assert_eq!(spare._chunks.len(), 1);
                given_back += 1;
            }
            assert!(heap.chunks.len() <= chunks_for(heap.len()) + 1);
        }
        assert_eq!(given_back, before.len() - 1);
    }

    #[test]
    fn a_heap_that_gave_memory_back_does_not_grow_at_once() {
        let mut heap = Heap::new();
        (0..10_000).for_each(|id| heap.push(id, id));
        (0..3_000).for_each(|_| _ = heap.remove(0));
        drop(heap.give_back());
        let chunks = heap.chunks.len();
        for id in 0..(ARITY * CHUNK) as u64 {
            heap.push(id, id);
            assert_eq!(heap.chunks.len(), chunks, "after {id} more");
        }
    }

    #[test]
    fn a_push_into_reserved_room_does_not_allocate() {
        for more in [1, 3, 5_000, 20_000] {
            let mut heap = Heap::new();
            for id in 0..30_000_u64 {
                if id % more == 0 {
                    heap.reserve(more as usize);
                }
                let before = (heap.chunks.len(), heap.chunks.as_ptr());
                heap.push(id, id);
                assert_eq!(before, (heap.chunks.len(), heap.chunks.as_ptr()));
            }
        }
    }
}
