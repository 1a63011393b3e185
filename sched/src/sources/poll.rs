//! Polling the network, and making sure that some thread watches the next timer. An M polls briefly
//! (`poll_now`) or blocks until an event or a timer (`wait_for_events`, which `find.rs` calls).
//! `ensure_watcher` serves an M that is about to run a G: another M then blocks in the netpoller, or sysmon
//! looks.

use std::time::Duration;

use netpoll::{Turn, Waiter, WakeBy};
use timers::clock;

use crate::g::list::GList;
use crate::g::wait::{Decision, Outcome};
use crate::g::{GRef, Ticket};
use crate::m::OwnM;
use crate::notes::events::{At, Finds, on_delay};
use crate::p::event::By;
use crate::p::{GLOBAL_FIRST, Held};
use crate::run::sched::Sched;
use crate::sources::net_wakers::{self, is_future};

/// A wait for the network that is shorter than this was not worth the cost of waking.
pub(crate) const QUICK_NS: u64 = 50_000;
/// How many events a P takes at once if there are other Ps.
const SHARE: usize = 32;

impl Sched {
    /// Polls the network without blocking: the sources near this P, and all others if that woke no G, if they
    /// are overdue, or if `everywhere`. Returns `true` if it woke a G.
    ///
    /// A P takes its share of the events, and looks again when it has run the woken Gs in its queue. So other
    /// Ps take the next events, and no event is served long before an earlier one.
    pub(crate) fn poll_now(&self, m: OwnM<'_>, held: Held<'_>, everywhere: bool) -> bool {
        if !self.netpoll.has_sources() {
            return false;
        }
        let mut ready = m.own().ready.borrow_mut();
        let now = clock::now();
        let mut more = false;
        // A P that is alone now leaves what is still near it to the poll below.
        if self.procs() > 1
            && let Some(near) = self.poll_near(held, now, &mut ready)
        {
            more = near.more;
        }
        let overdue = Sched::overdue(now);
        if (everywhere || ready.is_empty() || self.netpoll.last_poll() < overdue)
            && let Some(polled) = self.netpoll.poll_now(self.share(), overdue, &mut ready)
        {
            more |= polled.more;
            self.netpoll.polled(now);
        }
        if ready.is_empty() && !more {
            return false;
        }
        let woken = self.woken_gs(&mut ready);
        held.counters.net_wakes.add(woken.len() as u64);
        let any = !woken.is_empty();
        held.on_finds(Finds::Woken(woken.len()));
        self.ready_all(held, woken, By::Network);
        if more {
            // Not before the Gs that wait here already have run: a long queue would stay long.
            held.looks_after((held.queue.woken_len() as u32).clamp(1, GLOBAL_FIRST));
        }
        any
    }

    /// Returns how many events a P takes at once.
    fn share(&self) -> usize {
        if self.procs() == 1 { usize::MAX } else { SHARE }
    }

    /// Blocks in the netpoller until an event, a break or `until`, and returns the Gs to run. *Runs on: `m`,
    /// without a P.*
    pub(crate) fn wait_for_events(&self, m: OwnM<'_>, mut turn: Turn<'_>, until: u64) -> GList {
        turn.at_most(self.share());
        let mut ready = m.own().ready.borrow_mut();
        let start = clock::now();
        let ahead = until.saturating_sub(start);
        let lead = self.lead.of(ahead);
        let timeout = if until == clock::NEVER { None } else { Some(Duration::from_nanos(ahead - lead)) };
        if let Err(error) = self.block_in_turn(m, turn, until, timeout, &mut ready) {
            self.report_once(&format!("the netpoller cannot wait: {error}; was its descriptor closed?"));
        }
        let mut now = clock::now();
        let asked = start + (ahead - lead);
        // True only if the time-out ended the wait, not an event or a break.
        if ready.is_empty() && timeout.is_some() && now >= asked {
            self.lead.learn(ahead, now - asked);
            while now < until {
                std::hint::spin_loop();
                now = clock::now();
            }
        }
        m.own().network_is_quick.set(!ready.is_empty() && now - start < QUICK_NS);
        self.netpoll.polled(now);
        self.sysmon.record_time(now);
        self.woken_gs(&mut ready)
    }

