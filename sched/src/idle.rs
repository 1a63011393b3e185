//! Who rests: the idle Ps, the parked Ms, and how many Ms spin (look for work without having found any).
//!
//! Work must never be stranded: it lies in a queue while every M that could run it sleeps. Two mirrored lists:
//!
//! ```text
//!   whoever makes work                       an M that found none
//!   publish it (a queue, the global queue)   give_up   the P into the idle list
//!   full fence                               stop_spinning
//!   an idle P, and nobody spins?             look_again (a full fence), and then
//!     take it, count as spinning,            look at every queue once more, and at the timers;
//!     start an M                               found: take a P back and go on
//!                                            sleep
//! ```
//!
//! An M that spins is the promise that somebody will look: that is why makers of work wake nobody while one does,
//! and why it must look once more after it has withdrawn the promise, both when it goes to sleep and when it found
//! something to run (more may have come).
//!
//! What was rejected: waking an M for each piece of work (a futex wake costs microseconds), and Go's rule that a
//! spinner that found work always wakes the next (a 1 ms ticker then keeps two threads busy): it looks first.

use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// The idle list of one runtime. `M` is whatever names a parked M.
#[derive(Debug)]
pub(crate) struct Idle<M> {
    lists: Mutex<Lists<M>>,
    /// Idle Ps; written under the lock, read without.
    idle_ps: AtomicUsize,
    /// Parked Ms; likewise.
    parked_ms: AtomicUsize,
    spinning: AtomicUsize,
}

#[derive(Debug)]
struct Lists<M> {
    ps: Vec<usize>,
    ms: Vec<M>,
}

impl<M> Idle<M> {
    pub(crate) fn new() -> Self {
        Idle {
            lists: Mutex::new(Lists { ps: Vec::new(), ms: Vec::new() }),
            idle_ps: AtomicUsize::new(0),
            parked_ms: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
        }
    }

    /// Puts a P into the list if it is `wanted` there; both functions run under the lock. The caller withdraws its
    /// promise if it spins (`stop_spinning`), and must look at every queue again after `look_again`.
    /// *Runs on: the holder of the P.*
    pub(crate) fn give_up(&self, p: usize, wanted: impl FnOnce() -> bool, set_idle: impl FnOnce()) -> bool {
        let mut lists = self.lists.lock();
        if !wanted() {
            return false;
        }
        set_idle();
        lists.ps.push(p);
        // SeqCst: as in `take`, one order of all counts.
        self.idle_ps.fetch_add(1, Ordering::SeqCst);
        true
    }

    /// Takes that P out of the list, if it is there; `set_held` runs under the lock and makes the caller its holder.
    pub(crate) fn remove(&self, p: usize, set_held: impl FnOnce()) -> bool {
        let mut lists = self.lists.lock();
        let Some(place) = lists.ps.iter().position(|&idle| idle == p) else { return false };
        lists.ps.swap_remove(place);
        // SeqCst: as in `take`.
        self.idle_ps.fetch_sub(1, Ordering::SeqCst);
        set_held();
        true
    }

    /// Takes an idle P; `set_held` runs under the lock and makes the caller its holder.
    pub(crate) fn take(&self, set_held: impl FnOnce(usize)) -> Option<usize> {
        if self.idle_ps.load(Ordering::SeqCst) == 0 {
            return None;
        }
        let mut lists = self.lists.lock();
        let p = lists.ps.pop()?;
        // SeqCst: one order of all counts.
        self.idle_ps.fetch_sub(1, Ordering::SeqCst);
        set_held(p);
        Some(p)
    }

    /// An M without a P parks: it is now in the list and waits on its note.
    pub(crate) fn park(&self, m: M) {
        let mut lists = self.lists.lock();
        lists.ms.push(m);
        self.parked_ms.store(lists.ms.len(), Ordering::Relaxed);
    }

    /// Takes a parked M, the one that parked last (its stack is warmest). The caller wakes it.
    pub(crate) fn unpark(&self) -> Option<M> {
        let mut lists = self.lists.lock();
        let m = lists.ms.pop();
        self.parked_ms.store(lists.ms.len(), Ordering::Relaxed);
        m
    }

    /// How many Ps are idle. *Runs on: any thread; a maker of work after its full fence.*
    #[inline]
    pub(crate) fn idle_ps(&self) -> usize {
        // SeqCst: after the work was published; the partners are `give_up` and `look_again`.
        self.idle_ps.load(Ordering::SeqCst)
    }

    /// True if nobody has promised to look. *Runs on: any thread; a maker of work after its full fence.*
    #[inline]
    pub(crate) fn nobody_spins(&self) -> bool {
        // SeqCst: after the work was published; the partners are `stop_spinning` and `look_again`.
        self.spinning.load(Ordering::SeqCst) == 0
    }

