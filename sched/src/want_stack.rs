//! A stack is wanted and there is none at hand: what the spawner hears, who waits, and who is served. (`shortage.rs`)

#![allow(unsafe_code)]

use std::io;

use crate::g::GRef;
use crate::g::coro::Coro;
use crate::g::list::GList;
use crate::p::{Held, P};
use crate::sched::Sched;

impl Sched {
    /// A P goes into the idle list: what it has at hand goes to those who wait, who see it there otherwise. The caller
    /// serves them afterwards. *Runs on: the holder of `p`, with the lock of the idle list.*
    pub(crate) fn set_idle(&self, p: usize) {
        let p = self.p(p);
        if self.coros.shortage.leave_none() {
            // SAFETY: the caller holds it.
            self.coros.take_all(unsafe { Held::new(p) });
        }
        p.lease.set_idle();
    }

    /// A P goes from one M to another, which may run something else for long first: what it has at hand goes to those who
    /// wait. *Runs on: the holder of `p`.*
    pub(crate) fn leave_stacks(&self, p: &P) {
        if self.coros.shortage.anyone_waits() {
            // SAFETY: the caller holds it.
            self.coros.take_all(unsafe { Held::new(p) });
            self.serve_waiting(None);
        }
    }

    /// The stack of a closure that is spawned while stacks are short; none yet if those that lie idle elsewhere will do
    /// for it, too. *Runs on: any thread; with its P, if it has one.*
    ///
    /// # Errors
    /// There is none.
    #[cold]
    pub(crate) fn stack_at_spawn(&self, held: Option<Held<'_>>) -> io::Result<Option<*mut Coro>> {
        if self.coros.shortage.waiting() == 0
            && let Some(coro) = self.coros.take_idle(held)
        {
            return Ok(Some(coro));
        }
        match self.coros.carve() {
            // How many wait is read last: those who are served meanwhile must not count as if they still waited.
            Err(_) if self.idle_stacks() > self.coros.shortage.waiting() => Ok(None),
            carved => carved.map(Some),
        }
    }

    fn idle_stacks(&self) -> usize {
        self.coros.idle(|| self.ps().map(P::stacks_at_hand).sum())
    }

    /// `g` is to run and there is no stack for it. *Runs on: the holder of the P.*
    #[cold]
    pub(crate) fn wait_for_a_stack(&self, held: Held<'_>, g: GRef, error: &io::Error) {
        self.report_once(&format!("no stack for another green thread, it waits until others end: {error}"));
        self.coros.shortage.wait(g, || {
            // SAFETY: `for_each_idle` names a P of the idle list while it holds the list's lock, so no M can take that P.
            self.idle.for_each_idle(|p| self.coros.take_all(unsafe { Held::new(self.p(p)) }));
        });
        self.serve_waiting(Some(held));
    }

    /// A stack came into the common list: whoever waits gets it. *Runs on: any thread; with its P, if it has one.*
    pub(crate) fn serve_waiting(&self, held: Option<Held<'_>>) {
        let mut served = GList::new();
        self.coros.shortage.serve(
            || self.coros.take_idle(None),
            |g, coro| {
                g.coro.set(coro);
                served.push(g);
            },
        );
        match held {
            _ if served.is_empty() => {}
            Some(held) => self.ready_all(held, served),
            None => self.make_work(|| self.global.append(served)),
        }
    }

    /// Gives a coroutine back to the common list; a G that waits for a stack gets it. *Runs on: any thread; with its P, if it has
    /// one.*
    pub(crate) fn give_to_all(&self, held: Option<Held<'_>>, coro: *mut Coro) {
        self.coros.shortage.give_back(|| self.coros.give(None, coro), || self.serve_waiting(held));
    }

    /// A P that never goes idle shares what it has at hand, and asks the system once more. *Runs on: its holder.*
    #[cold]
    pub(crate) fn share_stacks(&self, held: Held<'_>) {
        self.coros.take_all(held);
        match self.coros.carve() {
            Ok(coro) => self.give_to_all(Some(held), coro),
            Err(_) => self.serve_waiting(Some(held)),
        }
    }

    /// The system may have memory again. *Runs on: sysmon, now and then while stacks are short.*
    pub(crate) fn ask_again_for_stacks(&self) {
        while self.coros.shortage.anyone_waits() {
            let Ok(coro) = self.coros.carve() else { return };
            self.give_to_all(None, coro);
        }
    }
}