    /// Polls the network for sysmon when no M has polled for long. *Runs on: a thread without a P.*
    pub(crate) fn poll_from_outside(&self) {
        let mut ready = Vec::new();
        // Also what is near any P.
        if self.netpoll.poll_now(usize::MAX, u64::MAX, &mut ready).is_none() {
            return;
        }
        self.netpoll.polled(clock::now());
        let woken = self.woken_gs(&mut ready);
        if !woken.is_empty() {
            self.ready_all_globally(woken, By::Network);
        }
    }

    /// Closes the netpoller, because no M will poll any more: waiters of other runtimes are woken. *Runs on:
    /// the closer.*
    pub(crate) fn close_netpoll(&self) {
        let mut ready = Vec::new();
        self.netpoll.close_all(&mut ready);
        // No wait of this runtime is among them: its Gs have ended, or will not run again.
        self.global.append(self.woken_gs(&mut ready));
    }

    /// Makes sure that an M blocks in the netpoller until the next timer, or that sysmon looks by then if no
    /// P is idle. The caller is about to run a G, which may compute for any length of time. *Runs on: the
    /// holder of the P.*
    ///
    /// The caller checks `Own::lacks_watcher`, which is set when this M has left the netpoller or a promise
    /// to look, or has added a timer. An adder of a timer does not call this. So the M of a G that sleeps
    /// alone is back in the netpoller at once and wakes no second M.
    #[cold]
    pub(crate) fn ensure_watcher(&self, held: Held<'_>) {
        let all = held.own().is_uncovered();
        held.own().set_covered();
        if self.is_simulated() {
            return;
        }
        // A runtime may have a thousand Ps, so an added timer is no reason to look at all of them.
        let next = if all { self.heaps.time_sleep_until() } else { self.heaps.earliest(held.index) };
        if next == clock::NEVER && !self.netpoll.has_sources() {
            return;
        }
        if self.wake_by_timer(next) == WakeBy::NobodyBlocks {
            if self.idle.idle_ps() == 0 {
                self.sysmon.timer_at(next);
            } else {
                self.wake_to_watch();
            }
            on_delay(At::P(held));
        }
    }

    /// Wakes a parked M to block in the netpoller. That M gets no P and does not spin, because it only has to
    /// wait.
    fn wake_to_watch(&self) {
        // At most one M at a time, as in `wake_idle_p`. The M looks for work before it blocks, as the
        // spinning promise demands.
        if !self.idle.no_m_spins() || !self.idle.start_spinning_alone() {
            return;
        }
        match self.idle.unpark() {
            Some(m) => {
                m.m().sleep.watch();
            }
            None => {
                self.idle.stop_spinning();
                self.wake_idle_p();
            }
        }
    }

    /// Makes a thread that sleeps look at the timers by `when`. The caller has made a timer for `when`
    /// visible. `NobodyBlocks` says that no thread watches the network. *Runs on: any thread.*
    fn wake_by_timer(&self, when: u64) -> WakeBy {
        self.netpoll.wake_by(if self.alarm.serves(when) { clock::NEVER } else { when })
    }

    /// Leaves the timers to a thread that sleeps: to the M that blocks in the netpoller, or is about to. If
    /// that M sleeps for longer, `m` sets the alarm. *Runs on: `m`, which then parks.*
    pub(crate) fn leave_timers(&self, m: OwnM<'_>) {
        let look_at = self.look_for_deadlock_at();
        if look_at != clock::NEVER {
            self.netpoll.wake_by(look_at);
        }
        let next = self.heaps.time_sleep_until();
        let needs_alarm = self.netpoll.blocks_beyond(next) && !self.alarm.serves(next);
        if needs_alarm && self.alarm.set(next) {
            m.own().alarm.set(Some(next));
        } else {
            self.wake_by_timer(next);
        }
    }

    /// Makes sure that a timer for `when` is watched; its adder runs on afterwards (Go: `wakeNetPoller`).
    /// *Runs on: any thread.*
    pub(crate) fn timer_was_added(&self, when: u64) {
        if self.is_simulated() {
            return;
        }
        if self.wake_by_timer(when) == WakeBy::NobodyBlocks {
            if self.idle.idle_ps() == 0 {
                self.sysmon.timer_at(when);
            } else {
                self.wake_idle_p();
            }
        }
    }

