//! Changes the number of Ps while the runtime runs.
//!
//! ```text
//!   set_procs(fewer)                                an M with a surplus P
//!   store the number                                with nothing to run: put_idle reads the number under the list's lock
//!   take surplus Ps out of the idle list            looking for a G: it reads the number
//!     and retire them                                 retire: the P's work moves to other queues; the M goes on without P
//! ```
//!
//! No M is started under the lock of the retired Ps. If the M cannot be started, its P is given up, and that
//! P may have to retire.
//!
//! Sysmon takes a surplus P from a G that does not enter the runtime. A retired P is in no list and has no
//! work; when the number grows again, the P is used again.
//!
//! If the maker of the runtime passes a function that returns the wanted number (`Config::wanted_procs`),
//! sysmon sets that number until the first call of `set_procs`. Both decide under the lock of the retired
//! Ps.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::io;
use std::sync::atomic::Ordering;

use timers::clock::NEVER;

use crate::asleep::idle::GiveUp;
use crate::g::list::GList;
use crate::m::OwnM;
use crate::notes::events::Left;
use crate::p::Held;
use crate::run::sched::{MAX_PROCS, Sched};

impl Sched {
    /// Sets how many green threads run at the same time. Returns at once; an M gives a surplus P up when its
    /// G next enters the runtime. From then on sysmon does not change the number.
    ///
    /// # Errors
    /// Fails with `InvalidInput` if `n` is 0 or too large; the text says how many are allowed. Fails with
    /// `Unsupported` in a forked child.
    pub fn set_procs(&self, n: usize) -> io::Result<()> {
        // A forked child has no thread to wake: its copy of an M's lock may be held for ever.
        crate::sys::fork::check()?;
        let set = || {
            // Relaxed: the lock of the retired Ps orders this before the load in `follow_wanted_procs`.
            self.procs_are_set.store(true, Ordering::Relaxed);
            true
        };
        self.make_work(|| self.resize_if(n, set))?;
        self.serve_waiting(None);
        Ok(())
    }

    /// Sets the number of Ps that `Config::wanted_procs` returns, unless `set_procs` was called. *Runs on:
    /// sysmon.*
    pub(crate) fn follow_wanted_procs(&self) {
        // Relaxed: a hint, which saves the system calls of the function. `resize_if` looks again under the lock.
        let are_set = || self.procs_are_set.load(Ordering::Relaxed);
        let Some(wanted) = self.config.wanted_procs.filter(|_| !are_set()) else { return };
        let Some(n) = wanted().map(|n| n.clamp(1, MAX_PROCS)).filter(|n| *n != self.procs()) else { return };
        let resized = self.make_work(|| self.resize_if(n, || !are_set()));
        debug_assert!(resized.is_ok(), "the number is in the allowed range");
        self.serve_waiting(None);
    }

    /// As `set_procs`, but wakes no M for Ps that become idle.
    pub(crate) fn resize_to(&self, n: usize) -> io::Result<()> {
        self.resize_if(n, || true)
    }

    /// Sets the number of Ps if `decide` returns `true`. It is called under the lock of the retired Ps.
    fn resize_if(&self, n: usize, decide: impl FnOnce() -> bool) -> io::Result<()> {
        if !(1..=MAX_PROCS).contains(&n) {
            let text = format!("procs is {n}: from 1 to {MAX_PROCS} are allowed");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mut retired = self.retired.lock();
        if !decide() {
            return Ok(());
        }
        for p in self.make_ps(n) {
            retired.insert(p);
        }
        let (before, mut next) = (self.procs(), NEVER);
        self.store_procs(n);
        for p in before..n {
            // A P that is not retired is still held by an M that has not come by since the P became surplus.
            if retired.remove(&p) {
                self.p(p).lease.set_held();
                self.give_p(p);
            }
        }
        for p in n..before {
            if self.idle.remove(p, || self.p(p).lease.set_held()) {
                next = next.min(self.retire_locked(p, &mut retired));
            }
        }
        drop(retired);
        self.timers_moved(next);
        Ok(())
    }

    /// Makes sure that an M watches the timers of retired Ps; the first is due at `next`. The caller holds no
    /// lock.
    fn timers_moved(&self, next: u64) {
        if next != NEVER {
            self.timer_was_added(next);
        }
    }

    /// Puts `p` into the idle list, or retires it if it is surplus. *Runs on: the holder of `p`, which then
    /// has it no more.*
    pub(crate) fn put_idle(&self, p: usize) {
        match self.give_p(p) {
            true => self.serve_waiting(None),
            false => self.retire(p),
        }
    }

    /// Gives `p` to an M in the line for Ps, else to the idle list. Returns `false` if `p` is surplus.
    fn give_p(&self, p: usize) -> bool {
        match self.idle.give_up(p, || p < self.procs(), || self.set_idle(p)) {
            GiveUp::Idle => true,
            GiveUp::Refused => false,
            GiveUp::To(m) => {
                m.m().sleep.hand(p);
                true
            }
        }
    }

    /// Returns `true` if this P is surplus.
    #[inline]
    pub(crate) fn is_surplus(&self, held: Held<'_>) -> bool {
        held.index >= self.procs()
    }

    /// Retires the surplus P of `m`, which goes on without a P.
    #[cold]
    pub(crate) fn retire_from(&self, m: OwnM<'_>, held: Held<'_>) {
        let p = held.index;
        self.publish_handed(held);
        m.give_up(held);
        if m.own().spinning.replace(false) {
            self.idle.stop_spinning();
        }
        self.retire(p);
    }

    /// Retires `p`, and moves its work to other queues. *Runs on: the holder of `p`, which then has it no
    /// more.*
    #[cold]
    pub(crate) fn retire(&self, p: usize) {
        self.make_work(|| {
            let mut retired = self.retired.lock();
            // Also if the number of Ps has grown since the caller looked: an idle P has no G.
            self.move_queue(p);
            let next = if self.give_p(p) { NEVER } else { self.retire_locked(p, &mut retired) };
            drop(retired);
            self.timers_moved(next);
        });
        self.serve_waiting(None);
    }

    /// Moves the queue of `p` to the end of the global queue, because no M runs it. *Runs on: the holder of
    /// `p`, in `make_work`, or before a look at the queues (`Idle::withdraw`, `Idle::look_again`).*
    pub(crate) fn move_queue(&self, p: usize) {
        // SAFETY: the caller holds `p`.
        let held = unsafe { Held::new(self.p(p)) };
        let mut gs = GList::new();
        while let Some(g) = held.queue.pop(0, &mut 0) {
            gs.push(g);
        }
        self.global.append(gs);
    }

    /// Moves the stacks and timers of `p`, which has no G, to where other Ps find them. Returns when its first
    /// timer is due; the caller passes that to `timers_moved` after it has released the lock. *Runs on: the
    /// holder of `p` and of the lock of the retired Ps.*
    fn retire_locked(&self, p: usize, retired: &mut HashSet<usize>) -> u64 {
        // SAFETY: the caller holds `p`, and gives it up by this call.
        let held = unsafe { Held::new(self.p(p)) };
        held.on_p_left(Left::Retired);
        self.coros.take_all(held.coros());
        held.own().set_covered();
        let next = self.heaps.move_all(p, 0);
        held.lease.set_idle();
        retired.insert(p);
        next.unwrap_or(NEVER)
    }
}
