//! How an M looks for a G, place by place, and how it goes to sleep without leaving a G behind.
//!
//! The order of the places, and the steps before sleep, are in [`Sched::find_runnable`]. `idle.rs` has the
//! protocol by which no work is stranded.

use std::time::Duration;

use netpoll::Turn;
use timers::clock;

use crate::asleep::lone_watch::{self, Found, LoneWatch};
use crate::asleep::rest::SleepKind;
use crate::asleep::wish::Wish;
use crate::g::GRef;
use crate::g::list::GList;
use crate::m::{MRef, OwnM};
use crate::notes::events::{At, Does, Finds, Left, on_delay};
use crate::p::event::By;
use crate::p::{Held, P};
use crate::run::sched::Sched;

/// What an M does after its sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It looks for work again.
    Look,
    /// It watches the network and the timers.
    Watch,
    /// Its thread ends.
    End,
}

/// How long an M looks at the other Ps before it goes to sleep: about as long as waking it again would take.
const SPIN_NS: u64 = 5_000;
/// The same while the network keeps the M busy. Two Ms that sleep and wake each other many times per
/// millisecond soon run on one processor. There each waits for the end of the other's slice.
const SPIN_NET_NS: u64 = 20_000;
/// How long an M keeps its P while other Ms are in line for a P.
const TURN_NS: u64 = 1_000_000;

impl Sched {
    /// Returns the next G to run, with a P to run it; blocks until there is one. Returns `None` if the M is
    /// to end. *Runs on: `m`, on its own stack.*
    pub(crate) fn find_runnable(&self, m: OwnM<'_>) -> Option<GRef> {
        loop {
            if self.is_exiting() {
                return None;
            }
            let Some(held) = m.held() else {
                self.roaming.end(m);
                if m.is_reserved() {
                    self.run_bound_gs(m);
                    continue;
                }
                let then = self.wait_for_p(m);
                if self.goes_on(m, then) {
                    continue;
                }
                return None;
            };
            if self.is_surplus(held) {
                self.retire_from(m, held);
                continue;
            }
            if self.idle.any_wanting() && self.give_p_to_m_in_line(m, held) {
                continue;
            }
            let found = self.next_g(m, held).or_else(|| {
                on_delay(At::P(held));
                self.polled_g(m, held).or_else(|| self.stolen_g(m, held))
            });
            if let Some(g) = found {
                self.stop_searching(m, held);
                return Some(g);
            }
            // The M stays awake while many stopped timers lie in the heap of its P: each round removes a part
            // of them.
            if self.heaps.tidy(held.index) {
                continue;
            }
            let then = self.rest(m, held);
            if !self.goes_on(m, then) {
                return None;
            }
        }
    }

    /// Returns `true` if the M is to look for work again; watches first if `then` says so.
    fn goes_on(&self, m: OwnM<'_>, mut then: Then) -> bool {
        while then == Then::Watch {
            then = self.rest_without_p(m);
        }
        then == Then::Look
    }

    fn polled_g(&self, m: OwnM<'_>, held: Held<'_>) -> Option<GRef> {
        self.poll_station(m);
        self.take_turns(m);
        if self.poll_now(m, held, false) {
            if let Some(g) = held.queue.pop(1, &mut 0) {
                return Some(g);
            }
            on_delay(At::P(held));
        }
        m.home.pop()
    }

    /// Gives the P to the first M in line, if this M has had the P for long. The M in line has Gs that only
    /// it may run. Returns `false` if this M keeps the P.
    #[cold]
    fn give_p_to_m_in_line(&self, m: OwnM<'_>, held: Held<'_>) -> bool {
        let now = clock::now();
        if m.own().since.get() == 0 {
            m.own().since.set(now);
        }
        if now - m.own().since.get() < TURN_NS {
            return false;
        }
        let Some(next) = self.idle.take_wanting() else { return false };
        let p = held.index;
        self.publish_handed(held);
        held.on_p_left(Left::HandedOff);
        m.give_up(held);
        if m.own().spinning.replace(false) {
            self.idle.stop_spinning();
        }
        next.m().sleep.hand(p);
        true
    }