    /// Returns the Gs of this runtime with a network wait that is over. Makes other waiters runnable where
    /// they belong. These are plain OS threads, Gs parked in place, and Gs of other runtimes that use a
    /// socket of this one.
    pub(crate) fn woken_gs(&self, ready: &mut Vec<Waiter>) -> GList {
        let mut gs = GList::new();
        for waiter in ready.drain(..) {
            match waiter.word() {
                word if is_future(word) => {
                    if let Some(waker) = net_wakers::take(word) {
                        self.wake_by(waker, By::Network, &mut gs);
                    }
                }
                word => {
                    if let Some(g) = Ticket::from_word(word).and_then(decide) {
                        self.ready_in_list(g, By::Network, &mut gs);
                    }
                }
            }
        }
        gs
    }
}

/// Decides the wait as woken. Returns its G if it was parked: the caller makes the G runnable.
fn decide(ticket: Ticket) -> Option<GRef> {
    let Ticket { g, number } = ticket;
    (g.wait.decide(number, Outcome::Woken) == Decision::Parked).then_some(g)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use netpoll::net::UdpSocket;
    use timers::clock;

    use crate::api::{park, sleep};
    use crate::run::boundary::enter;
    use crate::run::sched::Sched;
    use crate::supply::threads::tests::{config, scheduler, spawn_in};

    /// Polls on a P while so many sockets have an event and all other Ps compute, until the P is to look at
    /// the network again soon. Returns after how many rounds.
    fn rounds_after_a_poll(ps: usize, sockets: usize, attempts: usize) -> u32 {
        let sched = scheduler(ps);
        let end = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (1..ps)
            .map(|_| {
                let end = end.clone();
                spawn_in(&sched, move || while !end.load(Ordering::Relaxed) {})
            })
            .collect();
        let rounds = Arc::new(AtomicU32::new(0));
        let (here, found) = (sched.clone(), rounds.clone());
        let polls = spawn_in(&sched, move || {
            while here.idle.idle_ps() > 0 {
                park::yield_now();
            }
            let entered = enter().unwrap();
            let (m, held) = (entered.m(), entered.held().unwrap());
            let mut least = 1000;
            // Another thread may take the events of one attempt.
            for _ in 0..attempts {
                // A new socket is reported as writable.
                let socket = |_| {
                    let mut socket = UdpSocket::bind("127.0.0.1:0".parse().unwrap()).unwrap();
                    (here.netpoll.register(&mut socket).unwrap(), socket)
                };
                let _sockets: Vec<_> = (0..sockets).map(socket).collect();
                held.looks_after(1000);
                here.poll_now(m, held, true);
                let looks = |n: &u32| held.looks_in(held.round().wrapping_add(*n));
                least = least.min((1..=1000).find(looks).unwrap());
                if least < 1000 {
                    break;
                }
            }
            found.store(least, Ordering::Relaxed);
        });
        polls.join().unwrap();
        end.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
        rounds.load(Ordering::Relaxed)
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri does not switch stacks")]
    #[cfg_attr(kqueue_model, ignore = "the model of kqueue returns fewer events than it may")]
    fn a_p_that_leaves_events_to_other_ps_looks_again_soon() {
        assert_eq!(rounds_after_a_poll(2, 40, 1000), 1, "no G waits");
        assert_eq!(rounds_after_a_poll(2, 8, 3), 1000, "it has taken all");
        assert_eq!(rounds_after_a_poll(1, 40, 3), 1000, "it is alone");
    }

    /// The test's thread has the netpoller, until a time that never comes. So each timer that is reported
    /// breaks its wait. The only P is never idle, so only `ensure_watcher` reports timers.
    #[test]
    fn the_netpoller_is_told_of_the_first_timer_of_a_heap_and_of_no_later_one() {
        let sched = Sched::new(config(1)).unwrap();
        let mut turn = sched.netpoll.begin_block().unwrap();
        turn.publish(clock::NEVER);
        sched.start().unwrap();
        let here = sched.clone();
        let main = spawn_in(&sched, move || {
            let breaks = || {
                let counters = here.netpoll.counters();
                counters.breaks_written + counters.breaks_saved
            };
            park::yield_now();
            for (seconds, told) in [(3600, true), (7200, false), (3700, false), (1800, true), (1900, false)] {
                let before = breaks();
                // Sleeps while this thread yields.
                drop(spawn_in(&here, move || sleep::sleep(Duration::from_secs(seconds))));
                park::yield_now();
                assert_eq!(breaks() > before, told, "a sleep of {seconds} s");
            }
        });
        main.join().unwrap();
        drop(turn);
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }
}
