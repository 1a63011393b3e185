//! The shortage of stacks: the line of Gs that wait for a stack, and the steps by which they get one.
//!
//! The runtime looks for room one stack ahead. Once the system has refused, a closure takes its stack at its
//! spawn, so that the spawner gets the error. Closures spawned earlier, and futures that are to be polled,
//! wait here in order. They wait until a G gives a stack back or the system has room again. A runtime is made
//! with its first stack, so at least one stack always comes back.
//!
//! No G may wait while a stack lies idle:
//!
//! ```text
//!   a G that finds no stack                   a thread that gives a stack back
//!   join the line                             a G waits? put it into the common list, else into the P's list
//!   move the stacks of idle Ps                serve
//!     into the common list                    a P that has stacks in its list, from before
//!   serve                                     moves them when it goes idle (under the lock of the idle list),
//!                                             and every 61 rounds; sysmon retakes the P from a G that computes
//! ```

use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// A queue of waiters.
pub(crate) trait WaitLine: Default {
    type Waiter;
    fn push(&mut self, waiter: Self::Waiter);
    fn pop(&mut self) -> Option<Self::Waiter>;
    fn len(&self) -> usize;
}

/// The Gs that wait for a stack, in line.
#[derive(Debug)]
pub(crate) struct Shortage<L> {
    /// 0 while there is room for another stack; else 1 + the number of waiters. Written under the lock.
    word: AtomicUsize,
    waiting: Mutex<L>,
}

impl<L: WaitLine> Shortage<L> {
    pub(crate) fn new() -> Self {
        Shortage { word: AtomicUsize::new(0), waiting: Mutex::new(L::default()) }
    }

    /// Returns `true` while no stacks can be had except existing ones. *Runs on: any thread.*
    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        // Relaxed: a thread that reads an old value acts as if it had run before the change. A read that must
        // see the change comes under, or after, a lock that the writer takes after its change. For
        // `leave_none` that is the lock of the idle list (in `share_idle`). For `serve` it is the lock of the
        // common list (in `next`).
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Returns `true` while a G waits for a stack. *Runs on: any thread.*
    #[inline]
    pub(crate) fn anyone_waits(&self) -> bool {
        // Relaxed: as in `is_there`.
        self.word.load(Ordering::Relaxed) > 1
    }

    /// Returns how many Gs wait for a stack. *Runs on: any thread.*
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

    /// Adds `waiter` to the line and then moves the stacks of idle Ps into the common list by `share_idle`.
    /// The caller then serves. *Runs on: any thread.*
    pub(crate) fn wait(&self, waiter: L::Waiter, share_idle: impl FnOnce()) {
        let mut waiting = self.waiting.lock();
        waiting.push(waiter);
        self.store(&waiting, true);
        drop(waiting);
        // After joining the line: a P that goes idle from now on sees that a G waits (`leave_none`).
        if !broken!("shortage_wait_no_idle_look") {
            share_idle();
        }
    }

    /// Records whether the system has just refused a stack.
    pub(crate) fn note(&self, is_there: bool) {
        if is_there != self.is_there() {
            self.store(&self.waiting.lock(), is_there);
        }
    }

    /// Gives a stack back to the common list by `put`, and then serves the waiters by `serve`. *Runs on: any
    /// thread.*
    #[inline]
    pub(crate) fn give_back(&self, put: impl FnOnce(), serve: impl FnOnce()) {
        let early = broken!("shortage_give_looks_first").then(|| self.anyone_waits());
        put();
        // After `put`: a G that joined the line before did not find this stack in the common list.
        if early.unwrap_or(true) {
            serve();
        }
    }

    /// Gives stacks of the common list to waiters, in order, until one of both runs out. The caller makes the
    /// waiters runnable. *Runs on: any thread.*
    pub(crate) fn serve<S>(&self, mut next: impl FnMut() -> Option<S>, mut give: impl FnMut(L::Waiter, S)) {
        if !self.anyone_waits() {
            return;
        }
        let mut waiting = self.waiting.lock();
        while waiting.len() > 0 {
            let Some(stack) = next() else { return };
            give(waiting.pop().expect("the line is not empty"), stack);
            self.store(&waiting, true);
        }
    }

    /// Returns `true` if a P that goes idle must keep no stack. *Runs on: the holder of the P, under the lock
    /// of the idle list.*
    pub(crate) fn leave_none(&self) -> bool {
        self.anyone_waits() && !broken!("shortage_idle_no_look")
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::asleep::idle::Idle;
    use loom::sync::Arc;
    use loom::thread;

    #[derive(Default)]
    struct Count(usize);

    impl WaitLine for Count {
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

    /// One P, and the number of stacks in each list.
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

        /// Serves the waiters and returns how many got a stack.
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

        /// A G finds no stack.
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
    fn no_g_waits_for_a_stack_that_an_idle_p_has() {
        loom::model(|| {
            let world = world(0, 1);
            let idler = world.clone();
            let idler = thread::spawn(move || idler.go_idle());
            let served = world.want() + idler.join().unwrap();
            assert_eq!(served, 1, "a G waits while a stack lies idle");
        });
    }

    #[test]
    fn no_g_waits_for_a_stack_that_was_given_back() {
        loom::model(|| {
            let world = world(0, 0);
            let ender = world.clone();
            let ender = thread::spawn(move || ender.end_without_p());
            let served = world.want() + ender.join().unwrap();
            assert_eq!(served, 1, "a G waits while a stack lies in the common list");
        });
    }
}