    /// Looks at the other Ps and at the network, in rounds of random order, until the M has spun for long
    /// enough. The last round also takes run-next slots and due timers (Go: `stealWork`).
    fn stolen_g(&self, m: OwnM<'_>, held: Held<'_>) -> Option<GRef> {
        let ps = self.made();
        if ps == 1 || !(m.own().spinning.get() || self.idle.start_spinning(self.procs())) {
            return None;
        }
        m.own().spinning.set(true);
        let takes_lone = m.own().takes_lone.take();
        m.own().left_lone.set(false);
        let start = clock::now();
        let enough = if m.own().network_is_quick.get() { SPIN_NET_NS } else { SPIN_NS };
        loop {
            let now = clock::now();
            let last = now - start >= enough;
            let g = self.steal_round(m, held, ps, last.then_some(now), takes_lone);
            if let Some(g) = g.or_else(|| m.home.pop()) {
                return Some(g);
            }
            if last || self.is_exiting() {
                // The network was not quick this time; the wait that follows decides anew.
                m.own().network_is_quick.set(false);
                return None;
            }
            if let Some(g) = self.between_rounds(m, held) {
                return Some(g);
            }
        }
    }

    /// Pauses between two rounds of stealing; while the network keeps the M busy, polls the network instead.
    fn between_rounds(&self, m: OwnM<'_>, held: Held<'_>) -> Option<GRef> {
        if !m.own().network_is_quick.get() {
            (0..32).for_each(|_| std::hint::spin_loop());
            return None;
        }
        // The sender may be another process that needs this very processor.
        crate::sys::yield_thread();
        self.polled_g(m, held)
    }

    fn steal_round(
        &self,
        m: OwnM<'_>,
        held: Held<'_>,
        ps: usize,
        last_at: Option<u64>,
        takes_lone: bool,
    ) -> Option<GRef> {
        let first = held.own().random_below(ps);
        for victim in self.awake_ps(first).filter(|p| p.index != held.index) {
            let before = held.queue.len();
            if !takes_lone && self.leaves_lone_g(m, victim) {
                continue;
            }
            if let Some(g) = victim.queue.steal(&held.queue, takes_lone || last_at.is_some()) {
                held.counters.steals.one();
                // Thieves may have taken some of these again.
                held.counters.stolen.add(1 + held.queue.len().saturating_sub(before) as u64);
                held.on_finds(Finds::Stolen(g, victim));
                return Some(g);
            }
        }
        if let Some(g) = last_at.and_then(|now| self.due_elsewhere(held, now)) {
            return Some(g);
        }
        self.global.pop_batch(ps, |g| held.queue.put_woken(g))
    }

    /// Fires the timers of other Ps that are due at `now`, until one of them wakes a G.
    fn due_elsewhere(&self, held: Held<'_>, now: u64) -> Option<GRef> {
        for p in self.heaps.due(now).filter(|&p| p != held.index) {
            let mut woken = GList::new();
            self.fire_timers(held, p, now, &mut woken);
            self.ready_all(held, woken, By::Timer);
            if let Some(g) = held.queue.pop(1, &mut 0) {
                return Some(g);
            }
            on_delay(At::P(held));
        }
        None
    }

    /// Records that the M has a G to run. If it had promised to look, it looks once more for work that has
    /// come since.
    #[inline]
    fn stop_searching(&self, m: OwnM<'_>, held: Held<'_>) {
        if m.own().spinning.replace(false) {
            if self.idle.withdraw(true, || self.any_work()) {
                self.wake_idle_p();
            }
            // A thread that added a timer before the withdrawal woke no M, because this M had promised to
            // look.
            held.own().set_uncovered();
        }
    }

    /// As `any_g_waits`, but while an M watches over lone Gs, these do not count.
    pub(crate) fn any_work(&self) -> bool {
        match self.idle.is_watched() {
            true => !self.global.is_empty() || self.awake_ps(0).any(|p| p.queue.len() > 1),
            false => self.any_g_waits(),
        }
    }

    /// Puts the M to sleep: gives its P up, looks once more, and then waits for the network and the timers,
    /// or parks.
    fn rest(&self, m: OwnM<'_>, held: Held<'_>) -> Then {
        let p = held.p();
        self.events.on_m(m, Does::Idles(held));
        m.give_up(held);
        self.put_idle(p.index);
        self.rest_without_p(m)
    }

    fn rest_without_p(&self, m: OwnM<'_>) -> Then {
        self.begin_watch(m);
        if self.idle.withdraw(m.own().spinning.replace(false), || self.any_work()) {
            self.take_p_to_look(m);
            self.end_watch(m);
            return Then::Look;
        }
        match self.turn_to_block() {
            Some(turn) => {
                self.end_watch(m);
                self.block_in_netpoll(m, turn);
                Then::Look
            }
            None => {
                self.leave_timers(m);
                self.park_m(m)
            }
        }
    }

