//! The life of a G: references, the end, and the join handle's interest, in one word. A spawn and a join
//! allocate nothing.
//!
//! The scheduler has a reference until the G has ended and left its stack. Each handle has a reference. The
//! result belongs to the join handle while `INTEREST` is set.
//!
//! ```text
//!   the G, ending                                  the join handle
//!   store the result                               is the G done? take the result
//!   complete   set DONE, read the other bits:      write the waiter, then
//!                INTEREST clear: drop the result   wait     set WAITER; DONE already? take the result
//!                WAITER set: wake the waiter       unwait   clear WAITER, unless DONE; then write another waiter
//!   release    the scheduler's reference           abandon  clear INTEREST; DONE already? drop the result
//! ```

use crate::sync::{
    atomic::{AtomicU64, Ordering, fence},
    broken,
};

const DONE: u64 = 1;
const WAITER: u64 = 2;
const INTEREST: u64 = 4;
const ONE: u64 = 8;

/// Returns `true` if a G with this word is done and has one reference. `try_retain` takes none beside it, so
/// its holder is alone.
#[inline]
fn is_last_of_done(word: u64) -> bool {
    word & DONE != 0 && word < 2 * ONE
}

/// The word of one G. The file's head explains its protocol.
#[derive(Debug)]
pub(crate) struct Life(AtomicU64);

/// What `complete` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// True if the result belongs to the join handle. If false, the caller must drop the result.
    pub(crate) wanted: bool,
    /// True if the join handle has a waiter. The caller must take that waiter.
    pub(crate) waiter: bool,
}

impl Life {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Self {
        Life(AtomicU64::new(DONE))
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Self {
        Life(AtomicU64::new(DONE))
    }

    /// Begins a life with two references: the scheduler's and the join handle's. *Runs on: the spawner,
    /// before another thread knows the G.*
    #[inline]
    pub(crate) fn begin(&self) {
        // Release: publishes what `G::begin` wrote. Pairs with the Acquire of `try_retain`.
        self.0.store((2 * ONE) | INTEREST, Ordering::Release);
    }

    /// Begins a life with one reference: that of a proxy G, or of a G without a join handle.
    pub(crate) fn begin_unjoined(&self) {
        // Release: publishes what `G::begin` wrote. Pairs with the Acquire of `try_retain`.
        self.0.store(ONE, Ordering::Release);
    }

    /// Takes a reference. *Runs on: a holder of a reference.*
    #[inline]
    pub(crate) fn retain(&self) {
        // Relaxed: the caller's own reference keeps the G.
        self.0.fetch_add(ONE, Ordering::Relaxed);
    }

