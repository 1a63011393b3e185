//! The network and the clock, seen from the scheduler: who watches them while Gs run.

use std::ptr;
use std::task::Waker;
use std::time::Duration;

use netpoll::{Turn, Waiter, WakeBy};
use timers::clock;

use crate::g::Ticket;
use crate::g::list::GList;
use crate::g::wait::{Decision, Outcome};
use crate::m::M;
use crate::net_wakers::{self, is_future};
use crate::p::Held;
use crate::sched::Sched;
use crate::wake;

/// A wait for the network that is shorter than this, with what waking costs, was not worth while.
const QUICK_NS: u64 = 50_000;

impl Sched {
    /// Takes what the network has, without blocking; true if it woke a G. *Runs on: the holder of the P.*
    pub(crate) fn poll_now(&self, m: &M, held: Held<'_>) -> bool {
        if !self.netpoll.has_sources() {
            return false;
        }
        let mut ready = m.ready.borrow_mut();
        if self.netpoll.poll_now(&mut ready).is_none() {
            return false;
        }
        self.netpoll.polled(clock::now());
        let woken = self.woken_gs(&mut ready);
        held.counters.net_wakes.add(woken.len() as u64);
        let any = !woken.is_empty();
        self.ready_all(held, woken);
        any
    }

    /// Blocks in the netpoller. *Runs on: `m`, without a P.*
    pub(crate) fn wait_for_events(&self, m: &M, turn: Turn<'_>, until: u64) -> GList {
        let mut ready = m.ready.borrow_mut();
        let start = clock::now();
        let ahead = until.saturating_sub(start);
        let lead = self.lead.of(ahead);
        let timeout = if until == clock::NEVER { None } else { Some(Duration::from_nanos(ahead - lead)) };
        if let Err(error) = turn.block(until, timeout, &mut ready) {
            self.report_once(&format!("the netpoller cannot wait: {error}; was its descriptor closed?"));
        }
        let mut now = clock::now();
        let asked = start + (ahead - lead);
        // Else it is an event, or a break, that ended the wait.
        if ready.is_empty() && timeout.is_some() && now >= asked {
            self.lead.learn(ahead, now - asked);
            while now < until {
                std::hint::spin_loop();
                now = clock::now();
            }
        }
        m.network_is_quick.set(!ready.is_empty() && now - start < QUICK_NS);
        self.netpoll.polled(now);
        self.watch.it_is(now);
        self.woken_gs(&mut ready)
    }

    /// Sysmon's poll, when nobody else has for long. *Runs on: a thread without a P.*
    pub(crate) fn poll_from_outside(&self) {
        let mut ready = Vec::new();
        if self.netpoll.poll_now(&mut ready).is_none() {
            return;
        }
        self.netpoll.polled(clock::now());
        let woken = self.woken_gs(&mut ready);
        if !woken.is_empty() {
            self.make_work(|| self.global.append(woken));
        }
    }

    /// Nobody polls any more: those of other runtimes who wait here are told. *Runs on: whoever shuts down.*
    pub(crate) fn close_netpoll(&self) {
        let mut ready = Vec::new();
        self.netpoll.close_all(&mut ready);
        // None of this runtime's waits: they have ended, or will not run any more.
        self.global.append(self.woken_gs(&mut ready));
    }

    /// Makes sure that an M blocks in the netpoller until the next timer, or that sysmon looks by then if no P is idle. The
    /// caller is about to run a G, which may compute for any length of time. *Runs on: the holder of the P.*
    ///
    /// It is called only if `Own::uncovered` is set: this M has left the netpoller or a promise to look, or has added a timer.
    /// An adder of a timer does not do this itself: the M of a green thread that sleeps alone is back in the netpoller at once,
    /// and wakes no second M.
    #[cold]
    pub(crate) fn cover(&self, held: Held<'_>) {
        held.own().uncovered.set(false);
        let next = self.heaps.time_sleep_until();
        if next == clock::NEVER && !self.netpoll.has_sources() {
            return;
        }
        if self.netpoll.wake_by(next) == WakeBy::NobodyBlocks {
            if self.idle.idle_ps() == 0 {
                self.watch.timer_at(next);
            } else {
                self.wake_to_watch();
            }
        }
    }

    /// Has a parked M block in the netpoller. It gets no P and spins for nothing: all that it shall do is to wait.
    fn wake_to_watch(&self) {
        // One at a time, as with `wake_idle_p`; and it looks for work before it waits, as those do who spin.
        if !self.idle.nobody_spins() || !self.idle.start_spinning_alone() {
            return;
        }
        match self.idle.unpark() {
            Some(m) => {
                m.m().hand_watch();
                m.m().note.wake();
            }
            None => {
                self.idle.stop_spinning();
                self.wake_idle_p();
            }
        }
    }

    /// A timer was added for `when` by code that goes on running (Go: `wakeNetPoller`). *Runs on: any thread.*
    pub(crate) fn timer_was_added(&self, when: u64) {
        if self.netpoll.wake_by(when) == WakeBy::NobodyBlocks {
            if self.idle.idle_ps() == 0 {
                self.watch.timer_at(when);
            } else {
                self.wake_idle_p();
            }
        }
    }

    /// The Gs of this runtime whose waits for the network are over. Others have been made runnable where they belong: a
    /// plain thread, a G parked in place, a G of another runtime that uses a socket of this one's.
    fn woken_gs(&self, ready: &mut Vec<Waiter>) -> GList {
        let mut gs = GList::new();
        for waiter in ready.drain(..) {
            let ticket = match waiter.word() {
                word if is_future(word) => {
                    net_wakers::take(word).and_then(|waker| self.ticket_of(waker, &mut gs))
                }
                word => Ticket::from_word(word),
            };
            let Some(Ticket { g, number }) = ticket else { continue };
            if g.wait.decide(number, Outcome::Woken) != Decision::Parked || wake::is_elsewhere(g) {
                continue;
            }
            if ptr::eq(g.owner(), self) {
                gs.push(g);
            } else {
                wake::ready_globally(g);
            }
        }
        gs
    }

    /// The wait that the waker of a green thread ends. Any other one is user code: a green thread that calls it goes to
    /// `gs`.
    fn ticket_of(&self, waker: Waker, gs: &mut GList) -> Option<Ticket> {
        match wake::ticket_of(&waker) {
            Some(ticket) => ticket,
            None => {
                if let Some(g) = self.g_that_calls(waker) {
                    gs.push(g);
                }
                None
            }
        }
    }
}
