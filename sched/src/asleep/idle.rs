//! The idle lists: the idle Ps, the parked Ms, and how many Ms spin. An M that **spins** looks for work and
//! has found none yet.
//!
//! Work is stranded if it lies in a queue while every M that could run it sleeps. Two mirrored lists of steps
//! prevent that:
//!
//! ```text
//!   a maker of work (make_work)              an M that found no work
//!   publish it (a queue, the global queue)   give_up    the P into the idle list
//!   full fence                               withdraw   the promise to look, full fence, and then
//!   wake_for_work: an idle P, no M spins?               look at every queue once more, and at the timers;
//!     take_to_look  the P, and a promise                found: take a P back and go on
//!     start an M                             sleep
//! ```
//!
//! An M that spins promises to look at every queue. So makers of work wake no M while an M spins. The M
//! withdraws its promise when it goes to sleep and when it has found work. Then it looks once more, because
//! more work may have come.
//!
//! The second look is at the queues of Ps that are awake only: an idle P has no G. A P is among these from
//! the time at which it is taken out of the list, and its M makes work after that. So the fences that order
//! work and looks order this, too.
//!
//! Rejected: waking an M for each piece of work, because a futex wake costs microseconds. Rejected too: Go's
//! rule that a spinning M that found work always wakes the next M. A 1 ms ticker then keeps two threads busy;
//! here the M looks first.

use std::collections::VecDeque;

use timers::IndexSet;

use crate::p::lease::MAX_INDEX;
use crate::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// The idle lists of one runtime. `M` is a reference to an M.
#[derive(Debug)]
pub(crate) struct Idle<M> {
    lists: Mutex<Lists<M>>,
    /// The number of idle Ps; written under the lock, read without it.
    idle_ps: AtomicUsize,
    /// The Ps that are not idle; written under the lock, read without it.
    awake_ps: IndexSet,
    /// The number of parked Ms; written under the lock, read without it.
    parked_ms: AtomicUsize,
    spinning: AtomicUsize,
    /// 1 while an M watches over lone Gs in its sleep (`asleep/lone_watch.rs`).
    watching: AtomicUsize,
    /// The number of Ms in line for a P; written under the lock, read without it. On a cache line of its own,
    /// because each M reads it whenever it looks for work.
    wanting_ms: OwnLine,
}

/// A count on a cache line of its own.
#[derive(Debug)]
#[repr(align(128))]
struct OwnLine(AtomicUsize);

#[derive(Debug)]
struct Lists<M> {
    ps: Vec<usize>,
    /// The parked Ms, in the order in which they parked; the last is taken first.
    ms: Vec<M>,
    /// The fewest Ms that were parked since the last `take_unneeded`: that many were not needed.
    fewest_ms: usize,
    /// The M that was taken out last. Perhaps it has not taken its wish yet.
    woken: Option<M>,
    /// The line for Ps: Ms without a P that have Gs only they may run, in the order in which they came. No P
    /// is idle while the line is not empty.
    wanting: VecDeque<M>,
}

/// What became of a P that its holder gave up.
#[derive(Debug)]
pub(crate) enum GiveUp<M> {
    /// The P is idle.
    Idle,
    /// The P may not go idle; the caller still holds it.
    Refused,
    /// This M was first in line for a P; the caller hands the P to it.
    To(M),
}

impl<M: Copy> Lists<M> {
    fn take_p<T>(
        &mut self,
        count: &AtomicUsize,
        awake: &IndexSet,
        hold: impl FnOnce(usize) -> T,
    ) -> Option<T> {
        let p = self.ps.pop()?;
        if !broken!("idle_taken_p_is_not_awake") {
            awake.insert(p);
        }
        // SeqCst: all changes of the counts and all looks at them have one order.
        count.fetch_sub(1, Ordering::SeqCst);
        Some(hold(p))
    }

    /// Takes the P of the M that was taken out last by `take_over`, if it still lies in the wish of that M.
    /// The M is then parked again.
    fn take_p_of_woken<T>(
        &mut self,
        count: &AtomicUsize,
        take_over: impl FnOnce(&M) -> Option<T>,
    ) -> Option<T> {
        let m = self.woken.take()?;
        let taken = take_over(&m)?;
        if !broken!("idle_woken_m_is_forgotten") {
            self.park(m, count);
        }
        Some(taken)
    }

