//! Where an M looks for a G, in order, and how it goes to sleep without leaving one behind.

use std::sync::atomic::Ordering;

use netpoll::Turn;
use timers::clock;

use crate::g::GRef;
use crate::g::list::GList;
use crate::m::rest::How;
use crate::m::{M, MRef, Wish};
use crate::p::Held;
use crate::sched::Sched;

/// What an M does after it has rested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// It looks for work again.
    Look,
    /// It watches the network and the timers.
    Watch,
    /// Its thread ends.
    End,
}

/// How long an M looks at the other Ps before it rests: about what waking it again would cost.
const SPIN_NS: u64 = 5_000;
/// And for so long while the network keeps it busy: two Ms that sleep and wake each other many times in a millisecond soon find
/// themselves on one processor, where each waits for the end of the other's slice.
const SPIN_NET_NS: u64 = 20_000;
/// An M keeps its P for so long while others have Gs of their own to run.
const TURN_NS: u64 = 1_000_000;

impl Sched {
    /// The next G to run, with a P to run it; blocks until there is one. `None`: the M is to end.
    /// *Runs on: `m`, on its own stack.*
    pub(crate) fn find_runnable(&self, m: &M) -> Option<GRef> {
        loop {
            if self.is_exiting() {
                return None;
            }
            let Some(held) = m.held() else {
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
            if self.idle.any_wanting() && self.pass_on(m, held) {
                continue;
            }
            let found =
                self.next_g(m, held).or_else(|| self.polled_g(m, held)).or_else(|| self.stolen_g(m, held));
            if let Some(g) = found {
                self.found(m, held);
                return Some(g);
            }
            // The M does not rest while the heap of its P has many stopped timers: each round removes a portion of them.
            if self.heaps.tidy(held.index) {
                continue;
            }
            let then = self.rest(m, held);
            if !self.goes_on(m, then) {
                return None;
            }
        }
    }

    /// Whether the M looks for work again, sooner or later.
    fn goes_on(&self, m: &M, mut then: Then) -> bool {
        while then == Then::Watch {
            then = self.rest_without_p(m);
        }
        then == Then::Look
    }

    fn polled_g(&self, m: &M, held: Held<'_>) -> Option<GRef> {
        let found = if self.poll_now(m, held) { held.queue.pop(1, &mut 0) } else { None };
        found.or_else(|| m.home.pop())
    }

    /// Another M has Gs that only it may run: it gets this P, if this M has had the P for long. Returns `false` if this M
    /// keeps it. *Runs on: `m`.*
    #[cold]
    fn pass_on(&self, m: &M, held: Held<'_>) -> bool {
        let now = clock::now();
        if m.since.get() == 0 {
            m.since.set(now);
        }
        if now - m.since.get() < TURN_NS {
            return false;
        }
        let Some(next) = self.idle.take_wanting() else { return false };
        let p = held.index;
        m.let_go();
        if m.spinning.replace(false) {
            self.idle.stop_spinning();
        }
        self.hand_to(next.m(), p, false);
        true
    }

    /// Looks at the other Ps and at the network, round after round in random order, until it has spun for long enough; the
    /// last round also takes run-next slots and due timers (Go: `stealWork`).
    fn stolen_g(&self, m: &M, held: Held<'_>) -> Option<GRef> {
        let ps = self.made();
        if ps == 1 || !(m.spinning.get() || self.idle.start_spinning(self.procs())) {
            return None;
        }
        m.spinning.set(true);
        let start = clock::now();
        let enough = if m.network_is_quick.get() { SPIN_NET_NS } else { SPIN_NS };
        loop {
            let now = clock::now();
            let last = now - start >= enough;
            if let Some(g) = self.steal_round(held, ps, last.then_some(now)).or_else(|| m.home.pop()) {
                return Some(g);
            }
            if last || self.is_exiting() {
                // It was not, this time; the wait that comes now may show otherwise.
                m.network_is_quick.set(false);
                return None;
            }
            if let Some(g) = self.between_rounds(m, held) {
                return Some(g);
            }
        }
    }

    /// Between two rounds of stealing: a pause; or, while the network keeps the M busy, a look at that.
    fn between_rounds(&self, m: &M, held: Held<'_>) -> Option<GRef> {
        if !m.network_is_quick.get() {
            (0..32).for_each(|_| std::hint::spin_loop());
            return None;
        }
        // Who sends what is waited for may be another process, on this very processor.
        std::thread::yield_now();
        self.polled_g(m, held)
    }

    fn steal_round(&self, held: Held<'_>, ps: usize, last_at: Option<u64>) -> Option<GRef> {
        let first = held.own().random_below(ps);
        for victim in (0..ps).map(|i| (first + i) % ps).filter(|&i| i != held.index) {
            let victim = self.p(victim);
            if let Some(g) = victim.queue.steal(&held.queue, last_at.is_some()) {
                held.counters.steals.one();
                return Some(g);
            }
            if let Some(now) = last_at
                && self.heaps.earliest(victim.index) <= now
            {
                let mut woken = GList::new();
                self.fire_timers(held, victim.index, now, &mut woken);
                self.ready_all(held, woken);
                if let Some(g) = held.queue.pop(1, &mut 0) {
                    return Some(g);
                }
            }
        }
        self.global.pop_batch(ps, |g| held.queue.put_woken(g))
    }

    /// It has something to run. If it had promised to look, it looks once more for what came meanwhile.
    #[inline]
    fn found(&self, m: &M, held: Held<'_>) {
        if m.spinning.replace(false) {
            if self.idle.withdraw(true, || self.any_work()) {
                self.wake_idle_p();
            }
            // A thread that added a timer meanwhile woke no M, as this one had promised to look.
            held.own().uncovered.set(true);
        }
    }

    /// Whether a G lies in any queue. *Runs on: any thread; after `Idle::look_again` nothing is missed.*
    pub(crate) fn any_work(&self) -> bool {
        !self.global.is_empty() || self.ps().any(|p| !p.queue.is_empty())
    }

    /// Nothing to run: gives the P up, looks once more, and then waits for the network and the timers, or parks.
    fn rest(&self, m: &M, held: Held<'_>) -> Then {
        let p = held.p();
        m.let_go();
        self.put_idle(p.index);
        self.rest_without_p(m)
    }

    fn rest_without_p(&self, m: &M) -> Then {
        if self.idle.withdraw(m.spinning.replace(false), || self.any_work()) {
            if self.take_idle_p(m).is_some() {
                self.idle.count_spinning();
                m.spinning.set(true);
            }
            return Then::Look;
        }
        match self.turn_to_block() {
            Some(turn) => {
                self.block_in_netpoll(m, turn);
                Then::Look
            }
            None => {
                // Another M waits for the timers, or is about to: it must be back in time for ours.
                self.netpoll.wake_by(self.heaps.time_sleep_until().min(self.look_for_deadlock_at()));
                self.park_m(m)
            }
        }
    }

    /// The right to wait for the network; `None` if another M has that right, or if Ms are to end. *Runs on: an M without a P.*
    fn turn_to_block(&self) -> Option<Turn<'_>> {
        // The netpoller keeps a break for the M that has the turn, so the wake-up in `Closing::exit` is not lost.
        let (turn, exiting) = self.closing.look_after(|| self.netpoll.begin_block());
        turn.filter(|_| !exiting)
    }

