//! Loom models of the lease: alone, and together with the steps of `run/boundary.rs`, `supply/threads.rs` and
//! `run/find.rs` for a lost P.

use super::*;
use crate::asleep::idle::Idle;
use crate::sync::models::{Reached, Turns, explore, explore_at_least};
use crate::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicUsize},
};
use loom::{cell::UnsafeCell, sync::Notify, thread};
// std's `Arc` may be the receiver of a method; loom's may not.
use std::sync::Arc;

/// A lease and the Ms that may have the P; an index stands for the M pointer of `P::holder`.
struct Leased {
    lease: Lease,
    ms: [Lender; 8],
    holder: AtomicUsize,
}

impl Leased {
    /// Makes a P that M 0 holds.
    fn new(light: bool) -> Leased {
        let lease = Lease::new(5, light);
        lease.set_held();
        Leased { lease, ms: [(); 8].map(|()| Lender::new()), holder: AtomicUsize::new(0) }
    }

    /// Models `M::acquire`.
    fn acquire(&self, m: usize) {
        self.holder.store(m, Ordering::Release);
    }

    fn lend(&self, m: usize) -> Lent {
        self.lease.lend(&self.ms[m])
    }

    fn lend_unless_asked(&self, m: usize) -> Option<Lent> {
        self.lease.lend_unless_asked(&self.ms[m])
    }

    fn take_back(&self, lent: Lent, m: usize) -> bool {
        self.lease.take_back(lent, &self.ms[m])
    }

    fn lender(&self) -> Option<&Lender> {
        Some(&self.ms[self.holder.load(Ordering::Acquire)])
    }

    fn look(&self) -> Seen {
        self.lease.look(|| self.lender())
    }

    fn retake(&self, seen: Seen) -> bool {
        self.lease.retake(seen, || self.lender())
    }
}

/// A P with state of its own: loom reports two Ms that access it without an order between them.
struct Owned {
    p: Leased,
    queue: UnsafeCell<u32>,
    turns: Turns,
}

impl Owned {
    /// Makes a P that M 0 holds.
    fn new(light: bool) -> Arc<Owned> {
        Arc::new(Owned { p: Leased::new(light), queue: UnsafeCell::new(0), turns: Turns::default() })
    }

    fn touch(&self) {
        // SAFETY: the caller holds the P; loom checks it.
        self.queue.with_mut(|q| unsafe { *q += 1 });
    }
}

#[test]
fn an_m_and_sysmon_never_both_hold_the_p() {
    for light in [false, true] {
        explore(if light { 3 } else { 9 }, move || {
            let p = Owned::new(light);
            let (m, monitor) = (p.clone(), p.clone());
            // The M runs two stretches of user code and uses the P between them.
            let m = thread::spawn(move || {
                for _ in 0..2 {
                    m.turns.take();
                    m.touch();
                    let lent = m.p.lend(0);
                    if !m.p.take_back(lent, 0) {
                        return false;
                    }
                }
                m.touch();
                true
            });
            let monitor = thread::spawn(move || {
                monitor.turns.take();
                let seen = monitor.p.look();
                let won = monitor.p.retake(seen);
                if won {
                    monitor.touch();
                }
                won
            });
            let (kept, taken) = (m.join().unwrap(), monitor.join().unwrap());
            assert!(kept != taken, "both the M and sysmon hold the P, or neither does");
        })
    }
}

