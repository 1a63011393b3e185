//! A list of Gs through their own `next` links: no allocation, and joined in one step.

use super::GRef;
use crate::shortage::Line;

/// First in, first out (but for `push_front`). Whoever holds the list owns the links of its Gs.
#[derive(Default)]
pub(crate) struct GList {
    head: Option<GRef>,
    tail: Option<GRef>,
    len: usize,
}

// SAFETY: the list is the one owner of its Gs' links, and goes to another thread as a whole.
#[allow(unsafe_code)]
unsafe impl Send for GList {}

impl Line for GList {
    type Waiter = GRef;

    fn push(&mut self, g: GRef) {
        GList::push(self, g);
    }

    fn pop(&mut self) -> Option<GRef> {
        GList::pop(self)
    }

    fn len(&self) -> usize {
        GList::len(self)
    }
}

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

    /// The next that `pop` gives.
    pub(crate) fn push_front(&mut self, g: GRef) {
        g.next.set(self.head);
        if self.head.is_none() {
            self.tail = Some(g);
        }
        self.head = Some(g);
        self.len += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<GRef> {
        let g = self.head?;
        self.head = g.next.take();
        if self.head.is_none() {
            self.tail = None;
        }
        self.len -= 1;
        Some(g)
    }

    /// Moves all of `other` to the end.
    pub(crate) fn append(&mut self, other: GList) {
        let Some(head) = other.head else { return };
        match self.tail {
            Some(tail) => tail.next.set(Some(head)),
            None => self.head = Some(head),
        }
        self.tail = other.tail;
        self.len += other.len;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head.is_none()
    }
}
