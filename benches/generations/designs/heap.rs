//! A 4-ary min-heap that finds an item by its id. A cancelled timer can so be removed at once, as in Go until
//! 1.13.

const ARITY: usize = 4;

/// Identifies an item that is, or was, in a heap.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Id {
    slot: u32,
    /// The number of earlier uses of the slot.
    seq: u32,
}

/// The unit of sifting. An entry holds the time itself, so that a comparison reads no slot.
#[derive(Clone, Copy)]
struct Entry {
    when: u64,
    slot: u32,
}

struct Slot<T> {
    /// The index of the slot's entry in the heap.
    at: u32,
    seq: u32,
    item: Option<T>,
}

pub(super) struct Heap<T> {
    entries: Vec<Entry>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

impl<T> Heap<T> {
    pub(super) fn new() -> Self {
        Heap { entries: Vec::new(), slots: Vec::new(), free: Vec::new() }
    }

    /// Returns the time of the first entry.
    pub(super) fn first(&self) -> Option<u64> {
        Some(self.entries.first()?.when)
    }

    pub(super) fn push(&mut self, when: u64, item: T) -> Id {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { at: 0, seq: 0, item: None });
            (self.slots.len() - 1) as u32
        });
        self.slots[slot as usize].item = Some(item);
        self.entries.push(Entry { when, slot });
        self.sift_up(self.entries.len() - 1);
        Id { slot, seq: self.slots[slot as usize].seq }
    }

    /// Removes the first item and returns it. Returns `None` if the heap is empty.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.entries.first()?;
        self.remove_at(0)
    }

    /// Removes the item `id` and returns it. Returns `None` if `id` is not in the heap.
    pub(super) fn remove(&mut self, id: Id) -> Option<T> {
        self.remove_at(self.find(id)?)
    }

    /// Sets the item `id` to another time. Returns `false` if `id` is not in the heap.
    pub(super) fn change(&mut self, id: Id, when: u64) -> bool {
        let Some(at) = self.find(id) else { return false };
        self.entries[at].when = when;
        self.sift(at);
        true
    }

    fn find(&self, id: Id) -> Option<usize> {
        let slot = &self.slots[id.slot as usize];
        (slot.seq == id.seq && slot.item.is_some()).then_some(slot.at as usize)
    }

    fn remove_at(&mut self, at: usize) -> Option<T> {
        let Entry { slot, .. } = self.entries.swap_remove(at);
        if at < self.entries.len() {
            self.sift(at);
        }
        self.free.push(slot);
        let slot = &mut self.slots[slot as usize];
        slot.seq = slot.seq.wrapping_add(1);
        slot.item.take()
    }

    /// Moves the entry at index `at` to its place.
    fn sift(&mut self, at: usize) {
        if at > 0 && self.entries[at].when < self.entries[(at - 1) / ARITY].when {
            self.sift_up(at);
        } else {
            self.sift_down(at);
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        let entry = self.entries[at];
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if self.entries[parent].when <= entry.when {
                break;
            }
            self.place(at, self.entries[parent]);
            at = parent;
        }
        self.place(at, entry);
    }

    fn sift_down(&mut self, mut at: usize) {
        let entry = self.entries[at];
        loop {
            let first = ARITY * at + 1;
            let children = first..(first + ARITY).min(self.entries.len());
            match children.min_by_key(|&child| self.entries[child].when) {
                Some(child) if self.entries[child].when < entry.when => {
                    self.place(at, self.entries[child]);
                    at = child;
                }
                _ => break,
            }
        }
        self.place(at, entry);
    }

    fn place(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        self.slots[entry.slot as usize].at = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Heap, Id};
    use peer_common::load::Random;

    #[test]
    fn it_is_a_sorted_set_of_the_same_operations() {
        let mut random = Random::of_task(1);
        let (mut heap, mut model) = (Heap::new(), BTreeSet::new());
        let mut ids: Vec<(Id, u64)> = Vec::new();
        for item in 0..20_000_u64 {
            // Times are from a small range, so that many are equal.
            let (when, one) = (random.below(50) as u64, random.below(ids.len() + 1));
            match (random.below(8), ids.get(one).copied()) {
                (0..4, _) => {
                    ids.push((heap.push(when, (when, item)), when));
                    model.insert((when, item));
                }
                (4, Some((id, _))) => {
                    if let Some(removed) = heap.remove(id) {
                        assert!(model.remove(&(ids[one].1, removed.1)));
                    }
                    assert_eq!(heap.remove(id), None, "the item was removed");
                    assert!(!heap.change(id, 0));
                    ids.swap_remove(one);
                }
                (5, Some((id, before))) => {
                    let item = heap.find(id).and_then(|at| {
                        let slot = heap.entries[at].slot as usize;
                        heap.slots[slot].item.as_mut()
                    });
                    if let Some(item) = item {
                        item.0 = when;
                        assert!(model.remove(&(before, item.1)) && model.insert((when, item.1)));
                        assert!(heap.change(id, when));
                        ids[one].1 = when;
                    }
                }
                _ => {
                    assert_eq!(heap.first(), model.first().map(|first| first.0));
                    if let Some(item) = heap.pop() {
                        assert_eq!(
                            model.first().map(|first| first.0),
                            Some(item.0),
                            "the first is the least"
                        );
                        assert!(model.remove(&item));
                    }
                }
            }
            assert_eq!(heap.entries.len(), model.len());
        }
        while let Some(item) = heap.pop() {
            assert!(model.remove(&item));
        }
        assert!(model.is_empty());
        assert!(heap.slots.len() < 15_000, "slots are reused");
    }
}