/// A signal handler on the M's thread pauses an M that has lost its P. An M that still has its P, or is in
/// the runtime, is never taken for one that has lost it (`M::has_lost_p`).
#[test]
fn only_an_m_that_has_lost_its_p_is_paused() {
    static LOST: Reached = Reached::new();
    for light in [false, true] {
        explore(3, move || {
            let p = Owned::new(light);
            let monitor = p.clone();
            let lent = p.p.lend(0);
            let monitor = thread::spawn(move || {
                monitor.turns.take();
                let seen = monitor.p.look();
                monitor.p.retake(seen)
            });
            p.turns.take();
            // The signal comes in user code.
            let lost = p.p.lease.is_lost(&p.p.ms[0]);
            LOST.note(lost);
            let kept = p.p.take_back(lent, 0);
            assert!(!(lost && kept), "an M would have been paused with its P");
            // The signal comes in the runtime.
            assert!(!p.p.lease.is_lost(&p.p.ms[0]), "an M would be paused in the runtime");
            assert_eq!(monitor.join().unwrap(), !kept);
        })
    }
    LOST.assert();
}

#[test]
fn a_late_m_cannot_take_back_a_later_stretch() {
    for light in [false, true] {
        explore(if light { 3 } else { 9 }, move || {
            let p = Owned::new(light);
            let first = p.p.lend(0);
            let other = p.clone();
            // Sysmon takes the P for a second M, which lends the P again.
            let other = thread::spawn(move || {
                other.turns.take();
                let seen = other.p.look();
                if !other.p.retake(seen) {
                    return None;
                }
                other.p.acquire(1);
                other.touch();
                let lent = other.p.lend(1);
                let mine = other.p.take_back(lent, 1);
                if mine {
                    other.touch();
                }
                Some(mine)
            });
            p.turns.take();
            let back = p.p.take_back(first, 0);
            if back {
                p.touch();
            }
            match other.join().unwrap() {
                None => assert!(back),
                Some(second_kept) => assert!(!back && second_kept),
            }
        })
    }
}

#[test]
fn a_stale_look_takes_no_later_stretch() {
    for light in [false, true] {
        explore(if light { 3 } else { 9 }, move || {
            let p = Owned::new(light);
            let first = p.p.lend(0);
            let seen = p.p.look();
            let m = p.clone();
            let m = thread::spawn(move || {
                m.turns.take();
                if !m.p.take_back(first, 0) {
                    return false;
                }
                m.touch();
                let second = m.p.lend(0);
                m.turns.take();
                let kept = m.p.take_back(second, 0);
                assert!(kept, "sysmon took a stretch that has just begun");
                m.touch();
                true
            });
            p.turns.take();
            let taken = p.p.retake(seen);
            if taken {
                p.touch();
            }
            assert!(m.join().unwrap() != taken, "both the M and sysmon hold the P, or neither does");
        })
    }
}

#[test]
fn a_p_that_is_asked_for_is_kept_on_entry_and_given_up_on_the_way_out() {
    static AT_ONCE: Reached = Reached::new();
    static LATER: Reached = Reached::new();
    for light in [false, true] {
        explore(if light { 3 } else { 9 }, move || {
            let p = Owned::new(light);
            let lent = p.p.lend(0);
            let sysmon = p.clone();
            let sysmon = thread::spawn(move || {
                sysmon.turns.take();
                sysmon.p.lease.ask();
            });
            p.turns.take();
            assert!(p.p.take_back(lent, 0), "a request took the P");
            p.touch();
            p.turns.take();
            let lent = p.p.lend_unless_asked(0);
            sysmon.join().unwrap();
            AT_ONCE.note(lent.is_none());
            let Some(lent) = lent else { return };
            // Sysmon asks again, because the first request came later than the leave, or the leave overwrote
            // it.
            p.p.lease.ask();
            assert!(p.p.take_back(lent, 0), "a request took the P");
            p.touch();
            assert!(p.p.lend_unless_asked(0).is_none(), "the M missed a request that nothing overwrote");
            LATER.note(true);
        })
    }
    AT_ONCE.assert();
    LATER.assert();
}