    /// Takes a reference without having one. Returns `false` if the G has no reference left, or is done and
    /// has only one.
    pub(crate) fn try_retain(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word >= ONE && (!is_last_of_done(word) || broken!("life_retain_of_last")) {
            // Acquire: sees the name and the place of the G. Pairs with the Release of `begin`.
            match self.0.compare_exchange_weak(word, word + ONE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Gives a reference up. Returns `true` if it was the last: the G then belongs to the caller alone.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        if broken!("life_release_load_store") {
            let word = self.0.load(Ordering::Acquire);
            self.0.store(word - ONE, Ordering::Release);
            return word / ONE == 1;
        }
        // Acquire: pairs with the Release of the other holders below. No thread can take a reference beside
        // this one any more, so an exchange is not needed.
        if is_last_of_done(self.0.load(Ordering::Acquire)) {
            return true;
        }
        // Release: what this holder did comes before the reuse of the G. Pairs with the Acquire of the last
        // holder, above and below.
        if self.0.fetch_sub(ONE, Ordering::Release) / ONE != 1 {
            return false;
        }
        if cfg!(tsan) {
            // ThreadSanitizer knows no fences.
            self.0.load(Ordering::Acquire);
        } else {
            fence(Ordering::Acquire);
        }
        true
    }

    /// Marks the G as done, after the result is stored. *Runs on: the G.*
    #[inline]
    pub(crate) fn complete(&self) -> Ending {
        // Release: publishes the result; pairs with `is_done`, `wait`, `unwait` and `abandon`. Acquire: sees
        // the waiter that the join handle wrote; pairs with the Release of `wait`.
        let was = self.0.fetch_or(DONE, Ordering::AcqRel);
        Ending { wanted: was & INTEREST != 0, waiter: was & WAITER != 0 }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the Release of `complete`.
        self.0.load(Ordering::Acquire) & DONE != 0
    }

    /// Sets `WAITER`, after the waiter is written. Returns `false` if the G is done: the G will not use the
    /// waiter. *Runs on: the join handle.*
    #[inline]
    pub(crate) fn wait(&self) -> bool {
        if broken!("life_wait_no_done_look") {
            self.0.fetch_or(WAITER, Ordering::AcqRel);
            return true;
        }
        let mut word = self.0.load(Ordering::Acquire);
        while word & DONE == 0 {
            // Release: publishes the waiter; pairs with the Acquire of `complete`. Acquire on failure: sees
            // the result.
            match self.0.compare_exchange_weak(word, word | WAITER, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Clears `WAITER`. Returns `false` if the G is done, and has taken the waiter. *Runs on: the join
    /// handle, before it writes a waiter.*
    #[inline]
    pub(crate) fn unwait(&self) -> bool {
        if broken!("life_unwait_no_done_look") {
            self.0.fetch_and(!WAITER, Ordering::AcqRel);
            return true;
        }
        let mut word = self.0.load(Ordering::Acquire);
        while word & DONE == 0 {
            // Only the caller sets `WAITER`. If it is clear, the G will not use the waiter.
            if word & WAITER == 0 {
                return true;
            }
            match self.0.compare_exchange_weak(word, word & !WAITER, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Gives up the join handle's interest. Returns `false` if the G is done: the caller must then drop the
    /// result.
    #[inline]
    pub(crate) fn abandon(&self) -> bool {
        let mut word = self.0.load(Ordering::Acquire);
        while word & DONE == 0 {
            match self.0.compare_exchange_weak(word, word & !INTEREST, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::g::wait::{Cancel, Decision, Outcome, Wait};
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    struct Model {
        life: Life,
        result: UnsafeCell<u32>,
        joiner: UnsafeCell<u32>,
        wait: Wait,
    }

    fn model() -> Arc<Model> {
        let m = Model {
            life: Life::new(),
            result: UnsafeCell::new(0),
            joiner: UnsafeCell::new(0),
            wait: Wait::new(),
        };
        m.life.begin();
        Arc::new(m)
    }

    fn end(g: &Model) -> Option<Decision> {
        // SAFETY: (all of this module) the protocol gives each cell one owner at a time; loom checks that.
        g.result.with_mut(|r| unsafe { *r = 7 });
        let ending = g.life.complete();
        let decision = ending.waiter.then(|| {
            // SAFETY: one owner at a time; see `end`.
            let number = g.joiner.with(|j| unsafe { *j });
            g.wait.decide(number, Outcome::Woken)
        });
        if !ending.wanted {
            // SAFETY: one owner at a time; see `end`.
            g.result.with_mut(|r| unsafe { *r = 0 });
        }
        g.life.release();
        decision
    }

    #[test]
    fn a_joiner_gets_the_result() {
        loom::model(|| {
            let g = model();
            let ending = g.clone();
            let ending = thread::spawn(move || end(&ending));
            let mut parked = false;
            if !g.life.is_done() {
                let number = g.wait.arm(Cancel::Ends);
                // SAFETY: one owner at a time; see `end`.
                g.joiner.with_mut(|j| unsafe { *j = number });
                parked = g.life.wait() && g.wait.commit();
            }
            let decision = ending.join().unwrap();
            assert_eq!(parked, decision == Some(Decision::Parked), "a joiner parked for ever");
            assert!(g.life.is_done());
            // SAFETY: one owner at a time; see `end`.
            assert_eq!(g.result.with(|r| unsafe { *r }), 7);
            assert!(g.life.release());
        });
    }

    /// A join handle that is polled first, and then polled or joined again.
    #[test]
    fn a_second_wait_takes_the_first_waiter_back() {
        loom::model(|| {
            let g = model();
            let ending = g.clone();
            let ending = thread::spawn(move || end(&ending));
            for number in [7, 8] {
                if g.life.unwait() {
                    // SAFETY: one owner at a time; see `end`.
                    g.joiner.with_mut(|j| unsafe { *j = number });
                    g.life.wait();
                }
            }
            ending.join().unwrap();
            assert!(g.life.is_done());
        });
    }

    #[test]
    fn a_reference_to_a_dying_g_is_held_or_refused() {
        loom::model(|| {
            let g = model();
            g.life.complete();
            g.life.release();
            let looker = g.clone();
            let looker = thread::spawn(move || {
                let held = looker.life.try_retain();
                if held {
                    // SAFETY: a reference keeps the last holder from writing; loom checks that.
                    looker.result.with(|r| unsafe { *r });
                }
                held && looker.life.release()
            });
            let last = g.life.release();
            if last {
                // SAFETY: the last holder is alone; it uses the G again.
                g.result.with_mut(|r| unsafe { *r = 1 });
            }
            let looker_last = looker.join().unwrap();
            assert!(last != looker_last, "exactly one reference is the last");
        });
    }

    /// The scheduler and the join handle give their references up, while a third thread looks.
    #[test]
    fn the_last_reference_to_a_done_g_is_given_up_alone() {
        loom::model(|| {
            let g = model();
            g.life.complete();
            let give_up = |g: &Model| {
                if g.life.release() {
                    // SAFETY: the last holder is alone; it uses the G again.
                    g.result.with_mut(|r| unsafe { *r = 1 });
                }
            };
            let looker = thread::spawn({
                let g = g.clone();
                move || {
                    if g.life.try_retain() {
                        // SAFETY: a reference keeps the last holder from writing; loom checks that.
                        g.result.with(|r| unsafe { *r });
                        give_up(&g);
                    }
                }
            });
            let scheduler = thread::spawn({
                let g = g.clone();
                move || give_up(&g)
            });
            give_up(&g);
            looker.join().unwrap();
            scheduler.join().unwrap();
            // SAFETY: one owner at a time; see `end`.
            assert_eq!(g.result.with(|r| unsafe { *r }), 1, "no holder was the last");
        });
    }

    #[test]
    fn a_dropped_handle_and_the_end_drop_the_result_once() {
        loom::model(|| {
            let g = model();
            let ending = g.clone();
            let ending = thread::spawn(move || end(&ending));
            if !g.life.abandon() {
                // SAFETY: one owner at a time; see `end`.
                g.result.with_mut(|r| unsafe { *r = 0 });
            }
            let last = g.life.release();
            ending.join().unwrap();
            // SAFETY: one owner at a time; see `end`.
            g.result.with(|r| assert_eq!(unsafe { *r }, 0));
            let _ = last;
        });
    }
}
