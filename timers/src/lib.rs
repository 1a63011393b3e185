//! The timers of all Ps: a 4-ary heap for each P, and ten states for each timer. The crate knows nothing of
//! green threads.
//!
//! - A [`Timer`] is a time, a period, a word of its user (`seq`) and a state. It is a field of the object
//!   that it wakes.
//! - An *entry* is a time and a [`Handle`] that leads to the timer. Each P has a heap of entries; [`Heaps`]
//!   has all heaps.
//! - The *owner* of a P checks that P's heap between two pieces of work. A thread without work, a *thief*,
//!   also checks the heaps of other Ps. No thread serves timers only.
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
//! let checked = heaps.check(0, 600, true, &mut |_, seq, when| fired.push((seq, when)));
//! assert_eq!(fired, [(8, 500)]);
//! assert_eq!(checked.next, clock::NEVER);
//! ```
//!
//! # The life of a timer
//!
//! Any thread may `add`, `modify` and `delete`. All other steps are taken by the *lock's holder*: the thread
//! that holds the lock of the timer's heap. A state in brackets is *brief*: one thread has claimed the timer
//! for a few instructions.
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
//!                                  |  |                      |\--> ModifiedLater ------+-- modify, delete: as if Waiting
//!                                  +--|---- entry moved up --+                        |
//!                                  ^  |                                               |
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
//! (`state.rs` has the arrows as a table.) `delete` of a timer in a heap, and `modify` to a later time, never
//! touch the heap. They change only the timer; a later holder of the lock moves or removes the entry. Most
//! time-outs are stopped or postponed long before they are due. Such a stop or postponement sifts nothing.
//!
//! `modify` to an earlier time than the entry has takes the heap's lock if the lock is free, and moves the
//! entry up. It finds the entry by the place that the timer keeps (`heap.rs`). If another thread has the
//! lock, `modify` does not wait. It leaves the timer in ModifiedEarlier, and adjust later looks for that
//! timer in the whole heap.
//!
//! # The protocols
//!
//! **Claim and settle.** The state makes deletion, modification, firing and moving of one timer exclude each
//! other:
//!
//! ```text
//! delete, modify (any thread)                   run head, clean head, adjust, sweep, move all (the lock's holder)
//!   1. read the state; brief: yield, again        1. read the state; Modifying: yield, again
//!   2. exchange it for Modifying, or again        2. exchange it for Running, Removing or Moving, or again
//!   3. fields, counts of the owner's heap         3. fields, counts, the entry
//!   4. store the new state                        4. store the new state
//! ```
//!
//! Between steps 2 and 4 a thread neither waits, nor allocates, nor calls code of the user. So a spinner
//! waits for a few instructions, or for one time slice of the OS. (Go's issues 38023 and 38070 show what
//! happens otherwise.) A `modify` that must insert takes the heap's lock, and makes room, before its step 2.
//!
//! The owner in a timer changes in step 3 only. `delete` and `modify` read the owner in their own step 3. So
//! they count in the heap that the timer is in, even beside `move_all`. They count before step 4: a thread
//! that reads the new state finds it counted. A `modify` that moves the entry up has the heap's lock, and
//! moves the entry in its step 3.
//!
//! **Tidying.** The user may stop a million timers at once, and removing their entries takes long. So each
//! holder of the lock removes a bounded portion, and the heap is in order after each removal. An insertion
//! removes a few entries; `check` and `tidy` by the P's owner remove some hundred. A cursor goes from the
//! last entry to the first, again and again. In that order a removal moves entries by O(1) places on average,
//! not by the depth of the heap. Adjust looks for timers that were modified to an earlier time. Adjust, too,
//! goes in portions: `timers/locked.rs`.
//!
//! **When to check.** `earliest` takes no lock, and is never later than the first timer: `counts.rs`. While a
//! timer is being added, the fences of the adder and the sleeper keep the sleeper from sleeping too long:
//! [`Heaps`].
//!
//! **Firing.** `check` takes up to 32 due timers under the lock and settles each in its next state. Then it
//! unlocks and calls `fire` for each. A one-shot that was taken is in no heap: its user may arm it again at
//! once. `delete` returns `false` for a one-shot that was taken. Only a ticker can be deleted while a tick of
//! it is about to fire; the `seq` of that tick tells the user.
//!
//! # Lock order
//!
//! Each heap has a lock. `move_all` takes two locks, the lower index first; all others take one. These locks
//! are innermost: their holder calls only `Handle::timer`, `Handle::clone` and `Handle::taken`, and drops
//! handles after the unlock. The holder may spin on a timer in Modifying, because a thread never waits for a
//! lock while its timer is in Modifying.
//!
//! # What was rejected
//!
//! - *One heap, or 64 heaps, with a thread that sleeps until the first timer* (Go until 1.9, and until 1.13).
//!   One heap has one lock for all threads. 64 heaps still cost two thread switches for each firing.
//! - *A timing wheel:* O(1), but a wheel rounds times. A poller sleeps until the next timer, and finding that
//!   time in a wheel is expensive.
//! - *A lock in each timer and three bits* (Go since 1.23): designed for a garbage collector and against
//!   stale ticks in channels. Adjust then takes a lock for each timer that it examines, and firing takes two
//!   locks in a fixed order.
//! - *The entry's exact index in the timer*, so that `delete` can remove the entry at once. Then each step of
//!   a sift writes to another timer, which is a cache miss. And `delete` needs the lock of a heap that
//!   another thread uses. The place that a timer keeps is the entry's or below it, so a step that moves an
//!   entry up writes nothing.
//! - *Adjust alone for timers made earlier* (Go until 1.22). A 1 ms sleep after a longer time-out walks the
//!   whole heap, and is late by 0.2 ms beside 100,000 sleepers.
//! - *A binary heap:* twice as deep, and each level reads half a cache line.
//! - *A vector of entries, swapped while sifting.* Nodes of four on their own cache lines, with a moving
//!   hole, pop in 46 to 53 ns instead of 50 to 68. (500,000 random times on a quiet machine.) On a busy
//!   machine memory decides, and both take equally long.

