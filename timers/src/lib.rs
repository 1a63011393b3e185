//! One P's timers: a 4-ary heap and the ten-state machine, knowing nothing of green threads.
//!
//! - A [`Timer`] is a time, a period, its holder's word (`seq`) and a state. It lives in whatever it wakes.
//! - Each P has a heap of *entries*, a time and a [`Handle`] that leads to the timer; [`Heaps`] has them all.
//! - Who has the P checks its heap between two pieces of work; who has nothing to do checks the others' heaps as well.
//!   No thread and no green thread is there only for timers.
//!
//! ```
//! use std::sync::Arc;
//! use timers::{Heaps, Timer, clock};
//!
//! let heaps = Heaps::new(4);
//! heaps.open(0);
//! let timer = Arc::new(Timer::new());
//! heaps.add(0, timer.clone(), 1_000, 0, 7);
//! heaps.modify(0, &timer, 500, 0, 8);
//! assert_eq!(heaps.earliest(0), 500);
//!
//! let mut fired = Vec::new();
//! let checked = heaps.check(0, 600, true, &mut |_, seq, now| fired.push((seq, now)));
//! assert_eq!(fired, [(8, 600)]);
//! assert_eq!(checked.next, clock::NEVER);
//! ```
//!
//! # The life of a timer
//!
//! `add`, `modify` and `delete` are anyone's; the rest is done by whoever holds the lock of the heap that the timer is in:
//! the owner of that P, or a thief. Brief states, in brackets, belong to one thread for a few instructions.
//!
//! ```text
//! in no heap                     in a heap                                               taken out
//!
//! NoStatus --- add ------------> Waiting --- run head ---> [Running] --- one-shot -----> NoStatus
//!                                  ^  |                        |
//!                                  |  |                        +------- ticker -------> Waiting again
//! NoStatus, -- modify ----------->-+  |
//! Removed      (by [Modifying])    |  |
//!                                  |  +- modify --> [Modifying] --> ModifiedEarlier --+
//!                                  |  |                       \--> ModifiedLater ------+-- modify, delete: as if Waiting
//!                                  |  |                                               |
//!                                  +--|---- [Moving] <--- clean head, run head, ------+
//!                                  ^  |        ^          adjust, move all
//!                                  |  +--------+ move all
//!                                  |  |
//!                                  |  +- delete --> [Modifying] --> Deleted -> [Removing] -> Removed
//!                                  |                                   |     (clean head, run head,
//!                                  +--- by ModifiedEarlier, -Later <---+      adjust, sweep, move all)
//!                                                                    modify
//! ```
//!
//! (`state.rs` has the arrows as a table.) So `delete` and `modify` of a timer in a heap never touch the heap, whichever
//! thread they run on: they leave a note in the timer, and whoever next comes by with the lock does the work. Most
//! time-outs are stopped or put off long before they are due, and then cost no sifting at all.
//!
//! # The protocols
//!
//! **Claim and settle.** Deletion, modification, firing and moving of one timer exclude each other by its state:
//!
//! ```text
//! delete, modify (any thread)                   run head, clean head, adjust, sweep, move all (the lock's holder)
//!   1. read the state; brief: yield, again        1. read the state; Modifying: yield, again
//!   2. exchange it for Modifying, or again        2. exchange it for Running, Removing or Moving, or again
//!   3. fields, counts of the owner's heap         3. fields, counts, the entry
//!   4. store the new state                        4. store the new state
//! ```
//!
//! Between 2 and 4 nobody waits, for a lock or anything else, asks for memory or calls out: a spinner waits for a few
//! instructions, or for one time slice of the OS (Go's issues 38023 and 38070 are what happens otherwise). So a `modify`
//! that must insert takes the heap's lock, and makes room, before its step 2.
//!
//! The owner in a timer changes in step 3 alone. So `delete` and `modify`, which read it in theirs, count on the heap
//! that the timer is in, whatever `move_all` does. They count before step 4: whoever meets the new state finds it
//! counted.
//!
//! **Tidying.** A million timers may be stopped at once, and removing their entries takes long. So each holder of the lock
//! removes a bounded portion; the heap is in order after each removal. An insertion removes a few entries, `check` and
//! `tidy` by the P's owner some hundred. A cursor goes from the last entry to the first, again and again: in that order
//! a removal moves entries by O(1) places on average, not by the depth of the heap.
//! (Adjust is not bounded: it looks at all entries until it has found each timer that was modified to an earlier time.)
//!
//! **When to look.** `earliest` is never later than the first timer, though it takes no lock: `counts.rs`. That nobody
//! sleeps past a timer being added is settled between the caller's fences: [`Heaps`].
//!
//! **Firing.** `check` takes up to 32 due timers under the lock, each already settled in its next state, unlocks, and
//! calls `fire` for each. A one-shot is then nobody's but its holder's: he may arm it again at once. For `delete`, a
//! timer taken is a timer fired: it returns false. Only a ticker can be deleted with a tick on its way, and `seq` tells.
//!
//! # Lock order
//!
//! The locks are the heaps'; `move_all` takes two, the lower index first; nothing else takes two. They are innermost:
//! nothing is called with one held but `Handle::timer`, `Handle::clone` and `Handle::taken`. Handles are dropped after the unlock.
//! A holder may spin on a Modifying, never on one that waits for a lock.
//!
//! # What was rejected
//!
//! - *One heap, or 64, with a thread that sleeps until the first timer* (Go until 1.9, and until 1.13): one lock for all, and
//!   later two thread switches for each firing.
//! - *A timing wheel:* O(1), but it rounds times; what is due next, which is what a poller sleeps by, is dear to know.
//! - *A lock in each timer and three bits* (Go since 1.23), made for a garbage collector and against stale ticks in channels.
//!   An adjust then takes a lock for each timer it looks at, and firing takes two in an order to be kept.
//! - *The entry's index in the timer*, so that `delete` can remove it at once: then each step of a sift writes to another
//!   timer, a cache miss each, and `delete` needs the lock of a heap that another thread is busy with.
//! - *A binary heap:* twice as deep, and half a cache line read at each level.
//! - *A vector of entries, swapped while sifting.* Nodes of four on their own cache lines, with a moving hole, pop in 46 to
//!   53 ns instead of 50 to 68 (500,000 random times, on a quiet machine; on a busy one memory decides, and they are even).
#![forbid(unsafe_code)]

pub mod clock;
mod counts;
mod heap;
mod heaps;
#[cfg(all(test, loom))]
mod models;
mod state;
mod sync;
mod timer;
mod timers;

pub use heaps::Heaps;
pub use timer::{Modified, Timer};
pub use timers::Checked;

/// What a heap entry holds: something that leads to a [`Timer`] and keeps it in place, best one word. The heap owns it
/// while the timer's entry is in the heap, and then gives it to `fire`, or drops it.
///
/// All clones of a handle lead to the same timer. Cloning one happens with a heap's lock held, and must not call back;
/// dropping one happens without it.
pub trait Handle: Clone {
    /// The timer.
    fn timer(&self) -> &Timer;

    /// The timer is taken out of its heap to be fired: from here on [`Heaps::delete`] gives `false`, and this handle
    /// will be given to `fire`. Called with the heap's lock held, in the timer's brief state, for a one-shot; must not
    /// call back. A `delete` of the timer waits until this has returned.
    fn taken(&self) {}
}

impl Handle for std::sync::Arc<Timer> {
    fn timer(&self) -> &Timer {
        self
    }
}
