//! The stacks of green threads that are ready: an M may resume each at any moment, and does not wait for the
//! copy. So a copy counts only if its green thread was not resumed during the copy. A mark shows that
//! (`g/binding.rs`).

use crate::g::{GRef, Status};
use crate::m::release::release;
use crate::stack::saved::StackCopy;
use crate::sync::Mutex;
use crate::sync::impose_barrier;
use crate::watch::look::{Does, Seen, look};

/// How many share one barrier. Few, because a green thread that is resumed before its turn shows no stack.
const BATCH: usize = 8;

/// Locked by the dumper that has marked green threads: a mark does not say which dumper set it.
static MARKS: Mutex<()> = Mutex::new(());

/// A reference to a G; the drop gives it up.
pub(super) struct Retained(pub(super) GRef);

impl Drop for Retained {
    fn drop(&mut self) {
        release(self.0);
    }
}

/// Green threads that were found ready, and what a dump says of each.
#[derive(Default)]
pub(super) struct Ready(Vec<(Retained, Seen)>);

impl Ready {
    /// Adds `g`. Returns `true` if it is time for `tell_all`.
    pub(super) fn add(&mut self, g: Retained, seen: Seen) -> bool {
        debug_assert_eq!(seen.does, Does::Ready);
        self.0.push((g, seen));
        self.0.len() == BATCH
    }

    /// Calls `tell` with each and its stack, and forgets them. A green thread that was resumed during the
    /// copy is looked at once more.
    pub(super) fn tell_all(&mut self, copy: &mut StackCopy, tell: &mut impl FnMut(Seen, Option<&StackCopy>)) {
        let _marks = MARKS.lock();
        self.0.iter().for_each(|(g, _)| g.0.binding.watch());
        let imposed = impose_barrier();
        for (g, seen) in self.0.drain(..) {
            let copied = imposed && g.0.status() == Status::Runnable && copy.fill_ready(g.0);
            let was_resumed = g.0.binding.was_unwatched();
            let (seen, copied) =
                if was_resumed { look(g.0, Some(copy)).unwrap_or((seen, false)) } else { (seen, copied) };
            drop(g);
            tell(seen, copied.then_some(&*copy));
        }
    }
}