#[test]
fn an_m_that_is_asked_and_a_retaking_sysmon_never_both_hold_the_p() {
    static ASKED_AND_KEPT: Reached = Reached::new();
    static TAKEN: Reached = Reached::new();
    for light in [false, true] {
        explore(if light { 3 } else { 9 }, move || {
            let p = Owned::new(light);
            let (m, sysmon) = (p.clone(), p.clone());
            let m = thread::spawn(move || {
                for _ in 0..2 {
                    m.turns.take();
                    m.touch();
                    let Some(lent) = m.p.lend_unless_asked(0) else {
                        ASKED_AND_KEPT.note(true);
                        return true;
                    };
                    if !m.p.take_back(lent, 0) {
                        return false;
                    }
                }
                m.touch();
                true
            });
            let sysmon = thread::spawn(move || {
                sysmon.turns.take();
                let seen = sysmon.p.look();
                sysmon.p.lease.ask();
                sysmon.turns.take();
                let won = sysmon.p.retake(seen);
                if won {
                    sysmon.touch();
                }
                won
            });
            let (kept, taken) = (m.join().unwrap(), sysmon.join().unwrap());
            assert!(kept != taken, "both the M and sysmon hold the P, or neither does");
            TAKEN.note(taken);
        })
    }
    ASKED_AND_KEPT.assert();
    TAKEN.assert();
}

/// A G: its number, and what it does when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum G {
    /// Runs a while and ends.
    Ends(usize),
    /// Calls the runtime without making work, then ends.
    Calls(usize),
    /// Spawns the second G, then ends.
    Spawns(usize, usize),
    /// Spawns the second G in `blocking`. If it has no P after the call, it goes on without a P for ever.
    BlockingSpawns(usize, usize),
    /// Resumes in place on the M of the second number, which sleeps until it is handed the P.
    InPlace(usize, usize),
}

impl G {
    fn id(self) -> usize {
        match self {
            G::Ends(id) | G::Calls(id) | G::Spawns(id, _) | G::BlockingSpawns(id, _) | G::InPlace(id, _) => {
                id
            }
        }
    }
}

/// A runtime with one P. An M that parks is a loom thread that ends; an M that is woken or started is a new
/// loom thread.
struct Machine {
    p: Leased,
    /// The run queue of the P.
    queue: UnsafeCell<Vec<G>>,
    global: Mutex<Vec<G>>,
    global_len: AtomicUsize,
    idle: Idle<()>,
    /// One stack per G.
    stacks: [UnsafeCell<u32>; 3],
    /// One note per M.
    notes: [(AtomicBool, Notify); 8],
    turns: Turns,
    // std's mutex, not loom's, because the log is no part of the protocol.
    log: std::sync::Mutex<Log>,
}

#[derive(Default)]
struct Log {
    /// The Gs that have ended.
    ended: Vec<usize>,
    /// The words of the stretches that sysmon took, and of the stretches that Ms found lost.
    taken: Vec<u64>,
    lost: Vec<u64>,
    /// How many Ms were woken or started with the P, and their threads.
    ms: usize,
    started: Vec<thread::JoinHandle<()>>,
    /// Whether an M that had lost the P got it from the idle list on its way out. Whether an M waited in
    /// place for the P. Whether an M gave the P up on request.
    got_back: bool,
    queued_up: bool,
    gave_up: bool,
}

impl Machine {
    /// Makes a runtime with one P. M 0 holds the P, which has the Gs of `queue` in its run queue.
    fn new(light: bool, queue: &[G]) -> Arc<Machine> {
        Arc::new(Machine {
            p: Leased::new(light),
            queue: UnsafeCell::new(queue.to_vec()),
            global: Mutex::new(Vec::new()),
            global_len: AtomicUsize::new(0),
            idle: Idle::new(),
            stacks: [0; 3].map(UnsafeCell::new),
            notes: [(); 8].map(|()| (AtomicBool::new(false), Notify::new())),
            turns: Turns::default(),
            log: std::sync::Mutex::default(),
        })
    }

    fn log(&self) -> std::sync::MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    /// *Runs on: the holder.*
    fn own<T>(&self, f: impl FnOnce(&mut Vec<G>) -> T) -> T {
        // SAFETY: the caller holds the P; loom checks it.
        self.queue.with_mut(|queue| f(unsafe { &mut *queue }))
    }