    fn park(&mut self, m: M, count: &AtomicUsize) {
        self.ms.push(m);
        count.store(self.ms.len(), Ordering::Relaxed);
    }

    fn unpark(&mut self, count: &AtomicUsize) -> Option<M> {
        let m = self.ms.pop();
        self.woken = m;
        self.fewest_ms = self.fewest_ms.min(self.ms.len());
        count.store(self.ms.len(), Ordering::Relaxed);
        m
    }
}

/// Returns `f`, which then returns its argument.
fn and_return(f: impl FnOnce(usize)) -> impl FnOnce(usize) -> usize {
    |p| {
        f(p);
        p
    }
}

impl<M: PartialEq + Copy> Idle<M> {
    pub(crate) fn new() -> Self {
        Idle {
            lists: Mutex::new(Lists {
                ps: Vec::new(),
                ms: Vec::new(),
                fewest_ms: 0,
                woken: None,
                wanting: VecDeque::new(),
            }),
            idle_ps: AtomicUsize::new(0),
            awake_ps: IndexSet::new(if cfg!(loom) { 2 } else { MAX_INDEX }),
            parked_ms: AtomicUsize::new(0),
            spinning: AtomicUsize::new(0),
            watching: AtomicUsize::new(0),
            wanting_ms: OwnLine(AtomicUsize::new(0)),
        }
    }

    /// Puts a P into the idle list if `wanted` returns `true` and no M is in line for a P. `wanted` and
    /// `set_idle` run under the lock. The caller withdraws its promise if it spins (`stop_spinning`), and
    /// must look at every queue after `look_again`. *Runs on: the holder of the P.*
    pub(crate) fn give_up(
        &self,
        p: usize,
        wanted: impl FnOnce() -> bool,
        set_idle: impl FnOnce(),
    ) -> GiveUp<M> {
        let mut lists = self.lists.lock();
        if !wanted() {
            return GiveUp::Refused;
        }
        if let Some(m) = self.pop_wanting(&mut lists)
            && !broken!("idle_give_up_no_want_look")
        {
            self.awake_ps.insert(p);
            return GiveUp::To(m);
        }
        debug_assert!(lists.wanting.is_empty(), "a P goes idle while an M waits for one");
        set_idle();
        self.awake_ps.remove(p);
        lists.ps.push(p);
        // SeqCst: as in `take_p`, one order of all counts.
        self.idle_ps.fetch_add(1, Ordering::SeqCst);
        GiveUp::Idle
    }

    fn pop_wanting(&self, lists: &mut Lists<M>) -> Option<M> {
        let m = lists.wanting.pop_front()?;
        self.wanting_ms.0.store(lists.wanting.len(), Ordering::Relaxed);
        Some(m)
    }

    /// Takes the M that is first in line for a P; the caller hands it one.
    pub(crate) fn take_wanting(&self) -> Option<M> {
        if !self.any_wanting() { None } else { self.pop_wanting(&mut self.lists.lock()) }
    }

    /// Returns `true` if an M is in line for a P. Relaxed: an M that has a P to give asks again soon.
    #[inline]
    pub(crate) fn any_wanting(&self) -> bool {
        self.wanting_ms.0.load(Ordering::Relaxed) > 0
    }

    /// Takes an idle P; if there is none, puts `m` into the line for one and returns `None`.
    pub(crate) fn take_or_want(&self, m: M, set_held: impl FnOnce(usize)) -> Option<usize> {
        let mut lists = self.lists.lock();
        let hold = and_return(set_held);
        let p = if broken!("idle_want_no_p_look") {
            None
        } else {
            lists.take_p(&self.idle_ps, &self.awake_ps, hold)
        };
        if p.is_none() {
            lists.wanting.push_back(m);
            self.wanting_ms.0.store(lists.wanting.len(), Ordering::Relaxed);
        }
        p
    }

    /// Takes P `p` out of the idle list; returns `false` if it is not there. `set_held` runs under the lock
    /// and makes the caller the holder.
    pub(crate) fn remove(&self, p: usize, set_held: impl FnOnce()) -> bool {
        let mut lists = self.lists.lock();
        let Some(place) = lists.ps.iter().position(|&idle| idle == p) else { return false };
        lists.ps.swap_remove(place);
        self.awake_ps.insert(p);
        // SeqCst: as in `take_p`.
        self.idle_ps.fetch_sub(1, Ordering::SeqCst);
        set_held();
        true
    }

