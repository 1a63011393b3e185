//! A 4-ary min-heap of (time, item), laid out so that the four children of an entry are one cache line.
//!
//! Pure data: it knows nothing of timers or threads. The parent of entry i is (i - 1) / 4, and its children are
//! 4i + 1 to 4i + 4. Nodes of four slots, aligned to a cache line, hold them three slots late:
//!
//! ```text
//! node 0  [ -  -  -  0 ]     the root alone
//! node 1  [ 1  2  3  4 ]     the children of 0
//! node 2  [ 5  6  7  8 ]     the children of 1: those of entry i are node i + 1, and nothing else is in it
//! ```
//!
//! So a sift reads one line a level, and a leaf is an entry whose children's node does not exist. An empty slot says
//! [`NEVER`] and loses to every real time, so that the least of four children needs no bound.

use std::mem;

const NEVER: u64 = u64::MAX;
const ARITY: usize = 4;
/// Where entry 0 stands among the slots: last in node 0.
const SHIFT: usize = ARITY - 1;
/// Below this many nodes (1,024 entries, 16 KiB) memory is not given back.
const KEEP_NODES: usize = 256;

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

    /// The least time in the node and its slot. Two pairs, then their winners: no branch depends on the data.
    #[inline]
    fn least(&self) -> (usize, u64) {
        let [a, b, c, d] = &self.0;
        let low = if b.when < a.when { (1, b.when) } else { (0, a.when) };
        let high = if d.when < c.when { (3, d.when) } else { (2, c.when) };
        if high.1 < low.1 { high } else { low }
    }
}

/// The heap. Its nodes are exactly those that hold an entry.
pub(crate) struct Heap<T> {
    nodes: Vec<Node<T>>,
    len: usize,
}

/// Memory that a heap has given up, without entries.
pub(crate) struct Spare<T> {
    _nodes: Vec<Node<T>>,
}

impl<T> Heap<T> {
    pub(crate) const fn new() -> Self {
        Self { nodes: Vec::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The time and item of the head.
    pub(crate) fn head(&self) -> Option<(u64, &T)> {
        (self.len > 0).then(|| self.get(0))
    }

    /// The time and item of entry `i`.
    pub(crate) fn get(&self, i: usize) -> (u64, &T) {
        let slot = self.slot(i);
        (slot.when, slot.item.as_ref().expect("an entry has an item"))
    }

    /// Makes room, so that the next `more` pushes do not allocate.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.nodes.reserve(nodes_for(self.len + more) - self.nodes.len());
    }

    pub(crate) fn push(&mut self, when: u64, item: T) {
        if self.last_node_is_full() {
            self.nodes.push(Node::EMPTY);
        }
        let last = self.len;
        self.len += 1;
        self.sift_up(last, Slot { when, item: Some(item) });
    }

    /// Takes entry `i` out. What comes to stand at `i`, if anything, was either behind `i` before or on the way from
    /// the root to it, and nothing else comes to a place at or behind `i` from before it: a walk from the last entry
    /// to the first that looks at `i` once more after a removal sees every entry.
    pub(crate) fn remove(&mut self, i: usize) -> (u64, T) {
        let removed = self.slot_mut(i).take();
        let last = self.take_last();
        if i < self.len {
            let parent_is_later = i > 0 && last.when < self.slot((i - 1) / ARITY).when;
            if parent_is_later {
                self.sift_up(i, last);
            } else {
                self.sift_down(i, last);
            }
        }
        removed.open()
    }

    /// Gives the head another time; returns where it stands now.
    pub(crate) fn reschedule_head(&mut self, when: u64) -> usize {
        let mut head = self.slot_mut(0).take();
        head.when = when;
        self.sift_down(0, head)
    }

    /// Takes everything out, in no order.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(u64, T)) {
        for i in 0..mem::take(&mut self.len) {
            let (when, item) = self.slot_mut(i).take().open();
            each(when, item);
        }
        self.nodes.clear();
    }

