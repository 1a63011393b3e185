//! How a wait in place ends. A G is parked together with its M, and a waker or the limit of the wait lets
//! that M go on.
//!
//! ```text
//!   a waker                                    the M, whose G has committed its wait
//!   decide the wait of the G                   until the waker has announced that:
//!   announce that         (the wish)             sleep on the note
//!   wake the note of the M                       at the limit: decide the wait as timed out; decided? go on
//! ```
//!
//! A wake-up of the note alone does not end the wait: it may have been meant for an earlier sleep of the M.
//! If a waker decides the wait before the M can do so at the limit, the M sleeps on until the waker's
//! announcement. Until then the waker uses the G's coroutine.

use super::wish::{Wish, WishWord};
use crate::sync::broken;

/// How a sleep of the M ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// By a wake-up of the note, or without a reason.
    Woken,
    /// By the limit of the wait.
    UntilLimit,
}

impl WishWord {
    /// Announces that the wait of the G that is parked on the M is decided; `wake_note` wakes the note of
    /// that M. *Runs on: the thread that has decided that wait. After this call that thread uses the G's
    /// coroutine no more.*
    pub(crate) fn end_wait(&self, wake_note: impl Fn()) {
        if broken!("in_place_note_first") {
            wake_note();
        }
        self.go_on();
        if !broken!("in_place_note_first") {
            wake_note();
        }
    }

    /// Waits until `end_wait` was called, or until `times_out` has decided the wait. `sleep` sleeps on the
    /// M's note: if its argument is true, no longer than until the limit. At the limit, `times_out` returns
    /// `true` if no waker had decided the wait. *Runs on: the M.*
    pub(crate) fn wait_in_place(&self, mut sleep: impl FnMut(bool) -> Slept, times_out: impl Fn() -> bool) {
        let mut limited = true;
        while !self.may_go_on() {
            match sleep(limited) {
                Slept::Woken if broken!("in_place_note_ends_wait") => return,
                Slept::Woken => {}
                Slept::UntilLimit if times_out() || broken!("in_place_limit_ends_wait") => return,
                // A waker has decided the wait, and is about to announce that.
                Slept::UntilLimit => limited = false,
            }
        }
    }

    /// Returns `true` once for each `end_wait`.
    fn may_go_on(&self) -> bool {
        // This M sees what the waker did before: `take` acquires what `go_on` releases.
        let wish = self.take();
        debug_assert!(
            matches!(wish, Wish::Nothing | Wish::GoOn),
            "an M in place stands in no list: {wish:?}"
        );
        wish == Wish::GoOn
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::g::wait::{Cancel, Decision, Outcome, Wait};
    use crate::sync::atomic::{AtomicBool, Ordering};
    use crate::sync::models::{Reached, explore};
    use loom::{cell::UnsafeCell, sync::Arc, sync::Notify, thread};

    /// An M with the G that is parked on it.
    struct World {
        wish: WishWord,
        /// As `Note`.
        note: (AtomicBool, Notify),
        wait: Wait,
        /// As the G's coroutine: the waker uses it before `end_wait`, and the G after its wait.
        coroutine: UnsafeCell<u32>,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World {
                wish: WishWord::new(),
                note: (AtomicBool::new(false), Notify::new()),
                wait: Wait::new(),
                coroutine: UnsafeCell::new(0),
            })
        }

        fn use_coroutine(&self) {
            // SAFETY: loom checks that no other thread uses it at the same time.
            self.coroutine.with_mut(|uses| unsafe { *uses += 1 });
        }

        /// As `Note::wake`.
        fn wake_note(&self) {
            if !self.note.0.swap(true, Ordering::AcqRel) {
                self.note.1.notify();
            }
        }

        /// As `Note::sleep`.
        fn sleep_on_note(&self) -> Slept {
            while !self.note.0.swap(false, Ordering::Acquire) {
                self.note.1.wait();
            }
            Slept::Woken
        }

        /// As `wake::wake`.
        fn wake(&self, number: u32) {
            if self.wait.decide(number, Outcome::Woken) == Decision::Parked {
                self.use_coroutine();
                self.wish.end_wait(|| self.wake_note());
            }
        }

        /// As `park_in_place`, for a wait that is armed.
        fn park(&self, sleep: impl FnMut(bool) -> Slept, times_out: impl Fn() -> bool) {
            if self.wait.commit() {
                self.wish.wait_in_place(sleep, times_out);
            }
            assert!(self.wait.is_decided(), "a wait in place ended undecided");
            self.use_coroutine();
        }
    }

    /// The note's wake-up of the first wait may come when the M has gone on without it, in the second wait.
    #[test]
    fn a_late_wake_up_of_the_note_ends_no_wait() {
        static LATE: Reached = Reached::new();
        explore(3, || {
            let m = World::new();
            let wakers = [0, 1].map(|round| {
                let (number, waker) = (m.wait.arm(Cancel::Ends), m.clone());
                let waker = thread::spawn(move || waker.wake(number));
                let sleep = |_| {
                    let slept = m.sleep_on_note();
                    LATE.note(round == 1 && m.wait.is_open(number));
                    slept
                };
                m.park(sleep, || unreachable!("the wait has no limit"));
                waker
            });
            wakers.into_iter().for_each(|waker| waker.join().unwrap());
        });
        LATE.assert();
    }

    /// The M ends its wait itself at the limit, or waits until the waker that was faster has said so.
    #[test]
    fn at_the_limit_the_m_or_the_waker_ends_the_wait() {
        static TIMED_OUT: Reached = Reached::new();
        static WOKEN: Reached = Reached::new();
        loom::model(|| {
            let m = World::new();
            let (number, waker) = (m.wait.arm(Cancel::Ends), m.clone());
            let waker = thread::spawn(move || waker.wake(number));
            let sleep = |limited| if limited { Slept::UntilLimit } else { m.sleep_on_note() };
            let times_out = || m.wait.decide(number, Outcome::TimedOut) == Decision::Parked;
            m.park(sleep, times_out);
            let timed_out = m.wait.outcome() == Outcome::TimedOut;
            waker.join().unwrap();
            assert!(!m.wish.may_go_on() || !timed_out, "a waker that lost the wait has ended it");
            TIMED_OUT.note(timed_out);
            WOKEN.note(!timed_out);
        });
        TIMED_OUT.assert();
        WOKEN.assert();
    }
}