    /// Takes an idle P. `set_held` runs under the lock and makes the caller the holder.
    pub(crate) fn take(&self, set_held: impl FnOnce(usize)) -> Option<usize> {
        if self.idle_ps.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.lists.lock().take_p(&self.idle_ps, &self.awake_ps, and_return(set_held))
    }

    /// Calls `f` with each idle P. The lock is held, so that no thread can take an idle P during the call.
    pub(crate) fn for_each_idle(&self, mut f: impl FnMut(usize)) {
        self.lists.lock().ps.iter().for_each(|&p| f(p));
    }

    /// Puts an M without a P into the list of parked Ms. The M then sleeps on its note.
    pub(crate) fn park(&self, m: M) {
        self.lists.lock().park(m, &self.parked_ms);
    }

    /// Takes an idle P, by `hold`; if there is none, that of an M that is being woken, by `take_over`
    /// (`asleep/wish.rs`). If there is none either, puts `m` into the list of parked Ms. One lock covers all
    /// three steps. Without it `take_pair` could miss this M, and an idle P and a parked M would wait for
    /// each other.
    pub(crate) fn take_or_park<T>(
        &self,
        m: M,
        hold: impl FnOnce(usize) -> T,
        take_over: impl FnOnce(&M) -> Option<T>,
    ) -> Option<T> {
        if broken!("idle_park_no_p_look") {
            self.park(m);
            return None;
        }
        let mut lists = self.lists.lock();
        let p = lists.take_p(&self.idle_ps, &self.awake_ps, hold);
        let p = p.or_else(|| lists.take_p_of_woken(&self.parked_ms, take_over));
        if p.is_none() {
            lists.park(m, &self.parked_ms);
        }
        p
    }

    /// Takes an idle P and a parked M, if there is one of each. The caller wakes the M with the P.
    pub(crate) fn take_pair(&self, set_held: impl FnOnce(usize)) -> Option<(usize, M)> {
        let mut lists = self.lists.lock();
        if lists.ps.is_empty() {
            return None;
        }
        let m = lists.unpark(&self.parked_ms)?;
        Some((lists.take_p(&self.idle_ps, &self.awake_ps, and_return(set_held))?, m))
    }

    /// Takes an M that is awake out of the list of parked Ms. Returns `false` if another thread has taken it
    /// out: that thread is about to leave it a wish.
    pub(crate) fn leave(&self, m: &M) -> bool {
        let mut lists = self.lists.lock();
        let Some(place) = lists.ms.iter().rposition(|parked| parked == m) else { return false };
        lists.ms.remove(place);
        lists.fewest_ms = lists.fewest_ms.min(lists.ms.len());
        self.parked_ms.store(lists.ms.len(), Ordering::Relaxed);
        true
    }

    /// Takes the M that parked last, because its stack is the warmest. The caller wakes it.
    pub(crate) fn unpark(&self) -> Option<M> {
        self.lists.lock().unpark(&self.parked_ms)
    }

    /// Takes Ms that were not needed since the last call: the longest parked first, at most `most`, and so
    /// that `keep` stay. `may_end` says under the lock which Ms may end. The caller ends the taken Ms, which
    /// are in no list any more. Returns `true` with them if more are unneeded.
    pub(crate) fn take_unneeded(
        &self,
        keep: usize,
        most: usize,
        may_end: impl Fn(&M) -> bool,
    ) -> (Vec<M>, bool) {
        let mut lists = self.lists.lock();
        let unneeded = lists.fewest_ms.saturating_sub(keep);
        let may_end = |m: &mut M| may_end(m) || broken!("idle_ends_a_home");
        let bound = unneeded.min(most);
        let taken: Vec<M> = if broken!("idle_end_left_in_list") {
            lists.ms.iter().copied().take(bound).collect()
        } else {
            lists.ms.extract_if(.., may_end).take(bound).collect()
        };
        let more = unneeded > taken.len() && taken.len() == most;
        // The next call takes the others. If there are none, the count begins anew.
        lists.fewest_ms = if more { lists.fewest_ms - taken.len() } else { lists.ms.len() };
        self.parked_ms.store(lists.ms.len(), Ordering::Relaxed);
        (taken, more)
    }