    /// Gives up its memory once the heap fills less than an eighth of it, and keeps twice what is needed: the next
    /// growth and the next shrinking are both far away. The caller drops what this returns when the lock is free, because
    /// unmapping takes milliseconds for a million entries.
    #[must_use]
    pub(crate) fn give_back(&mut self) -> Option<Spare<T>> {
        let (used, capacity) = (self.nodes.len(), self.nodes.capacity());
        if capacity <= KEEP_NODES || used >= capacity / 8 {
            return None;
        }
        let mut fewer = Vec::with_capacity((used * 2).max(KEEP_NODES));
        fewer.append(&mut self.nodes);
        Some(Spare { _nodes: mem::replace(&mut self.nodes, fewer) })
    }

    /// All entries, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        (0..self.len).map(|i| self.get(i))
    }

    /// The first entry that is earlier than its parent, if the heap is broken.
    pub(crate) fn misplaced(&self) -> Option<usize> {
        (1..self.len).find(|&i| self.slot(i).when < self.slot((i - 1) / ARITY).when)
    }

    /// Puts `slot` at `hole` or as far above it as it belongs; what is later moves down into the hole.
    #[inline]
    fn sift_up(&mut self, mut hole: usize, slot: Slot<T>) {
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if self.slot(parent).when <= slot.when {
                break;
            }
            let later = self.slot_mut(parent).take();
            self.fill(hole, later);
            hole = parent;
        }
        self.fill(hole, slot);
    }

    /// Puts `slot` at `hole` or as far below it as it belongs; what is earlier moves up into the hole.
    #[inline]
    fn sift_down(&mut self, mut hole: usize, slot: Slot<T>) -> usize {
        while let Some(children) = self.nodes.get_mut(hole + 1) {
            let (nth, least) = children.least();
            // An empty slot says NEVER, which is not less than anything: no entry sinks into one.
            if slot.when <= least {
                break;
            }
            let earlier = children.0[nth].take();
            self.fill(hole, earlier);
            hole = ARITY * hole + 1 + nth;
        }
        self.fill(hole, slot);
        hole
    }

    /// Takes the last entry's slot away; empty if that entry is the one just removed.
    fn take_last(&mut self) -> Slot<T> {
        self.len -= 1;
        let last = self.slot_mut(self.len).take();
        self.nodes.truncate(nodes_for(self.len));
        last
    }

    fn last_node_is_full(&self) -> bool {
        nodes_for(self.len) < nodes_for(self.len + 1)
    }

    #[inline]
    fn slot(&self, i: usize) -> &Slot<T> {
        &self.nodes[(i + SHIFT) / ARITY].0[(i + SHIFT) % ARITY]
    }

    #[inline]
    fn slot_mut(&mut self, i: usize) -> &mut Slot<T> {
        &mut self.nodes[(i + SHIFT) / ARITY].0[(i + SHIFT) % ARITY]
    }

    /// Fills the hole at `i`.
    #[inline]
    fn fill(&mut self, i: usize, slot: Slot<T>) {
        let hole = mem::replace(self.slot_mut(i), slot);
        debug_assert!(hole.item.is_none());
        // A hole has nothing to drop; saying so spares each level of a sift the question.
        mem::forget(hole);
    }
}

