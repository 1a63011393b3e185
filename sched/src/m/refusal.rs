//! What happens after a thread was refused, by the system or by `max_threads`: the P for it goes idle, and
//! sysmon tries again.
//!
//! ```text
//!   the thread that wanted an M for its P       sysmon, every 100 ms after a refusal
//!   release the P into the idle list            forget the refusal   (`take`)
//!   note the refusal                            take an idle P for which work waits, and start an M for it
//!   ask sysmon for a look
//! ```
//!
//! The P is released first. If sysmon forgot the refusal while the P was still held, it would find no idle P,
//! and never try again.

use crate::sync::{
    atomic::{AtomicBool, Ordering},
    broken,
};

/// True from a refused start of a thread until a later start has been tried.
#[derive(Debug)]
pub(crate) struct Refusal(AtomicBool);

impl Refusal {
    pub(crate) fn new() -> Self {
        Refusal(AtomicBool::new(false))
    }

    /// Releases the P by `release`, notes the refusal, and then asks sysmon for a look by `ask`. *Runs on:
    /// the thread that was refused a thread for its P.*
    pub(crate) fn note_after(&self, release: impl FnOnce(), ask: impl FnOnce()) {
        let early = broken!("refusal_noted_before_release");
        if early {
            self.0.swap(true, Ordering::Release);
        }
        release();
        if !early {
            // Release: pairs with `take`. A thread that takes the refusal finds the P in the idle list. A
            // swap, because loom may put a plain store before a swap that has not read it.
            self.0.swap(true, Ordering::Release);
        }
        if !broken!("refusal_asks_for_no_look") {
            ask();
        }
    }

    /// Returns `true` if a thread was refused, and nothing has tried again since. *Runs on: any thread.*
    pub(crate) fn is_there(&self) -> bool {
        // Relaxed: only `take` orders other data.
        self.0.load(Ordering::Relaxed)
    }

    /// Returns what `is_there` does, and forgets the refusal. *Runs on: sysmon, which then tries again.*
    pub(crate) fn take(&self) -> bool {
        // Acquire: pairs with `note_after`.
        self.0.swap(false, Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::asleep::idle::Idle;
    use crate::asleep::plan::Plan;
    use crate::sync::models::{Reached, Turns};
    use crate::sync::{Condvar, Mutex, wait_on};
    use loom::sync::Arc;
    use loom::thread;

    /// The time of the next try, and the time that never comes.
    const NEXT_TRY: u64 = 100;
    const NEVER: u64 = u64::MAX;

    struct World {
        refusal: Refusal,
        idle: Idle<()>,
        plan: Plan,
        note: (Mutex<bool>, Condvar),
        turns: Turns,
    }

    impl World {
        /// Models `Sched::start_m` after the system has refused the thread. Another P, or an earlier try, had
        /// one refused before.
        fn fail(&self) {
            let release = || {
                self.turns.take();
                assert!(matches!(self.idle.give_up(0, || true, || ()), crate::asleep::idle::GiveUp::Idle));
            };
            self.refusal.note_after(release, || {
                if self.plan.ask(NEXT_TRY) {
                    *self.note.0.lock() = true;
                    self.note.1.notify_one();
                }
            });
        }

        /// Models `Sched::ask_again_for_threads`. Returns `true` if sysmon has taken the P.
        fn try_again(&self) -> bool {
            self.turns.take();
            self.refusal.take() && self.idle.take(|_| ()).is_some()
        }

        /// Models `Sysmon::next_look` and `Monitor::sleep`. A sleep with a limit ends by itself.
        fn sleep(&self) {
            self.turns.take();
            let until = if self.refusal.is_there() { NEXT_TRY } else { NEVER };
            self.plan.sleep(
                until,
                true,
                || false,
                |until| {
                    let mut woken = self.note.0.lock();
                    while until == NEVER && !*woken {
                        woken = wait_on(&self.note.1, woken, None);
                    }
                    *woken = false;
                },
            );
        }
    }

    /// The only P cannot be given to a thread while sysmon tries again for an earlier refusal. If sysmon
    /// never takes the P, it sleeps for ever, which loom reports.
    #[test]
    fn sysmon_tries_again_for_a_p_that_was_released_meanwhile() {
        static AT_ONCE: Reached = Reached::new();
        static LATER: Reached = Reached::new();
        loom::model(|| {
            let world = Arc::new(World {
                refusal: Refusal::new(),
                idle: Idle::new(),
                plan: Plan::new(),
                note: (Mutex::new(false), Condvar::new()),
                turns: Turns::default(),
            });
            world.refusal.note_after(|| (), || ());
            let starter = world.clone();
            let starter = thread::spawn(move || starter.fail());
            let at_once = world.try_again();
            AT_ONCE.note(at_once);
            LATER.note(!at_once);
            if !at_once {
                world.sleep();
                while !world.try_again() {
                    world.sleep();
                }
            }
            starter.join().unwrap();
        });
        AT_ONCE.assert();
        LATER.assert();
    }
}