    fn run_on_stack(&self, g: usize) {
        // SAFETY: the caller runs the G; loom checks it.
        self.stacks[g].with_mut(|stack| unsafe { *stack += 1 });
    }

    fn push_global(&self, g: G) {
        let mut global = self.global.lock();
        global.push(g);
        self.global_len.store(global.len(), Ordering::Relaxed);
    }

    fn pop_global(&self) -> Option<G> {
        if self.global_len.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut global = self.global.lock();
        let g = global.pop();
        self.global_len.store(global.len(), Ordering::Relaxed);
        g
    }

    /// Models `Sched::any_work`. (The queue of an idle P is empty.)
    fn any_work(&self) -> bool {
        self.global_len.load(Ordering::Relaxed) > 0
    }

    /// Models `Sched::take_idle_p`, called by M `m`.
    fn take_idle_p(&self, m: usize) -> bool {
        let taken = self.idle.take(|_| self.p.lease.set_held()).is_some();
        if taken {
            self.p.acquire(m);
        }
        taken
    }

    /// Models `Sched::start_m` with the P: starts a thread for an M with a new number.
    fn start_m(self: &Arc<Self>, spinning: bool) {
        let machine = self.clone();
        let m = {
            let mut log = self.log();
            log.ms += 1;
            2 + log.ms
        };
        let started = thread::spawn(move || machine.run_m(m, spinning));
        self.log().started.push(started);
    }

    /// Models `Sched::make_work` through the global queue.
    fn make_work(self: &Arc<Self>, g: G) {
        self.idle.make_work(|| self.push_global(g), || self.wake_idle_p());
    }

    /// Models `Sched::wake_idle_p`.
    fn wake_idle_p(self: &Arc<Self>) {
        let wake = || {
            if self.idle.take_to_look(|_| self.p.lease.set_held()).is_some() {
                self.start_m(true);
            }
        };
        self.idle.wake_for_work(|| (), wake);
    }

    /// Models `Sched::put_idle` and the step that must follow it. Returns `true` if there is work, so the P
    /// must be taken again.
    fn put_idle(&self) -> bool {
        assert!(self.own(|queue| queue.is_empty()));
        let _ = self.idle.give_up(0, || true, || self.p.lease.set_idle());
        self.idle.withdraw(false, || self.any_work())
    }

    /// Models `Sched::run_m`, for an M that has the P.
    fn run_m(self: &Arc<Self>, m: usize, mut spinning: bool) {
        self.p.acquire(m);
        let mut holds = true;
        while holds || self.take_idle_p(m) {
            self.turns.take();
            let next = self.own(|queue| queue.pop()).or_else(|| self.pop_global());
            if std::mem::take(&mut spinning) {
                self.idle.stop_spinning();
                self.idle.look_again();
            }
            holds = match next {
                Some(g) => self.run(g, m),
                None if self.put_idle() => self.take_idle_p(m),
                None => return,
            };
        }
    }

    /// Runs `g`. Returns `true` if its M still has the P when `g` stops. *Runs on: the holder.*
    fn run(self: &Arc<Self>, g: G, m: usize) -> bool {
        if let G::InPlace(_, waiting) = g {
            // Models `Sched::passed_on`.
            let (woken, note) = &self.notes[waiting];
            woken.swap(true, Ordering::AcqRel);
            note.notify();
            return false;
        }
        let mut lent = self.p.lend(m);
        if !matches!(g, G::Ends(_)) {
            self.run_on_stack(g.id());
            let holds = self.enter(lent, m);
            if let G::Spawns(_, child) | G::BlockingSpawns(_, child) = g {
                self.spawn(holds, G::Ends(child));
            }
            match self.leave(g, m, holds) {
                Some(again) => lent = again,
                None => return false,
            }
        }
        self.run_on_stack(g.id());
        let holds = self.enter(lent, m);
        self.log().ended.push(g.id());
        holds
    }