/// How many nodes `len` entries fill.
fn nodes_for(len: usize) -> usize {
    if len == 0 { 0 } else { (len + SHIFT).div_ceil(ARITY) }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::rc::Rc;

    #[derive(Clone, Debug)]
    enum Op {
        Push(u64),
        Pop,
        Remove(usize),
        RescheduleHead(u64),
        /// From the last entry to the first, every `one_in`th goes.
        RemoveBackwards(usize),
        Drain,
    }

    /// Few times, so that many are equal, and NEVER among them.
    fn when() -> impl Strategy<Value = u64> {
        prop_oneof![10 => 0..50_u64, 1 => Just(NEVER), 1 => any::<u64>()]
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            20 => when().prop_map(Op::Push),
            8 => Just(Op::Pop),
            4 => any::<usize>().prop_map(Op::Remove),
            4 => when().prop_map(Op::RescheduleHead),
            1 => (1..5_usize).prop_map(Op::RemoveBackwards),
            1 => Just(Op::Drain),
        ]
    }

    type Model = BTreeMap<(u64, u32), ()>;

    fn apply(heap: &mut Heap<Rc<u32>>, model: &mut Model, op: Op, id: u32) {
        match op {
            Op::Push(when) => {
                heap.push(when, Rc::new(id));
                model.insert((when, id), ());
            }
            Op::Pop if !heap.is_empty() => {
                let (when, id) = heap.remove(0);
                assert_eq!(model.keys().next().unwrap().0, when, "the head is the least");
                model.remove(&(when, *id)).unwrap();
            }
            Op::Remove(i) if !heap.is_empty() => {
                let (when, id) = heap.remove(i % heap.len());
                model.remove(&(when, *id)).unwrap();
            }
            Op::RescheduleHead(when) if !heap.is_empty() => {
                let (before, id) = heap.head().map(|(when, id)| (when, **id)).unwrap();
                let at = heap.reschedule_head(when);
                assert_eq!(heap.get(at), (when, &Rc::new(id)));
                model.remove(&(before, id)).unwrap();
                model.insert((when, id), ());
            }
            Op::RemoveBackwards(one_in) => {
                let mut i = heap.len();
                while i > 0 {
                    i = i.min(heap.len());
                    if i > 0 && (**heap.get(i - 1).1 as usize).is_multiple_of(one_in) {
                        let (when, id) = heap.remove(i - 1);
                        model.remove(&(when, *id)).unwrap();
                    } else {
                        i = i.saturating_sub(1);
                    }
                }
                let left = heap.iter().filter(|(_, id)| (***id as usize).is_multiple_of(one_in)).count();
                assert_eq!(left, 0, "a walk backwards misses none");
            }
            Op::Drain => heap.drain(|when, id| {
                model.remove(&(when, *id)).unwrap();
            }),
            Op::Pop | Op::Remove(_) | Op::RescheduleHead(_) => {}
        }
    }

    proptest! {
        #[test]
        fn is_a_sorted_map_of_the_same_operations(ops in vec(op(), 0..400)) {
            let (mut heap, mut model) = (Heap::new(), Model::new());
            for (id, op) in ops.into_iter().enumerate() {
                apply(&mut heap, &mut model, op, id as u32);
                drop(heap.give_back());
                prop_assert_eq!(heap.misplaced(), None);
                prop_assert_eq!(heap.nodes.len(), nodes_for(heap.len()));
                let entries: Model = heap.iter().map(|(when, id)| ((when, **id), ())).collect();
                prop_assert_eq!(&entries, &model);
                prop_assert_eq!(heap.len(), model.len());
            }
        }
    }

    #[test]
    fn four_one_word_entries_are_a_cache_line() {
        assert_eq!(size_of::<Node<Rc<u32>>>(), 64);
        assert_eq!(align_of::<Node<Rc<u32>>>(), 64);
    }

    /// The promise that a walk from the last to the first relies on.
    #[test]
    fn a_walk_backwards_that_removes_sees_every_entry() {
        for seed in 1..50_u64 {
            let mut heap = Heap::new();
            let mut random = seed;
            for id in 0..200_u64 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                heap.push(random >> 40, id);
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

    #[test]
    fn memory_is_given_back_and_not_asked_for_again_at_once() {
        let capacity = |heap: &Heap<u32>| heap.nodes.capacity() * ARITY;
        let mut heap = Heap::new();
        (0..100_000).for_each(|id| heap.push(u64::from(id), id));
        let mut shrunk = 0;
        while heap.len() > 1_000 {
            heap.remove(0);
            let before = capacity(&heap);
            drop(heap.give_back());
            let after = capacity(&heap);
            assert!(heap.len() * 10 > after, "{after} slots for {} entries", heap.len());
            if after < before {
                shrunk += 1;
                assert!(heap.len() * 3 / 2 < after, "it would grow again at once");
            }
        }
        assert!((2..10).contains(&shrunk), "shrunk {shrunk} times");
    }

    #[test]
    fn what_is_reserved_is_not_allocated_by_a_push() {
        let mut heap = Heap::new();
        for id in 0..1_000_u64 {
            heap.reserve(1);
            assert!(nodes_for(heap.len() + 1) <= heap.nodes.capacity());
            let at = heap.nodes.as_ptr();
            heap.push(id, id);
            assert_eq!(at, heap.nodes.as_ptr());
        }
    }
}
