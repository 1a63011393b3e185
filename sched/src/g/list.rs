//! A list of Gs, linked through their own `next` fields. The list allocates nothing, and two lists are joined
//! in one step.

use super::GRef;

/// A first-in, first-out list, but for `push_front`. The holder of the list owns the links of its Gs.
#[derive(Default)]
pub(crate) struct GList {
    head: Option<GRef>,
    tail: Option<GRef>,
    len: usize,
}

// SAFETY: the list alone uses the links of its Gs, and moves to another thread as a whole.
#[allow(unsafe_code)]
unsafe impl Send for GList {}

impl GList {
    pub(crate) const fn new() -> Self {
        GList { head: None, tail: None, len: 0 }
    }

    pub(crate) fn push(&mut self, g: GRef) {
        g.next.set(None);
        match self.tail {
            Some(tail) => tail.next.set(Some(g)),
            None => self.head = Some(g),
        }
        self.tail = Some(g);
        self.len += 1;
    }

    /// Puts `g` at the front: the next `pop` returns it.
    pub(crate) fn push_front(&mut self, g: GRef) {
        g.next.set(self.head);
        if self.head.is_none() {
            self.tail = Some(g);
        }
        self.head = Some(g);
        self.len += 1;
    }

    /// Takes the first G.
    pub(crate) fn pop(&mut self) -> Option<GRef> {
        let g = self.head?;
        self.head = g.next.take();
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(g)
    }

    /// Takes the first G for which `wanted` returns `true`; the others stay in order.
    pub(crate) fn remove_first(&mut self, wanted: impl Fn(GRef) -> bool) -> Option<GRef> {
        let mut before: Option<GRef> = None;
        let g = self.iter().find(|&g| {
            let found = wanted(g);
            if !found {
                before = Some(g);
            }
            found
        })?;
        let after = g.next.take();
        match before {
            Some(before) => before.next.set(after),
            None => self.head = after,
        }
        if after.is_none() {
            self.tail = before;
        }
        self.len -= 1;
        Some(g)
    }

    /// Moves all Gs of `other` to the end.
    pub(crate) fn append(&mut self, other: GList) {
        let Some(head) = other.head else { return };
        match self.tail {
            Some(tail) => tail.next.set(Some(head)),
            None => self.head = Some(head),
        }
        self.tail = other.tail;
        self.len += other.len;
    }

    /// The Gs from first to last; they stay in the list.
    pub(crate) fn iter(&self) -> impl Iterator<Item = GRef> {
        std::iter::successors(self.head, |g| g.next.get())
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::g::table;

    #[test]
    fn what_is_removed_leaves_the_others_in_order() {
        let mut gs = Vec::new();
        (0..4).for_each(|_| gs.push(table::take(0, |_| ()).unwrap()));
        let is = |at: usize| {
            let g = gs[at];
            move |other: GRef| std::ptr::eq(g, other)
        };
        for removed in 0..4 {
            let mut list = GList::new();
            gs.iter().for_each(|&g| list.push(g));
            assert!(list.remove_first(is(removed)).is_some_and(is(removed)));
            assert!(list.remove_first(is(removed)).is_none());
            // The end of the list is known.
            list.push(gs[removed]);
            assert_eq!(list.len(), 4);
            for at in (0..4).filter(|&at| at != removed).chain([removed]) {
                assert!(list.pop().is_some_and(is(at)));
            }
            assert!(list.is_empty());
        }
        table::give(gs);
    }
}
