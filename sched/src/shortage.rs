//! No stack to be had: who waits for one, and who gets the next.
//!
//! Room is looked for one stack ahead. When the system refuses it, a closure spawned from then on takes its stack at once,
//! so that its spawner hears if there is none. What had been spawned before, and a future that is to be polled, waits here
//! in order until somebody gives a stack back, or the system has room again. (A runtime is made with its first stack, so
//! there always is one that can come back.)
//!
//! Nobody may wait while stacks lie idle elsewhere:
//!
//! ```text
//!   a G that finds none                       a stack that is given back
//!   join the list                               somebody waits? into the common list, else the P keeps it at hand
//!   all that idle Ps have at hand               serve
//!     into the common list                    a P that has some at hand, from before
//!   serve                                       shares them when it goes idle (under the lock of the idle list),
//!                                               and every 61 rounds; sysmon takes it from a G that computes
//! ```

use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// A queue of those who wait.
pub(crate) trait Line: Default {
    type Waiter;
    fn push(&mut self, waiter: Self::Waiter);
    fn pop(&mut self) -> Option<Self::Waiter>;
    fn len(&self) -> usize;
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Shortage<L> {
    /// 0 while there is room for another stack; else one more than wait. Written under the lock.
    word: AtomicUsize,
    waiting: Mutex<L>,
}

impl<L: Line> Shortage<L> {
    pub(crate) fn new() -> Self {
        Shortage { word: AtomicUsize::new(0), waiting: Mutex::new(L::default()) }
    }

    /// True while no stack is known to be had but those that were made. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        // Relaxed: whoever reads an old value behaves as if it had come before; what must not be missed is read with, or
        // after, a lock that the writer took later (see the file's head).
        self.word.load(Ordering::Relaxed) != 0
    }

    /// True while anyone waits for a stack. *Runs on: any thread.*
    #[inline]
    pub(crate) fn anyone_waits(&self) -> bool {
        // Relaxed: as in `is_there`.
        self.word.load(Ordering::Relaxed) > 1
    }

    /// How many wait for a stack. *Runs on: any thread.*
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        // Relaxed: as in `is_there`.
        self.word.load(Ordering::Relaxed).saturating_sub(1)
    }

    fn store(&self, waiting: &L, is_there: bool) {
        let waiting = waiting.len();
        let word = if is_there || waiting > 0 { 1 + waiting } else { 0 };
        self.word.store(word, Ordering::Relaxed);
    }

    /// Joins the line, and then brings the stacks of idle Ps into the common list by `share_idle`. The caller serves.
    /// *Runs on: any thread.*
    pub(crate) fn wait(&self, waiter: L::Waiter, share_idle: impl FnOnce()) {
        let mut waiting = self.waiting.lock();
        waiting.push(waiter);
        self.store(&waiting, true);
        drop(waiting);
        // After the line was joined: a P that goes idle from now on sees that a G waits (`leave_none`).
        if !broken!("shortage_wait_no_idle_look") {
            share_idle();
        }
    }

    /// Notes whether the system has more, as it said just now.
    pub(crate) fn note(&self, is_there: bool) {
        if is_there != self.is_there() {
            self.store(&self.waiting.lock(), is_there);
        }
    }

    /// Gives a stack back to the common list by `put`, and then serves those that wait, by `serve`. *Runs on: any thread.*
    #[inline]
    pub(crate) fn give_back(&self, put: impl FnOnce(), serve: impl FnOnce()) {
        let early = broken!("shortage_give_looks_first").then(|| self.anyone_waits());
        put();
        // After the stack was put: a G that came to wait before has not seen this stack in the common list.
        if early.unwrap_or(true) {
            serve();
        }
    }

    /// Gives stacks of the common list to those who wait, as long as there are any; the caller makes them runnable.
    /// *Runs on: any thread.*
    pub(crate) fn serve<S>(&self, mut next: impl FnMut() -> Option<S>, mut give: impl FnMut(L::Waiter, S)) {
        if !self.anyone_waits() {
            return;
        }
        let mut waiting = self.waiting.lock();
        while waiting.len() > 0 {
            let Some(stack) = next() else { return };
            give(waiting.pop().expect("it is not empty"), stack);
            self.store(&waiting, true);
        }
    }

    /// Whether a P that goes idle must leave no stack at hand. *Runs on: its holder, with the lock of the idle list.*
    pub(crate) fn leave_none(&self) -> bool {
        self.anyone_waits() && !broken!("shortage_idle_no_look")
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::idle::Idle;
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct Count(usize);

    impl Line for Count {
        type Waiter = ();

        fn push(&mut self, (): ()) {
            self.0 += 1;
        }

        fn pop(&mut self) -> Option<()> {
            self.0 = self.0.checked_sub(1)?;
            Some(())
        }

        fn len(&self) -> usize {
            self.0
        }
    }

    /// One P, and how many stacks lie where.
    struct World {
        shortage: Shortage<Count>,
        idle: Idle<()>,
        common: Mutex<usize>,
        at_hand: Mutex<usize>,
    }

    fn world(common: usize, at_hand: usize) -> Arc<World> {
        let (common, at_hand) = (Mutex::new(common), Mutex::new(at_hand));
        Arc::new(World { shortage: Shortage::new(), idle: Idle::new(), common, at_hand })
    }

    impl World {
        fn share(&self) {
            let stacks = std::mem::take(&mut *self.at_hand.lock());
            *self.common.lock() += stacks;
        }

        /// How many were served.
        fn serve(&self) -> usize {
            let mut served = 0;
            let next = || {
                let mut common = self.common.lock();
                *common = common.checked_sub(1)?;
                Some(())
            };
            self.shortage.serve(next, |(), ()| served += 1);
            served
        }

        /// A G that found no stack.
        fn want(&self) -> usize {
            self.shortage.wait((), || self.idle.for_each_idle(|_| self.share()));
            self.serve()
        }

        /// The holder of the P has nothing to run.
        fn go_idle(&self) -> usize {
            let set_idle = || {
                if self.shortage.leave_none() {
                    self.share();
                }
            };
            self.idle.give_up(0, || true, set_idle);
            self.serve()
        }

        /// A G ends on an M that has lost its P.
        fn end_without_p(&self) -> usize {
            let mut served = 0;
            self.shortage.give_back(|| *self.common.lock() += 1, || served = self.serve());
            served
        }
    }

    #[test]
    fn nobody_waits_for_a_stack_that_an_idle_p_has() {
        loom::model(|| {
            let world = world(0, 1);
            let idler = world.clone();
            let idler = thread::spawn(move || idler.go_idle());
            let served = world.want() + idler.join().unwrap();
            assert_eq!(served, 1, "a stack lies idle, and somebody waits for it");
        });
    }

    #[test]
    fn nobody_waits_for_a_stack_that_was_given_back() {
        loom::model(|| {
            let world = world(0, 0);
            let ender = world.clone();
            let ender = thread::spawn(move || ender.end_without_p());
            let served = world.want() + ender.join().unwrap();
            assert_eq!(served, 1, "a stack lies in the common list, and somebody waits for it");
        });
    }
}