    /// Takes an idle P if there is one, and promises to look for work. *Runs on: `m`, without a P.*
    fn take_p_to_look(&self, m: OwnM<'_>) {
        if self.take_idle_p(m).is_some() {
            self.idle.count_spinning();
            m.own().spinning.set(true);
        }
    }

    /// Returns the right to wait for the network; `None` if another M has it, or if Ms are to end. *Runs on:
    /// an M without a P.*
    pub(crate) fn turn_to_block(&self) -> Option<Turn<'_>> {
        // The netpoller keeps a break for the M that has the turn, so the wake-up in `Closing::exit` is not
        // lost.
        let (turn, exiting) = self.closing.then_check_exit(|| self.netpoll.begin_block());
        turn.filter(|_| !exiting)
    }

    /// Blocks as the one M that waits for the network and for the next timer of all Ps, until the M is
    /// needed.
    fn block_in_netpoll<'s>(&'s self, m: OwnM<'_>, mut turn: Turn<'s>) {
        loop {
            let Some(woken) = self.block_once(m, turn) else { return };
            if !woken.is_empty() || self.has_something_to_do(m) {
                return self.return_from_netpoll(m, woken);
            }
            // The M was woken only to learn of an earlier timer. For the recorder, it goes on to sleep.
            match self.turn_to_block() {
                Some(again) => turn = again,
                None => return,
            }
        }
    }

    /// Returns `true` if an M that waited without a P needs one now. Makers of work look for idle Ps
    /// themselves and do not rely on this.
    fn has_something_to_do(&self, m: OwnM<'_>) -> bool {
        self.is_exiting()
            || !m.home.is_empty()
            || self.heaps.time_sleep_until() <= clock::now()
            || self.any_work()
    }

    /// Blocks once. Returns the Gs that the network has woken; `None` if the M must not sleep now.
    pub(crate) fn block_once(&self, m: OwnM<'_>, mut turn: Turn<'_>) -> Option<GList> {
        let mut look_at = self.look_for_deadlock_at();
        let mut until = self.heaps.time_sleep_until().min(look_at);
        // Publishes its time first and then looks. A thread that adds a timer does the reverse, and so does
        // the last M that gives its P up.
        loop {
            turn.publish(until);
            let look_again = self.look_for_deadlock_at();
            let again = self.heaps.time_sleep_until().min(look_again);
            if again >= until {
                break;
            }
            (look_at, until) = (look_at.min(look_again), again);
        }
        // Of the Gs that are bound to a reserved M, not all may run now.
        let has_work = || if m.is_reserved() { m.has_bound_g() } else { !m.home.is_empty() };
        if !m.sleep.rest.begin(SleepKind::Polls, has_work) {
            return None;
        }
        self.events.on_m(m, Does::Sleeps(SleepKind::Polls));
        let woken = self.wait_for_events(m, turn, until);
        if look_at != clock::NEVER && woken.is_empty() && clock::now() >= look_at {
            // Before `over`: the look counts this M as asleep.
            if let Some(report) = self.look_for_deadlock() {
                self.cancel_mains(&report);
            }
        }
        m.sleep.rest.over();
        Some(woken)
    }

    fn return_from_netpoll(&self, m: OwnM<'_>, woken: GList) {
        let Some(held) = self.take_idle_p(m) else {
            return self.leave_to_busy_ps(m, woken);
        };
        // The M looks for more than the Gs that were woken, so it counts as spinning until it has found work.
        self.idle.count_spinning();
        m.own().spinning.set(true);
        held.counters.net_wakes.add(woken.len() as u64);
        held.on_finds(Finds::Woken(woken.len()));
        self.ready_all(held, woken, By::Network);
        self.steal_due_timers(held);
    }

    /// Makes Gs runnable that the network has woken while all Ps are busy; sysmon makes one of them look at
    /// this work. *Runs on: `m`, which has left the netpoller, without a P.*
    pub(crate) fn leave_to_busy_ps(&self, m: OwnM<'_>, woken: GList) {
        self.events.on_m(m, Does::Wakes);
        self.ready_all_globally(woken, By::Network);
        self.sysmon.wake();
    }

    /// Takes an idle P or that of an M that is being woken, or waits until another thread hands one over.
    /// *Runs on: `m`, without a P.*
    fn wait_for_p(&self, m: OwnM<'_>) -> Then {
        if !m.home.is_empty() {
            return self.get_in_line(m);
        }
        let hold = |p| {
            self.p(p).lease.set_held();
            Wish::Run { p, spinning: false }
        };
        let enter =
            || self.idle.take_or_park(MRef::new(m.shared()), hold, |woken| woken.m().sleep.wish.take_over());
        let (taken, exiting) = self.closing.then_check_exit(enter);
        if m.own().is_coming_spare.replace(false) {
            // The M is in the list of parked Ms, or it was needed at once.
            self.threads.remove_coming_spare();
        }
        match taken {
            Some(wish) => self.fulfil(m, wish),
            None if exiting => Then::End,
            None => self.sleep_until_handed(m),
        }
    }

    /// Takes an idle P, or joins the line for one, because only this M may run the Gs in its own queue. *Runs
    /// on: `m`, without a P.*
    #[cold]
    pub(crate) fn get_in_line(&self, m: OwnM<'_>) -> Then {
        let enter = || self.idle.take_or_want(MRef::new(m.shared()), |p| self.p(p).lease.set_held());
        let (taken, mut exiting) = self.closing.then_check_exit(enter);
        if let Some(p) = taken {
            self.adopt(m, p);
            return Then::Look;
        }
        self.sysmon.work_waits();
        while !exiting {
            match m.sleep.wish.take() {
                Wish::Nothing => m.sleep.note.sleep(),
                wish => return self.fulfil(m, wish),
            }
            exiting = self.is_exiting();
        }
        Then::Look
    }

    /// Sleeps until another M hands `m` its P. *Runs on: `m`. Its G lies in a run queue and waits in place.*
    pub(crate) fn sleep_for_a_p(&self, m: OwnM<'_>) {
        loop {
            // Sleeps first: the note is woken once for the P, and the next sleep must not find that wake-up.
            m.sleep.note.sleep();
            match m.sleep.wish.take() {
                // This wake-up was meant for an earlier sleep.
                Wish::Nothing => {}
                wish => {
                    debug_assert!(matches!(wish, Wish::Run { spinning: false, .. }), "{wish:?}");
                    self.fulfil(m, wish);
                    return;
                }
            }
        }
    }

    /// Parks the M until it is handed a P or has a bound G to run. *Runs on: `m`, without a P, after it has
    /// looked for work.*
    fn park_m(&self, m: OwnM<'_>) -> Then {
        let ((), exiting) = self.closing.then_check_exit(|| self.idle.park(MRef::new(m.shared())));
        if exiting {
            self.end_alarm(m, true);
            return Then::End;
        }
        self.sleep_until_handed(m)
    }

    /// Sleeps until another thread leaves a wish, or a G is put into the M's own queue. *Runs on: `m`, in the
    /// list of parked Ms, where `Closing::exit` finds it.*
    fn sleep_until_handed(&self, m: OwnM<'_>) -> Then {
        debug_assert!(!m.own().spinning.get());
        self.events.on_m(m, Does::Sleeps(SleepKind::Parked));
        let wish = m.sleep.wish.await_in_list(
            m.sleep.rest.begin(SleepKind::Parked, || !m.home.is_empty()),
            || self.sleep_parked(m),
            || self.sleeps_on(m),
            || self.is_exiting() || self.idle.leave(&MRef::new(m.shared())),
        );
        let then = match wish {
            Some(wish) => {
                self.end_alarm(m, matches!(wish, Wish::Run { .. } | Wish::Watch));
                self.fulfil(m, wish)
            }
            None if self.alarm_rings(m) => {
                self.return_from_alarm(m);
                Then::Look
            }
            None => {
                self.end_alarm(m, false);
                if m.own().takes_lone.get() {
                    self.take_p_to_look(m);
                }
                Then::Look
            }
        };
        m.sleep.rest.over();
        self.events.on_m(m, Does::Wakes);
        self.end_watch(m);
        then
    }

    /// Sleeps on the note: until the alarm, if `m` has set it, and until the next look, if `m` watches. May
    /// return early.
    fn sleep_parked(&self, m: OwnM<'_>) {
        let look = m.watches().then_some(lone_watch::LOOK);
        let Some(until) = m.own().alarm.get() else { return self.sleep_on_note(m, look) };
        let start = clock::now();
        let ahead = until.saturating_sub(start);
        let asked = ahead - self.lead.of(ahead);
        let time = Duration::from_nanos(asked);
        if look.is_some_and(|look| look < time) {
            return self.sleep_on_note(m, look);
        }
        self.sleep_on_note(m, Some(time));
        let mut now = clock::now();
        if now >= start + asked {
            self.lead.learn(ahead, now - start - asked);
            while now < until && !m.sleep.note.is_woken() {
                std::hint::spin_loop();
                now = clock::now();
            }
        }
    }

    /// Returns `true` if `m` has set the alarm, and its time has come.
    fn alarm_rings(&self, m: OwnM<'_>) -> bool {
        m.own().alarm.get().is_some_and(|until| until <= clock::now())
    }

    /// Gives the alarm up before its time. If `m` does not go on to look at the timers, another thread does.
    /// *Runs on: `m`, out of the list of parked Ms.*
    fn end_alarm(&self, m: OwnM<'_>, looks: bool) {
        if m.own().alarm.take().is_none() {
            return;
        }
        self.alarm.clear();
        if !looks {
            self.timer_was_added(self.heaps.time_sleep_until());
        }
    }

    /// Fires the timers for which the alarm rings. *Runs on: `m`, without a P, out of the list of parked
    /// Ms.*
    fn return_from_alarm(&self, m: OwnM<'_>) {
        self.end_alarm(m, true);
        let Some(held) = self.take_idle_p(m) else {
            // All Ps are busy: sysmon looks at the timers from now on.
            return self.sysmon.wake();
        };
        // The M looks for more than the timers, so it counts as spinning until it has found work.
        self.idle.count_spinning();
        m.own().spinning.set(true);
        self.steal_due_timers(held);
    }

    /// Begins a watch if this M has left a lone G in its search, and no other M watches. *Runs on: `m`, which
    /// has promised to look for work.*
    fn begin_watch(&self, m: OwnM<'_>) {
        // Windows ends a sleep with a tick of its clock, each 1 to 16 ms.
        if m.own().left_lone.replace(false) && !cfg!(windows) && self.idle.begin_watch() {
            m.own().watch.replace(Some(LoneWatch::new()));
        }
    }

    /// Ends the watch of `m`, if it watches. Wakes an M if there is work for which none was woken, and `m`
    /// has not promised to look. *Runs on: `m`.*
    fn end_watch(&self, m: OwnM<'_>) {
        if m.own().watch.take().is_some()
            && self.idle.end_watch(|| self.any_g_waits())
            && !m.own().spinning.get()
        {
            self.wake_idle_p();
        }
    }

    /// Returns `true` if a lone G waits at `victim`, and that P makes rounds: it will soon come to the G.
    /// *Runs on: `m`, which looks for work.*
    pub(crate) fn leaves_lone_g(&self, m: OwnM<'_>, victim: &P) -> bool {
        if victim.queue.len() != 1 {
            return false;
        }
        let rounds = victim.rounds();
        // About a microsecond.
        (0..32).for_each(|_| std::hint::spin_loop());
        let leaves = victim.rounds() != rounds;
        if leaves {
            m.own().left_lone.set(true);
        }
        leaves
    }

    /// Looks for lone Gs if `m` watches over them. Returns `true` if it is to sleep on: it watches, or its
    /// alarm does not ring yet. *Runs on: as `sleep_until_handed`.*
    fn sleeps_on(&self, m: OwnM<'_>) -> bool {
        if self.is_exiting() || !m.home.is_empty() || self.alarm_rings(m) {
            return false;
        }
        let look = |watch: &mut LoneWatch| watch.note(self.ps().map(|p| (!p.queue.is_empty(), p.rounds())));
        let found = m.own().watch.borrow_mut().as_mut().map(look);
        match found {
            None => return m.own().alarm.get().is_some(),
            Some(Found::Nothing) => {}
            Some(Found::Late) => {
                m.own().takes_lone.set(true);
                return false;
            }
            Some(Found::Quiet) => self.end_watch(m),
        }
        true
    }

    /// Does what the wish asks for. *Runs on: `m`, without a P.*
    pub(crate) fn fulfil(&self, m: OwnM<'_>, wish: Wish) -> Then {
        match wish {
            Wish::Nothing => {}
            Wish::GoOn => debug_assert!(false, "an M that stands in a list has no G parked in place"),
            Wish::End => return Then::End,
            Wish::Watch => {
                m.own().spinning.set(true);
                return Then::Watch;
            }
            Wish::Run { p, spinning } => {
                self.adopt(m, p);
                m.own().spinning.set(spinning);
            }
        }
        Then::Look
    }
}