// In the lowest crate: no other of this project is compiled then, and this is the only error.
#[cfg(all(windows, not(any(target_arch = "x86", target_arch = "x86_64"))))]
compile_error!(
    "this runtime has no code to switch stacks on Windows on this processor: x86-64 and x86 are supported"
);
#[cfg(not(any(unix, windows)))]
compile_error!("this runtime needs Linux, Windows, macOS or another Unix: see `runtime::docs::platforms`");

pub mod clock;
mod counts;
mod heap;
mod heaps;
mod index_set;
#[cfg(all(test, loom))]
mod models;
mod state;
mod sync;
mod timer;
mod timers;

pub use heaps::Heaps;
pub use index_set::IndexSet;
pub use timer::{Modified, Timer};
pub use timers::Checked;

/// A reference to a [`Timer`] in a heap entry. While a handle lives, its timer neither moves nor goes away.
/// One word is the best size. The heap owns the handle while the timer's entry is in the heap; then the heap
/// gives the handle to `fire`, or drops it.
///
/// All clones of a handle lead to the same timer. `clone` runs with a heap's lock held and must not call into
/// this crate. `drop` runs without a heap's lock.
pub trait Handle: Clone {
    /// Returns the timer.
    fn timer(&self) -> &Timer;

    /// Reports that a one-shot was taken out of its heap to be fired. `fire` will get this handle, and
    /// [`Heaps::delete`] returns `false` from now on. Runs with the heap's lock held, in a brief state of the
    /// timer; must not call into this crate. A `delete` of the timer waits until this method returns.
    fn taken(&self) {}
}

impl Handle for std::sync::Arc<Timer> {
    fn timer(&self) -> &Timer {
        self
    }
}