    /// The one M that waits for the network and for the next timer of all Ps, until there is something to do.
    fn block_in_netpoll<'s>(&'s self, m: &M, mut turn: Turn<'s>) {
        loop {
            let Some(woken) = self.block_once(m, turn) else { return };
            if !woken.is_empty() || self.has_something_to_do(m) {
                return self.came_back(m, woken);
            }
            // It was only to hear of an earlier timer.
            match self.turn_to_block() {
                Some(again) => turn = again,
                None => return,
            }
        }
    }

    /// Whether an M that waited without a P needs one now. Who makes work looks for idle Ps itself; this is not about that.
    fn has_something_to_do(&self, m: &M) -> bool {
        self.is_exiting()
            || !m.home.is_empty()
            || self.heaps.time_sleep_until() <= clock::now()
            || self.any_work()
    }

    /// Whom the network has woken; `None`: it may not sleep now.
    fn block_once(&self, m: &M, mut turn: Turn<'_>) -> Option<GList> {
        let mut look_at = self.look_for_deadlock_at();
        let mut until = self.heaps.time_sleep_until().min(look_at);
        // First it says until when it will sleep, then it looks: whoever adds a timer does the reverse, and so does the last one
        // that gives its P up.
        loop {
            turn.publish(until);
            let look_again = self.look_for_deadlock_at();
            let again = self.heaps.time_sleep_until().min(look_again);
            if again >= until {
                break;
            }
            (look_at, until) = (look_at.min(look_again), again);
        }
        if !m.rest.begin(How::Polls, || !m.home.is_empty()) {
            return None;
        }
        let woken = self.wait_for_events(m, turn, until);
        m.rest.over();
        if look_at != clock::NEVER && woken.is_empty() && clock::now() >= look_at {
            self.look_for_deadlock();
        }
        Some(woken)
    }

    fn came_back(&self, m: &M, woken: GList) {
        let Some(held) = self.take_idle_p(m) else {
            // All Ps are busy: sysmon must see to it that one of them looks.
            self.make_work(|| self.global.append(woken));
            return self.watch.wake();
        };
        // It looks for more than what it was woken for, so it counts as spinning until it has found something.
        self.idle.count_spinning();
        m.spinning.set(true);
        held.counters.net_wakes.add(woken.len() as u64);
        self.ready_all(held, woken);
        self.steal_due_timers(held);
    }

    /// Fires what is due on any P.
    fn steal_due_timers(&self, held: Held<'_>) {
        if self.heaps.time_sleep_until() == clock::NEVER {
            return;
        }
        let now = clock::now();
        let mut woken = GList::new();
        for p in self.ps().filter(|p| self.heaps.earliest(p.index) <= now) {
            self.fire_timers(held, p.index, now, &mut woken);
        }
        self.ready_all(held, woken);
    }

    /// Takes an idle P, else waits until it is handed one. *Runs on: `m`, without a P.*
    fn wait_for_p(&self, m: &M) -> Then {
        if !m.home.is_empty() {
            return self.get_in_line(m);
        }
        let enter = || self.idle.take_or_park(MRef::new(m), |p| self.p(p).lease.set_held());
        let (taken, exiting) = self.closing.look_after(enter);
        if m.is_coming_spare.replace(false) {
            // It is in the list of parked Ms, or it was needed at once.
            self.spares_coming.fetch_sub(1, Ordering::Relaxed);
        }
        match taken {
            Some(p) => {
                self.adopt(m, p);
                Then::Look
            }
            None if exiting => Then::End,
            None => self.sleep_until_handed(m),
        }
    }

    /// Likewise, but with something that only this M may run: it has its turn. *Runs on: `m`, without a P.*
    #[cold]
    fn get_in_line(&self, m: &M) -> Then {
        let enter = || self.idle.take_or_want(MRef::new(m), |p| self.p(p).lease.set_held());
        let (taken, mut exiting) = self.closing.look_after(enter);
        if let Some(p) = taken {
            self.adopt(m, p);
            return Then::Look;
        }
        self.watch.work_waits();
        while !exiting {
            match m.take_wish() {
                Wish::Nothing => m.note.sleep(),
                wish => return self.fulfil(m, wish),
            }
            exiting = self.is_exiting();
        }
        Then::Look
    }

    /// Sleeps until another M hands `m` its P. *Runs on: `m`, whose G lies in a run queue and waits in place.*
    pub(crate) fn sleep_for_a_p(&self, m: &M) {
        loop {
            // Sleep first: the note is woken once for the P, and the next sleep is not to find that wake-up.
            m.note.sleep();
            match m.take_wish() {
                // A wake-up that was meant for an earlier sleep.
                Wish::Nothing => {}
                wish => {
                    debug_assert!(matches!(wish, Wish::Run { spinning: false, .. }), "{wish:?}");
                    self.fulfil(m, wish);
                    return;
                }
            }
        }
    }

    /// Parks the M until it is handed a P. *Runs on: `m`, without a P, after it has looked for work.*
    fn park_m(&self, m: &M) -> Then {
        let ((), exiting) = self.closing.look_after(|| self.idle.park(MRef::new(m)));
        if exiting { Then::End } else { self.sleep_until_handed(m) }
    }

    /// *Runs on: `m`, in the list of parked Ms, where `Closing::exit` finds it.*
    fn sleep_until_handed(&self, m: &M) -> Then {
        debug_assert!(!m.spinning.get());
        let mut sleeps = m.rest.begin(How::Parked, || !m.home.is_empty());
        let then = loop {
            if sleeps {
                m.note.sleep();
            }
            match m.take_wish() {
                // Still in the list: what it has to run woke it.
                Wish::Nothing if self.is_exiting() || self.idle.leave(&MRef::new(m)) => break Then::Look,
                // Whoever took it out of the list is about to say what for, and to wake it once more.
                Wish::Nothing => sleeps = true,
                wish => break self.fulfil(m, wish),
            }
        };
        m.rest.over();
        then
    }

    /// Does what whoever woke the M, or started it, wants. *Runs on: `m`, without a P.*
    pub(crate) fn fulfil(&self, m: &M, wish: Wish) -> Then {
        match wish {
            Wish::Nothing => {}
            Wish::End => return Then::End,
            Wish::Watch => {
                m.spinning.set(true);
                return Then::Watch;
            }
            Wish::Run { p, spinning } => {
                self.adopt(m, p);
                m.spinning.set(spinning);
            }
        }
        Then::Look
    }
}