    /// Promises to look, if nobody has: makers of work wake one M at a time.
    pub(crate) fn start_spinning_alone(&self) -> bool {
        // SeqCst: one order of all counts and looks.
        self.spinning.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Promises to look, unless half of the busy Ps' worth of Ms do already.
    pub(crate) fn start_spinning(&self, ps: usize) -> bool {
        let busy = ps.saturating_sub(self.idle_ps.load(Ordering::Relaxed));
        // Relaxed: the bound is a matter of cost.
        if 2 * self.spinning.load(Ordering::Relaxed) >= busy {
            return false;
        }
        self.count_spinning();
        true
    }

    /// Promises to look.
    pub(crate) fn count_spinning(&self) {
        self.spinning.fetch_add(1, Ordering::SeqCst);
    }

    /// Withdraws the promise. The caller must look at every queue again after `look_again`.
    pub(crate) fn stop_spinning(&self) {
        // SeqCst: one order of all counts.
        self.spinning.fetch_sub(1, Ordering::SeqCst);
    }

    /// Stands between a change of the counts and the look at the queues. Its partner is the fence of a maker of
    /// work: it publishes first, then looks at the counts (`idle_ps`, `nobody_spins`).
    pub(crate) fn look_again(&self) {
        if !broken!("idle_no_fence_before_look") {
            crate::sync::full_fence();
        }
    }

    pub(crate) fn parked_ms(&self) -> usize {
        self.parked_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn spinning(&self) -> usize {
        self.spinning.load(Ordering::Relaxed)
    }

    /// Takes every parked M (they are to end).
    pub(crate) fn unpark_all(&self) -> Vec<M> {
        let mut lists = self.lists.lock();
        self.parked_ms.store(0, Ordering::Relaxed);
        std::mem::take(&mut lists.ms)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Two Ps with a queue each, and the global queue: how many Gs lie in each.
    struct Machine {
        idle: Idle<()>,
        queues: [AtomicUsize; 2],
        global: AtomicUsize,
        /// Ms that a maker of work started: each will look.
        started: AtomicUsize,
    }

    fn machine() -> Arc<Machine> {
        Arc::new(Machine {
            idle: Idle::new(),
            queues: [AtomicUsize::new(0), AtomicUsize::new(0)],
            global: AtomicUsize::new(0),
            started: AtomicUsize::new(0),
        })
    }

    impl Machine {
        fn make_work(&self, queue: &AtomicUsize) {
            // Release only, as a queue's push is: the fence does the rest.
            queue.fetch_add(1, Ordering::Release);
            if !broken!("idle_maker_no_fence") {
                crate::sync::full_fence();
            }
            if self.idle.idle_ps() > 0 && self.idle.nobody_spins() && self.idle.start_spinning_alone() {
                match self.idle.take(|_| ()) {
                    Some(_) => drop(self.started.fetch_add(1, Ordering::SeqCst)),
                    None => self.idle.stop_spinning(),
                }
            }
        }

        fn take_work(&self) -> bool {
            let take = |q: &AtomicUsize| {
                q.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_sub(1)).is_ok()
            };
            take(&self.queues[0]) || take(&self.queues[1]) || take(&self.global)
        }

        fn any_work(&self) -> bool {
            self.queues.iter().chain([&self.global]).any(|q| q.load(Ordering::Acquire) > 0)
        }

        /// An M that holds P `p` and spins, found nothing and rests; true if it stays awake.
        fn rest(&self, p: usize) -> bool {
            self.idle.give_up(p, || true, || ());
            self.idle.stop_spinning();
            self.idle.look_again();
            if broken!("idle_no_second_look") {
                return false;
            }
            self.any_work() && self.idle.take(|_| ()).is_some()
        }
    }

    fn stranded(m: &Machine, awake: bool) -> bool {
        m.any_work() && !awake && m.started.load(Ordering::SeqCst) == 0
    }

    #[test]
    fn work_in_a_ps_queue_is_not_stranded() {
        loom::model(|| {
            let m = machine();
            m.idle.count_spinning();
            let sleeper = m.clone();
            let sleeper = thread::spawn(move || sleeper.rest(1));
            // The maker holds P 0, whose code may run for ever: somebody else must run this work.
            m.make_work(&m.queues[0]);
            let awake = sleeper.join().unwrap();
            assert!(!stranded(&m, awake), "work in a queue, and everybody sleeps");
        });
    }

    #[test]
    fn work_in_the_global_queue_is_not_stranded() {
        loom::model(|| {
            let m = machine();
            m.idle.count_spinning();
            let sleeper = m.clone();
            let sleeper = thread::spawn(move || sleeper.rest(1));
            // A thread without a P.
            m.make_work(&m.global);
            let awake = sleeper.join().unwrap();
            assert!(!stranded(&m, awake), "work in the global queue, and everybody sleeps");
        });
    }

    #[test]
    fn a_spinner_that_finds_work_leaves_none_behind() {
        loom::model(|| {
            let m = machine();
            // One P is idle, one M spins on the other; two pieces of work come.
            m.idle.give_up(0, || true, || ());
            m.idle.count_spinning();
            m.queues[1].fetch_add(1, Ordering::Release);
            let maker = m.clone();
            let maker = thread::spawn(move || maker.make_work(&maker.queues[0]));
            let mut found = m.take_work();
            assert!(found);
            m.idle.stop_spinning();
            m.idle.look_again();
            // It runs what it found for ever, so it may take no more; it wakes somebody if there is any.
            if m.any_work() && !broken!("idle_spinner_no_second_look") && m.idle.start_spinning_alone() {
                found = m.idle.take(|_| ()).is_some();
                if found {
                    m.started.fetch_add(1, Ordering::SeqCst);
                } else {
                    m.idle.stop_spinning();
                }
            }
            maker.join().unwrap();
            assert!(!stranded(&m, false), "a second piece of work was left behind");
        });
    }
}
