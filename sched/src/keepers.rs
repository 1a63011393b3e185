//! Who keeps a thing in two parts: its users keep both, other owners only the room that it lies in.
//!
//! ```text
//!   a user leaves                                an owner leaves
//!   users - 1: was it the last?                  owners - 1: was it the last?
//!     drop the contents                            free the room
//!     leave as the owner that the users are
//! ```
//!
//! An owner may become a user only while there is one: the contents, once they are gone, do not come back.

use crate::sync::{
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Keepers {
    users: AtomicUsize,
    /// The users are one.
    owners: AtomicUsize,
}

impl Keepers {
    /// One user, and so many owners beside the users.
    pub(crate) fn new(others: usize) -> Self {
        Keepers { users: AtomicUsize::new(1), owners: AtomicUsize::new(1 + others) }
    }

    /// One owner more. *Runs on: an owner.*
    pub(crate) fn retain(&self) {
        // Relaxed: an owner is made by an owner.
        self.owners.fetch_add(1, Ordering::Relaxed);
    }

    /// An owner leaves; `true`: the last one, so the room is to be freed.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        let order = if broken!("keepers_release_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // Release: what this owner did comes before the end; Acquire: the last one sees it all.
        self.owners.fetch_sub(1, order) == 1
    }

    /// An owner becomes a user, if there is one. *Runs on: an owner.*
    #[must_use]
    pub(crate) fn join(&self) -> bool {
        if broken!("keepers_join_looks_first") {
            let any = self.users.load(Ordering::Relaxed) > 0;
            self.users.fetch_add(usize::from(any), Ordering::Relaxed);
            return any;
        }
        let more = |users| (users > 0).then_some(users + 1);
        // Relaxed: the contents were there before the owner was.
        self.users.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// A user leaves; `true`: the last one, so the contents are to be dropped, and then the owner that they were leaves.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        let order = if broken!("keepers_leave_relaxed") { Ordering::Relaxed } else { Ordering::AcqRel };
        // As in `release`.
        self.users.fetch_sub(1, order) == 1
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::Keepers;
    use crate::models::explore;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    struct Thing {
        keepers: Keepers,
        contents: UnsafeCell<bool>,
        room: UnsafeCell<bool>,
    }

    impl Thing {
        fn leave(&self) {
            // SAFETY: (all of this) the protocol gives each cell its users; loom checks it.
            self.contents.with(|contents| assert!(unsafe { *contents }, "used after it was dropped"));
            if self.keepers.leave() {
                // SAFETY: the last user has the contents alone; loom checks it.
                self.contents.with_mut(|contents| unsafe { *contents = false });
                self.release();
            }
        }

        fn release(&self) {
            // SAFETY: an owner keeps the room, and the last one has it alone; loom checks it.
            self.room.with(|room| assert!(unsafe { *room }, "used after it was freed"));
            if self.keepers.release() {
                self.room.with_mut(|room| assert!(std::mem::replace(unsafe { &mut *room }, false)));
            }
        }

        /// What a timer does that fires.
        fn fire(&self) {
            if self.keepers.join() {
                self.leave();
            }
            self.release();
        }
    }

    /// Two fire, and the handle goes.
    #[test]
    fn dropped_once_and_freed_once() {
        explore(3, || {
            let thing = Arc::new(Thing {
                keepers: Keepers::new(1),
                contents: UnsafeCell::new(true),
                room: UnsafeCell::new(true),
            });
            thing.keepers.retain();
            let firing = [0, 1].map(|_| {
                let thing = thing.clone();
                thread::spawn(move || thing.fire())
            });
            thing.leave();
            firing.into_iter().for_each(|fire| fire.join().unwrap());
            // SAFETY: likewise.
            thing.contents.with(|contents| assert!(!unsafe { *contents }, "never dropped"));
            thing.room.with(|room| assert!(!unsafe { *room }, "never freed"));
        });
    }
}
