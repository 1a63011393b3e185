//! Who still needs a G, and whether it has ended: one word, so that a spawn and a join allocate nothing.
//!
//! A G has a reference for the scheduler (until it has ended and left its stack) and one for every handle. The
//! join handle is special: the result belongs to it while `INTEREST` is set.
//!
//! ```text
//!   the G, ending                                  the join handle
//!   store the result                               is it done? take the result
//!   complete   set DONE, see the other bits:       write who waits, then
//!                INTEREST gone: drop the result    wait     set WAITER; DONE already? take the result
//!                WAITER: wake it                   unwait   clear WAITER, unless DONE; then another may be written
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

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Life(AtomicU64);

/// What `complete` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    /// The result is still the join handle's. If not, it is the caller's to drop.
    pub(crate) wanted: bool,
    /// Somebody waits in the join handle; who it is, is the caller's to take.
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

    /// A G begins, with the scheduler's reference and the join handle's.
    /// *Runs on: whoever makes the G, before anyone knows it.*
    #[inline]
    pub(crate) fn begin(&self) {
        // Release: who the G is; pairs with the Acquire of `try_retain`.
        self.0.store((2 * ONE) | INTEREST, Ordering::Release);
    }

    /// The face of a plain OS thread begins, or a G that nobody joins: one reference.
    pub(crate) fn begin_unjoined(&self) {
        // Release: as in `begin`.
        self.0.store(ONE, Ordering::Release);
    }

    /// Takes a reference. *Runs on: a holder of one.*
    #[inline]
    pub(crate) fn retain(&self) {
        // Relaxed: a reference is made from a reference.
        self.0.fetch_add(ONE, Ordering::Relaxed);
    }

    /// Takes a reference without having one, if the G is still needed by anyone.
    pub(crate) fn try_retain(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        while word >= ONE {
            // Acquire: what made this G what it is (its name, its place) is then ours to read.
            match self.0.compare_exchange_weak(word, word + ONE, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Gives a reference up; `true`: it was the last, and the G is the caller's alone.
    #[inline]
    pub(crate) fn release(&self) -> bool {
        if broken!("life_release_load_store") {
            let word = self.0.load(Ordering::Acquire);
            self.0.store(word - ONE, Ordering::Release);
            return word / ONE == 1;
        }
        // Release: what this holder did comes before the G is used again; pairs with the Acquire of the last one.
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

    /// The result is stored. *Runs on: the G.*
    #[inline]
    pub(crate) fn complete(&self) -> Ending {
        // Release: the result, for the join handle. Acquire: who waits, as the join handle wrote it.
        let was = self.0.fetch_or(DONE, Ordering::AcqRel);
        Ending { wanted: was & INTEREST != 0, waiter: was & WAITER != 0 }
    }

    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        // Acquire: pairs with the Release of `complete`.
        self.0.load(Ordering::Acquire) & DONE != 0
    }

    /// Who waits is written; `false` if the G has ended meanwhile (and looks at it no more).
    /// *Runs on: the join handle.*
    #[inline]
    pub(crate) fn wait(&self) -> bool {
        if broken!("life_wait_no_done_look") {
            self.0.fetch_or(WAITER, Ordering::AcqRel);
            return true;
        }
        let mut word = self.0.load(Ordering::Acquire);
        while word & DONE == 0 {
            // Release: who waits; pairs with `complete`. Acquire on failure: the result.
            match self.0.compare_exchange_weak(word, word | WAITER, Ordering::Release, Ordering::Acquire) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Nobody waits any more; `false` if the G has ended meanwhile and has taken who waited.
    /// *Runs on: the join handle, before it writes who waits.*
    #[inline]
    pub(crate) fn unwait(&self) -> bool {
        if broken!("life_unwait_no_done_look") {
            self.0.fetch_and(!WAITER, Ordering::AcqRel);
            return true;
        }
        let mut word = self.0.load(Ordering::Acquire);
        while word & DONE == 0 {
            // Only the caller sets it: there is none to clear, and nobody will look at who waits.
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

    /// The join handle goes; `false` if the G has ended and the result is the caller's to drop.
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
        // SAFETY: (all of this module) the protocol gives each cell one owner at a time; loom checks it.
        g.result.with_mut(|r| unsafe { *r = 7 });
        let ending = g.life.complete();
        let decision = ending.waiter.then(|| {
            // SAFETY: as above.
            let number = g.joiner.with(|j| unsafe { *j });
            g.wait.decide(number, Outcome::Woken)
        });
        if !ending.wanted {
            // SAFETY: as above.
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
                // SAFETY: as above.
                g.joiner.with_mut(|j| unsafe { *j = number });
                parked = g.life.wait() && g.wait.commit();
            }
            let decision = ending.join().unwrap();
            assert_eq!(parked, decision == Some(Decision::Parked), "a joiner parked for ever");
            assert!(g.life.is_done());
            // SAFETY: as above.
            assert_eq!(g.result.with(|r| unsafe { *r }), 7);
            assert!(g.life.release());
        });
    }

    /// As when a join handle is polled first, and then polled or joined again.
    #[test]
    fn who_waits_again_takes_the_first_waiter_back() {
        loom::model(|| {
            let g = model();
            let ending = g.clone();
            let ending = thread::spawn(move || end(&ending));
            for number in [7, 8] {
                if g.life.unwait() {
                    // SAFETY: as above.
                    g.joiner.with_mut(|j| unsafe { *j = number });
                    g.life.wait();
                }
            }
            ending.join().unwrap();
            assert!(g.life.is_done());
        });
    }

    #[test]
    fn who_looks_at_a_dying_g_holds_it_or_gets_nothing() {
        loom::model(|| {
            let g = model();
            g.life.complete();
            g.life.release();
            let looker = g.clone();
            let looker = thread::spawn(move || {
                let held = looker.life.try_retain();
                if held {
                    // SAFETY: as above.
                    looker.result.with(|r| unsafe { *r });
                }
                held && looker.life.release()
            });
            let last = g.life.release();
            if last {
                // SAFETY: as above: the last one uses the G again.
                g.result.with_mut(|r| unsafe { *r = 1 });
            }
            let looker_last = looker.join().unwrap();
            assert!(last != looker_last, "exactly one is the last");
        });
    }

    #[test]
    fn a_dropped_handle_and_the_end_drop_the_result_once() {
        loom::model(|| {
            let g = model();
            let ending = g.clone();
            let ending = thread::spawn(move || end(&ending));
            if !g.life.abandon() {
                // SAFETY: as above.
                g.result.with_mut(|r| unsafe { *r = 0 });
            }
            let last = g.life.release();
            ending.join().unwrap();
            // SAFETY: as above.
            g.result.with(|r| assert_eq!(unsafe { *r }, 0));
            let _ = last;
        });
    }
}