    /// Returns `true` if `may` returns `true` for a parked M. *Runs on: any thread.*
    pub(crate) fn any_parked(&self, may: impl FnMut(&M) -> bool) -> bool {
        self.lists.lock().ms.iter().any(may)
    }

    /// Returns how many Ps are idle. *Runs on: any thread; a maker of work after its full fence.*
    #[inline]
    pub(crate) fn idle_ps(&self) -> usize {
        // SeqCst: after the work was published. Pairs with `give_up` and `look_again`.
        self.idle_ps.load(Ordering::SeqCst)
    }

    /// Returns the Ps that are not idle, from `first` on, and then those below. An idle P has no G. *Runs on:
    /// any thread; after `look_again` it misses no P that may have a G.*
    pub(crate) fn awake_ps(&self, first: usize) -> impl Iterator<Item = usize> + '_ {
        self.awake_ps.iter_from(first)
    }

    /// Returns `true` if `p` is not idle. *Runs on: a thread that holds `p`.*
    pub(crate) fn is_awake(&self, p: usize) -> bool {
        self.awake_ps.contains(p)
    }

    /// Returns `true` if no M has promised to look. *Runs on: any thread; a maker of work after its full
    /// fence.*
    #[inline]
    pub(crate) fn no_m_spins(&self) -> bool {
        // SeqCst: after the work was published. Pairs with `stop_spinning` and `look_again`.
        self.spinning.load(Ordering::SeqCst) == 0
    }

    /// Promises to look unless an M has promised; returns `true` if so. So makers of work wake one M at a
    /// time.
    pub(crate) fn start_spinning_alone(&self) -> bool {
        // SeqCst: one order of all counts and looks.
        self.spinning.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Promises to look unless at least half as many Ms spin as Ps are busy. Returns `true` if so.
    pub(crate) fn start_spinning(&self, ps: usize) -> bool {
        let busy = ps.saturating_sub(self.idle_ps.load(Ordering::Relaxed));
        // Relaxed: the bound only limits the cost.
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

    /// The fence between a change of the counts and a look at the queues. Pairs with the fence of a maker of
    /// work, which publishes first and then looks at the counts (`idle_ps`, `no_m_spins`).
    pub(crate) fn look_again(&self) {
        if !broken!("idle_no_fence_before_look") {
            crate::sync::full_fence();
        }
    }

    /// Publishes work by `publish`, and then asks an M to look for it by `wake`, which calls `wake_for_work`.
    /// Returns what `publish` returns. *Runs on: any thread.*
    #[inline]
    pub(crate) fn make_work<T>(&self, publish: impl FnOnce() -> T, wake: impl FnOnce()) -> T {
        let published = publish();
        // Between the publication and the look at the counts. Pairs with the fence in `look_again`.
        if !broken!("idle_maker_no_fence") {
            crate::sync::full_fence();
        }
        wake();
        published
    }

    /// Calls `wake` if a P is idle and no M has promised to look; calls `all_busy` if no P is idle. `wake`
    /// calls `take_to_look`. *Runs on: a maker of work, after a full fence.*
    #[inline]
    pub(crate) fn wake_for_work(&self, all_busy: impl FnOnce(), wake: impl FnOnce()) {
        if self.idle_ps() == 0 {
            all_busy();
        } else if self.no_m_spins() && !broken!("idle_maker_wakes_none") {
            wake();
        }
    }

    /// As `wake_for_work`, for one G in the queue of a P. `wake` is not called either if `is_lone` says that
    /// no other G waits there, and an M watches over lone Gs. *Runs on: as `wake_for_work`.*
    #[inline]
    pub(crate) fn wake_for_one(
        &self,
        is_lone: impl FnOnce() -> bool,
        all_busy: impl FnOnce(),
        wake: impl FnOnce(),
    ) {
        let watched = || self.is_watched() && is_lone();
        if self.idle_ps() == 0 {
            all_busy();
        } else if self.no_m_spins() && !watched() {
            wake();
        }
    }

    /// Promises to look for lone Gs again and again, unless an M has promised. Returns `true` if so.
    pub(crate) fn begin_watch(&self) -> bool {
        // SeqCst: one order of all counts and looks.
        self.watching.compare_exchange(0, 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Returns `true` if an M has promised to look for lone Gs again and again. *Runs on: any thread, after a
    /// full fence.*
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        // SeqCst: after the G was published, or after a promise was withdrawn. Pairs with `end_watch`.
        self.watching.load(Ordering::SeqCst) > 0
    }

    /// Withdraws that promise, and looks once more: returns `true` if `any_work` finds work, lone Gs
    /// included.
    pub(crate) fn end_watch(&self, any_work: impl FnOnce() -> bool) -> bool {
        if broken!("idle_watch_ends_after_its_look") {
            let found = any_work();
            self.watching.store(0, Ordering::SeqCst);
            return found;
        }
        // SeqCst: one order of all counts. Pairs with `is_watched`.
        self.watching.store(0, Ordering::SeqCst);
        self.look_again();
        any_work() && !broken!("idle_watch_ends_without_a_look")
    }

    /// Takes an idle P for an M that is to look for work, and makes that M's promise. Returns `None` if no P
    /// is idle, or an M has promised to look. *Runs on: a maker of work, after its fence.*
    pub(crate) fn take_to_look(&self, set_held: impl FnOnce(usize)) -> Option<usize> {
        if !self.start_spinning_alone() {
            return None;
        }
        let p = self.take(set_held);
        if p.is_none() {
            self.stop_spinning();
        }
        p
    }

    /// Withdraws the caller's promise if it has `promised`, and looks once more: returns `true` if `any_work`
    /// finds work. *Runs on: an M that goes to sleep or has found work; a thread that has put a P into the
    /// list.*
    #[inline]
    pub(crate) fn withdraw(&self, promised: bool, any_work: impl FnOnce() -> bool) -> bool {
        if promised {
            self.stop_spinning();
        }
        self.look_again();
        any_work() && !broken!("idle_no_second_look")
    }

    pub(crate) fn parked_ms(&self) -> usize {
        self.parked_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn spinning(&self) -> usize {
        self.spinning.load(Ordering::Relaxed)
    }

    /// Takes all parked Ms and all Ms in line for a P, because they are to end.
    pub(crate) fn unpark_all(&self) -> Vec<M> {
        let mut lists = self.lists.lock();
        self.parked_ms.store(0, Ordering::Relaxed);
        self.wanting_ms.0.store(0, Ordering::Relaxed);
        let lists = &mut *lists;
        lists.ms.drain(..).chain(lists.wanting.drain(..)).collect()
    }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn only_unneeded_ms_are_taken_the_longest_parked_first() {
        let (idle, all): (Idle<u32>, _) = (Idle::new(), |_: &u32| true);
        (0..10).for_each(|m| idle.park(m));
        // Ten Ms have parked since the last look, so each may have run until a moment ago.
        assert_eq!(idle.take_unneeded(2, 100, all), (vec![], false));
        // Three Ms are needed, and park again.
        let needed: Vec<u32> = (0..3).map(|_| idle.unpark().unwrap()).collect();
        assert_eq!(needed, [9, 8, 7]);
        needed.into_iter().for_each(|m| idle.park(m));
        assert_eq!(idle.take_unneeded(2, 4, all), (vec![0, 1, 2, 3], true));
        assert_eq!(idle.take_unneeded(2, 4, all), (vec![4], false));
        assert_eq!(idle.parked_ms(), 5);
        // The others have been parked ever since.
        assert_eq!(idle.take_unneeded(2, 100, all), (vec![5, 6, 9], false));
        assert_eq!(idle.take_unneeded(2, 100, all), (vec![], false));
        assert_eq!((idle.unpark(), idle.unpark(), idle.unpark()), (Some(7), Some(8), None));
    }

    #[test]
    fn ms_that_may_not_end_stay_parked() {
        let idle: Idle<u32> = Idle::new();
        (0..10).for_each(|m| idle.park(m));
        let odd = |m: &u32| m % 2 == 1;
        assert_eq!(idle.take_unneeded(2, 100, odd), (vec![], false));
        assert_eq!(idle.take_unneeded(2, 2, odd), (vec![1, 3], true));
        assert_eq!(idle.take_unneeded(2, 100, odd), (vec![5, 7, 9], false));
        assert_eq!(idle.take_unneeded(2, 100, odd), (vec![], false));
        assert_eq!(idle.parked_ms(), 5);
        assert!(idle.any_parked(|m| *m == 8) && !idle.any_parked(odd));
    }
}