    /// Models `Entered::drop`. Returns the word by which the P is lent again; `None` if the G goes on without
    /// a P for ever.
    fn leave(self: &Arc<Self>, g: G, m: usize, holds: bool) -> Option<Lent> {
        if holds && let Some(lent) = self.p.lend_unless_asked(m) {
            return Some(lent);
        }
        match g {
            G::BlockingSpawns(id, _) => {
                self.log().ended.push(id);
                if holds && self.hand_off() {
                    self.start_m(false);
                }
                return None;
            }
            _ if holds => self.give_up(g, m),
            _ => self.come_back(g, m),
        }
        Some(self.p.lend(m))
    }

    /// Models `boundary::give_up`.
    fn give_up(self: &Arc<Self>, g: G, m: usize) {
        self.log().gave_up = true;
        self.own(|queue| queue.insert(0, G::InPlace(g.id(), m)));
        assert!(self.hand_off(), "a P with work in its queue went idle");
        self.start_m(false);
        self.wait_for_p(m);
    }

    /// Models `boundary::regain_p`.
    fn come_back(self: &Arc<Self>, g: G, m: usize) {
        if self.take_idle_p(m) {
            self.log().got_back = true;
            return;
        }
        self.log().queued_up = true;
        self.make_work(G::InPlace(g.id(), m));
        self.wait_for_p(m);
    }

    /// Models `Sched::sleep_for_a_p`.
    fn wait_for_p(&self, m: usize) {
        let (woken, note) = &self.notes[m];
        while !woken.swap(false, Ordering::Acquire) {
            note.wait();
        }
        self.p.acquire(m);
    }

    /// Models `enter`. Returns `true` if the M still has the P.
    fn enter(&self, lent: Lent, m: usize) -> bool {
        self.turns.take();
        let mut kept = true;
        self.p.lease.enter(lent, &self.p.ms[m], || kept = false);
        if !kept {
            self.log().lost.push(lent.0);
        }
        kept
    }

    /// Models `spawn_here`.
    fn spawn(self: &Arc<Self>, holds: bool, g: G) {
        if holds {
            self.own(|queue| queue.push(g));
        } else {
            self.make_work(g);
        }
    }

    /// Models sysmon: looks, and later takes the P if its word has not changed. The caller decides what to do
    /// with the P.
    fn retake(&self, stale: Option<Seen>) -> (Seen, bool) {
        let seen = self.p.look();
        self.turns.take();
        if let Some(stale) = stale {
            assert!(!self.p.retake(stale), "a look from an earlier stretch took the P");
        }
        let taken = self.p.retake(seen);
        if taken {
            self.log().taken.push(seen.0);
        }
        (seen, taken)
    }

    /// Models `Sched::hand_off`. Returns `true` if the caller must start an M for the P. *Runs on: the
    /// holder.*
    fn hand_off(self: &Arc<Self>) -> bool {
        if !self.own(|queue| queue.is_empty()) || self.any_work() {
            return true;
        }
        if self.put_idle() {
            self.wake_idle_p();
        }
        false
    }

    /// Joins all threads and checks that every G ended once and that no promise to look for work is left.
    fn end(&self, gs: usize) -> std::sync::MutexGuard<'_, Log> {
        loop {
            let started = self.log().started.pop();
            let Some(started) = started else { break };
            started.join().unwrap();
        }
        let mut log = self.log();
        log.ended.sort_unstable();
        log.taken.sort_unstable();
        log.lost.sort_unstable();
        assert_eq!(log.ended, (0..gs).collect::<Vec<_>>(), "a G was lost, or ran twice");
        assert_eq!(
            log.taken, log.lost,
            "the stretches that sysmon took differ from the stretches that Ms lost"
        );
        assert!(self.idle.no_m_spins());
        log
    }
}

