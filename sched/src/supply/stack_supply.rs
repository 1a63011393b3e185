//! How stacks are found while they are short: the error that a spawner gets, which Gs wait, and when they are
//! served.
//!
//! `stack/shortage.rs` has the protocol: the line of Gs that wait, and the order of its steps. Here `Sched`
//! performs these steps with its Ps, its pool of coroutines and its queues.

#![allow(unsafe_code)]

use std::io;

use crate::g::GRef;
use crate::g::list::GList;
use crate::p::{Held, P};
use crate::run::sched::Sched;
use crate::stack::coro::Coro;

impl Sched {
    /// Sets the lease of a P to idle. If Gs wait for stacks, moves the P's stacks to the common list first;
    /// the caller then serves these Gs. A G that joins the line later looks at idle Ps itself. *Runs on: the
    /// holder of `p`, under the lock of the idle list.*
    pub(crate) fn set_idle(&self, p: usize) {
        let p = self.p(p);
        debug_assert!(p.queue.is_empty(), "no M looks at the Gs of an idle P");
        if self.coros.shortage.leave_none() {
            // SAFETY: the caller holds `p`.
            self.coros.take_all(unsafe { Held::new(p) }.coros());
        }
        p.lease.set_idle();
    }

    /// Moves a P's stacks to the common list if Gs wait for stacks, and serves them. Called when a P goes
    /// from one M to another, because that M may first run a long G. *Runs on: the holder of `p`.*
    pub(crate) fn leave_stacks(&self, p: &P) {
        if self.coros.shortage.anyone_waits() {
            // SAFETY: the caller holds `p`.
            self.coros.take_all(unsafe { Held::new(p) }.coros());
            self.serve_waiting(None);
        }
    }

    /// Takes a stack for a closure that is spawned while stacks are short. Returns `None` if the stacks that
    /// lie idle suffice for all Gs that wait and for this closure too. *Runs on: any thread; with its P, if
    /// it has one.*
    ///
    /// # Errors
    /// Fails if there is no stack for the closure.
    #[cold]
    pub(crate) fn stack_at_spawn(&self, held: Option<Held<'_>>) -> io::Result<Option<*mut Coro>> {
        if self.coros.shortage.waiting() == 0
            && let Some(coro) = self.coros.take_idle(held.map(Held::coros))
        {
            return Ok(Some(coro));
        }
        match self.coros.carve() {
            // The number of waiting Gs is read last, so that Gs served in between are not counted as waiting.
            Err(_) if self.idle_stacks() > self.coros.shortage.waiting() => Ok(None),
            carved => carved.map(Some),
        }
    }

    fn idle_stacks(&self) -> usize {
        self.coros.idle(|| self.ps().map(P::stacks_at_hand).sum())
    }

    /// Lets `g` wait for a stack, because `g` is about to run and there is none. *Runs on: the holder of the
    /// P.*
    #[cold]
    pub(crate) fn wait_for_a_stack(&self, held: Held<'_>, g: GRef, error: &io::Error) {
        self.report_once(&format!("no stack for another green thread, it waits until others end: {error}"));
        self.coros.shortage.wait(g, || {
            // SAFETY: `for_each_idle` calls this for a P of the idle list, under the lock of that list, so no
            // M can take that P.
            self.idle.for_each_idle(|p| self.coros.take_all(unsafe { Held::new(self.p(p)) }.coros()));
        });
        self.serve_waiting(Some(held));
    }

    /// Gives the stacks of the common list to the Gs that wait, and makes these Gs runnable. *Runs on: any
    /// thread; with its P, if it has one.*
    pub(crate) fn serve_waiting(&self, held: Option<Held<'_>>) {
        let mut served = GList::new();
        self.coros.shortage.serve(
            || self.coros.take_idle(None),
            |g, coro| {
                g.set_coro(coro);
                served.push(g);
            },
        );
        match held {
            _ if served.is_empty() => {}
            // For the recorder and the latencies they have been ready since before they waited.
            Some(held) => self.make_work(|| {
                while let Some(g) = served.pop() {
                    held.queue.put_woken(g);
                }
            }),
            None => self.make_work(|| self.global.append(served)),
        }
    }

    /// Gives a coroutine back to the common list, and serves the Gs that wait. *Runs on: any thread; with its
    /// P, if it has one.*
    pub(crate) fn give_to_all(&self, held: Option<Held<'_>>, coro: *mut Coro) {
        self.coros.shortage.give_back(|| self.coros.give(None, coro), || self.serve_waiting(held));
    }

    /// Moves the P's stacks to the common list and asks the system once more for a stack. Called on a P that
    /// never goes idle. *Runs on: the holder.*
    #[cold]
    pub(crate) fn share_stacks(&self, held: Held<'_>) {
        self.coros.take_all(held.coros());
        match self.coros.carve() {
            Ok(coro) => self.give_to_all(Some(held), coro),
            Err(_) => self.serve_waiting(Some(held)),
        }
    }

    /// Asks the system for stacks until it refuses or no G waits. *Runs on: sysmon, now and then while stacks
    /// are short.*
    pub(crate) fn ask_again_for_stacks(&self) {
        while self.coros.shortage.anyone_waits() {
            let Ok(coro) = self.coros.carve() else { return };
            self.give_to_all(None, coro);
        }
    }
}
