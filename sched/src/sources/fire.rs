//! Firing the timers that are due: those of the own P, those stolen from other Ps, and what each of them
//! ends.

use timers::{Checked, clock};

use crate::g::list::GList;
use crate::notes::events;
use crate::p::Held;
use crate::p::event::By;
use crate::p::gate::Reading;
use crate::run::sched::Sched;
use crate::run::wake;
use crate::timer::entry::Fired;

impl Sched {
    /// Fires the due timers of this P. Reads the clock only if a timer may be due.
    #[inline(always)]
    pub(crate) fn run_own_timers(&self, held: Held<'_>) {
        if self.may_have_due_timers(held) {
            self.check_own_timers(held);
        }
    }

    /// Returns `true` if a timer of this P may be due.
    #[inline(always)]
    pub(crate) fn may_have_due_timers(&self, held: Held<'_>) -> bool {
        let next = self.heaps.earliest(held.index);
        next != clock::NEVER && !held.own().gate.is_shut(next)
    }

    #[inline(never)]
    fn check_own_timers(&self, held: Held<'_>) {
        let now = Reading::now();
        self.sysmon.record_time(now.ns);
        let mut woken = GList::new();
        let checked = self.fire_timers(held, held.index, now.ns, &mut woken);
        if checked.more {
            // The rest of the due timers comes in the next round.
            held.own().gate.open();
        } else {
            held.own().gate.shut(now, checked.next);
        }
        self.ready_all(held, woken, By::Timer);
    }

    /// Fires the due timers in the heap of P `of`, and collects the Gs to run in `woken`.
    pub(crate) fn fire_timers(&self, held: Held<'_>, of: usize, now: u64, woken: &mut GList) -> Checked {
        let mut fired = 0;
        let first = if events::are_recorded() { self.heaps.earliest(of) } else { clock::NEVER };
        let lateness = &held.measured.lateness;
        let checked = self.heaps.check(of, now, of == held.index, &mut |timer, seq, when| {
            fired += 1;
            // A timer never fires early.
            lateness.add(now.wrapping_sub(when), 1);
            match timer.fire(seq) {
                Fired::Nothing => {}
                Fired::G(g) => {
                    if !wake::wake_if_unqueueable(g, By::Timer) {
                        woken.push(g);
                    }
                }
                Fired::Waker(waker) => self.wake_by(waker, By::Timer, woken),
                Fired::Func(user) => {
                    if let Some(g) = self.g_that_runs(held, user) {
                        woken.push(g);
                    }
                }
            }
        });
        held.on_finds(events::Finds::Due { of, fired, first, now });
        if of != held.index {
            held.counters.timers_stolen.add(fired);
        }
        checked
    }

    /// Fires the due timers of all Ps.
    pub(crate) fn steal_due_timers(&self, held: Held<'_>) {
        if self.heaps.time_sleep_until() == clock::NEVER {
            return;
        }
        let now = clock::now();
        let mut woken = GList::new();
        for p in self.heaps.due(now) {
            self.fire_timers(held, p, now, &mut woken);
        }
        self.ready_all(held, woken, By::Timer);
    }
}

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(portable)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::{Arc, mpsc};
    use std::time::{Duration, Instant};

    use crate::api::{park, sleep};
    use crate::supply::threads::tests::{scheduler, spawn_in};
    use crate::sys;

    /// One P, no sysmon: a green thread yields all the time and makes the counter jump while another one
    /// sleeps.
    #[test]
    fn sleeps_end_in_time_while_the_counter_jumps() {
        let sched = scheduler(1);
        let stop = Arc::new(AtomicBool::new(false));
        let stops = stop.clone();
        let jumping = spawn_in(&sched, move || {
            let mut last = Instant::now();
            let mut jumps = [1 << 40, 1_u64.wrapping_neg() << 41, 1 << 50, 1_u64.wrapping_neg() << 50]
                .into_iter()
                .cycle();
            while !stops.load(Relaxed) {
                park::yield_now();
                if last.elapsed() > Duration::from_micros(30_300) {
                    sys::SKEW.fetch_add(jumps.next().unwrap(), Relaxed);
                    last = Instant::now();
                }
            }
        });
        let (told, tells) = mpsc::channel();
        let sleeping = spawn_in(&sched, move || {
            for _ in 0..400 {
                let start = Instant::now();
                sleep::sleep(Duration::from_millis(1));
                told.send(start.elapsed()).unwrap();
            }
        });
        for i in 0..400 {
            let slept = tells.recv_timeout(Duration::from_secs(20));
            let slept = slept.unwrap_or_else(|_| panic!("sleep {i} does not end"));
            assert!(slept < Duration::from_secs(5), "sleep {i} lasted {slept:?}");
        }
        stop.store(true, Relaxed);
        jumping.join().unwrap();
        sleeping.join().unwrap();
        assert!(sched.begin_closing() && sched.cancel_all(None));
        sched.end_threads();
    }
}
