//! More or fewer Ps while the machine runs.
//!
//! ```text
//!   set_procs(fewer)                                an M with a P that is one too many
//!   store the number                                resting: put_idle looks at the number under the list's lock
//!   take those beyond it out of the idle list       looking for a G: it looks at the number
//!     and retire them                                 retire: what the P has goes to others; the M goes on without
//! ```
//!
//! No M is started under the lock of the retired Ps: an M that cannot be started gives its P up, and that P may have to retire.
//!
//! sysmon takes a P that is one too many from a G that does not come back. A retired P is in no list and holds nothing;
//! with a larger number it begins anew.

#![allow(unsafe_code)]

use std::collections::HashSet;
use std::io;

use timers::clock::NEVER;

use crate::g::list::GList;
use crate::idle::Given;
use crate::m::M;
use crate::p::Held;
use crate::sched::{MAX_PROCS, Sched};

impl Sched {
    /// Sets how many green threads run at the same moment. It returns at once; Ps that are one too many go when what runs
    /// on them comes by.
    ///
    /// # Errors
    /// `InvalidInput` for no Ps, or too many; it says how many are allowed.
    pub fn set_procs(&self, n: usize) -> io::Result<()> {
        self.make_work(|| self.resize(n))?;
        self.serve_waiting(None);
        Ok(())
    }

    /// Likewise, and nobody is woken for the Ps that are idle now.
    pub(crate) fn resize(&self, n: usize) -> io::Result<()> {
        if !(1..=MAX_PROCS).contains(&n) {
            let text = format!("procs is {n}: from 1 to {MAX_PROCS} are allowed");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        crate::fork::check()?;
        let mut retired = self.retired.lock();
        for p in self.make_ps(n) {
            retired.insert(p);
        }
        let (before, mut next) = (self.procs(), NEVER);
        self.store_procs(n);
        for p in before..n {
            // One that is not retired is still held, by an M that has not come by since it was one too many.
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

    /// Has the timers of retired Ps watched, the first of which is due at `next`. The caller holds no lock.
    fn timers_moved(&self, next: u64) {
        if next != NEVER {
            self.timer_was_added(next);
        }
    }

    /// The holder of `p` needs it no more: into the idle list, or out of use if it is one too many.
    pub(crate) fn put_idle(&self, p: usize) {
        match self.give_p(p) {
            true => self.serve_waiting(None),
            false => self.retire(p),
        }
    }

    /// To the M that waits for a P, else into the idle list; `false`: it is one too many.
    fn give_p(&self, p: usize) -> bool {
        match self.idle.give_up(p, || p < self.procs(), || self.set_idle(p)) {
            Given::Idle => true,
            Given::Refused => false,
            Given::To(m) => {
                self.hand_to(m.m(), p, false);
                true
            }
        }
    }

    /// True if this P is one too many.
    #[inline]
    pub(crate) fn is_surplus(&self, held: Held<'_>) -> bool {
        held.index >= self.procs()
    }

    /// The M goes on without its P, which is one too many. *Runs on: `m`.*
    #[cold]
    pub(crate) fn retire_from(&self, m: &M, held: Held<'_>) {
        let p = held.index;
        m.let_go();
        if m.spinning.replace(false) {
            self.idle.stop_spinning();
        }
        self.retire(p);
    }

    /// What the P has goes to others. *Runs on: the holder of `p`, which it no longer is after this.*
    #[cold]
    pub(crate) fn retire(&self, p: usize) {
        self.make_work(|| {
            let mut retired = self.retired.lock();
            // The number may have grown meanwhile.
            let next = if self.give_p(p) { NEVER } else { self.retire_locked(p, &mut retired) };
            drop(retired);
            self.timers_moved(next);
        });
        self.serve_waiting(None);
    }

    /// Moves the queue of `p`, which gets no M, to the end of the global queue. *Runs on: the holder of `p`, within
    /// `make_work`, or before a look at the queues (`Idle::withdraw`, `Idle::look_again`).*
    pub(crate) fn move_queue(&self, p: usize) {
        // SAFETY: the caller holds it.
        let held = unsafe { Held::new(self.p(p)) };
        let mut gs = GList::new();
        while let Some(g) = held.queue.pop(0, &mut 0) {
            gs.push(g);
        }
        self.global.append(gs);
    }

    /// Moves what `p` has to where others find it, and returns when its first timer is due, for `timers_moved` without the
    /// lock. *Runs on: the holder of `p` and of the lock.*
    fn retire_locked(&self, p: usize, retired: &mut HashSet<usize>) -> u64 {
        // SAFETY: the caller holds it, and gives it up by calling.
        let held = unsafe { Held::new(self.p(p)) };
        self.move_queue(p);
        self.coros.take_all(held);
        held.own().uncovered.set(false);
        let next = self.heaps.move_all(p, 0);
        held.lease.set_idle();
        retired.insert(p);
        next.unwrap_or(NEVER)
    }
}