#[test]
fn a_p_is_retaken_lent_again_and_retaken() {
    static TWICE: Reached = Reached::new();
    static QUEUED_UP: Reached = Reached::new();
    static BACK: Reached = Reached::new();
    for light in [false, true] {
        let preemptions = if light { 1 } else { 3 };
        explore_at_least(preemptions, preemptions, move || {
            // A G waits in the queue of the P, so the next holder of the P lends it again.
            let machine = Machine::new(light, &[G::Ends(1)]);
            let sysmon = machine.clone();
            let sysmon = thread::spawn(move || {
                let (seen, taken) = sysmon.retake(None);
                if taken && sysmon.hand_off() {
                    sysmon.start_m(false);
                }
                let (_, taken) = sysmon.retake(Some(seen));
                if taken && sysmon.hand_off() {
                    // This thread acts as a third M.
                    sysmon.run_m(2, false);
                }
            });
            let holds = machine.run(G::Spawns(0, 2), 0);
            if holds || machine.take_idle_p(0) {
                machine.run_m(0, false);
            }
            sysmon.join().unwrap();
            let log = machine.end(3);
            TWICE.note(log.taken.len() == 2);
            QUEUED_UP.note(log.queued_up);
            BACK.note(log.got_back);
        })
    }
    TWICE.assert();
    QUEUED_UP.assert();
    BACK.assert();
}

#[test]
fn an_m_gets_its_own_p_back_from_the_idle_list() {
    static TWICE: Reached = Reached::new();
    for light in [false, true] {
        let (least, most) = if light { (1, 1) } else { (3, 5) };
        explore_at_least(least, most, move || {
            let machine = Machine::new(light, &[]);
            let sysmon = machine.clone();
            let sysmon = thread::spawn(move || {
                let mut stale = None;
                for _ in 0..2 {
                    let (seen, taken) = sysmon.retake(stale);
                    stale = Some(seen);
                    if taken && sysmon.hand_off() {
                        sysmon.run_m(2, false);
                    }
                }
            });
            let holds = machine.run(G::Calls(0), 0);
            if holds || machine.take_idle_p(0) {
                machine.run_m(0, false);
            }
            sysmon.join().unwrap();
            let log = machine.end(1);
            TWICE.note(log.got_back && log.taken.len() == 2);
        })
    }
    TWICE.assert();
}

#[test]
fn what_a_g_spawns_in_blocking_without_a_p_is_run() {
    for light in [false, true] {
        explore(if light { 2 } else { 5 }, move || {
            let machine = Machine::new(light, &[]);
            let sysmon = machine.clone();
            let sysmon = thread::spawn(move || {
                let (_, taken) = sysmon.retake(None);
                if taken && sysmon.hand_off() {
                    sysmon.run_m(2, false);
                }
            });
            if machine.run(G::BlockingSpawns(0, 1), 0) {
                machine.run_m(0, false);
            }
            sysmon.join().unwrap();
            drop(machine.end(2));
        })
    }
}

#[test]
fn an_m_that_is_asked_for_its_p_waits_in_place_until_others_have_run() {
    static GAVE_UP: Reached = Reached::new();
    static IN_BLOCKING: Reached = Reached::new();
    for light in [false, true] {
        for blocking in [false, true] {
            explore(2, move || {
                let machine = Machine::new(light, &[]);
                let sysmon = machine.clone();
                let sysmon = thread::spawn(move || {
                    sysmon.turns.take();
                    sysmon.p.lease.ask();
                });
                let g = if blocking { G::BlockingSpawns(0, 1) } else { G::Spawns(0, 1) };
                let holds = machine.run(g, 0);
                if holds || machine.take_idle_p(0) {
                    machine.run_m(0, false);
                }
                sysmon.join().unwrap();
                let log = machine.end(2);
                GAVE_UP.note(log.gave_up);
                IN_BLOCKING.note(blocking && !holds);
            })
        }
    }
    GAVE_UP.assert();
    IN_BLOCKING.assert();
}
