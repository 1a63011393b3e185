//! The pause of an M with a G that computes without a P. Sysmon asks for it, and the M sleeps in a signal
//! handler until sysmon lets it go.
//!
//! ```text
//!   sysmon                                the M's thread, in the handler
//!   ask:  word = ASKED                    does the M run user code without a P? (`Lease::is_lost`) if not, go on
//!   send the signal                       does the G perhaps have a lock of the C library, or one of the runtime?
//!                                           ASKED -> GOES, and go on
//!   let_go:  word = GOES                  ASKED -> PAUSED; if the word was not ASKED, go on
//!     it was PAUSED? wake the thread      sleep while the word is PAUSED
//! ```
//!
//! A signal may come late, or interrupt the runtime, or code that has a P by now: the M then goes on. So the
//! M pauses only where it has neither a P nor a lock of the scheduler. User code that calls the runtime
//! without entering it may have a lock of the runtime, for instance that of a channel. The thread counts
//! these locks (`sync/hold.rs`). The sleep is the kernel's (`sys::preempt::sleep_while`). The kernel compares
//! the word before it puts the thread to sleep, so no wake-up is lost in between.

use crate::sync::{
    atomic::{AtomicU32, Ordering},
    broken,
    hold::Holds,
};

const GOES: u32 = 0;
const ASKED: u32 = 1;
/// The M's thread sleeps while the word has this value.
pub(crate) const PAUSED: u32 = 2;

/// What has become of the last `ask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paused {
    /// The M is paused.
    Is,
    /// The handler has not run yet, or not in user code without a P.
    WillBe,
    /// The M has refused, or was let go.
    Not,
}

/// The state of an M's pause.
#[derive(Debug)]
pub(crate) struct Pause {
    word: AtomicU32,
}

impl Pause {
    pub(crate) fn new() -> Self {
        Pause { word: AtomicU32::new(GOES) }
    }

    /// Asks the M to pause in the handler of the signal that the caller then sends. *Runs on: sysmon.*
    pub(crate) fn ask(&self) {
        // Relaxed, here and below: the word leads to no other data. A swap, because loom needs one on both
        // sides.
        self.word.swap(ASKED, Ordering::Relaxed);
    }

    /// Returns what has become of the last `ask`. *Runs on: any thread.*
    pub(crate) fn state(&self) -> Paused {
        match self.word.load(Ordering::Relaxed) {
            PAUSED => Paused::Is,
            ASKED => Paused::WillBe,
            _ => Paused::Not,
        }
    }

    /// Takes `ask` back, or ends the pause: `wake` then wakes the M's thread. *Runs on: sysmon, and a locker
    /// for which the M may have the lock (`m/crowd.rs`); one thread at a time.*
    pub(crate) fn let_go(&self, wake: impl FnOnce(&AtomicU32)) {
        if self.word.swap(GOES, Ordering::Relaxed) == PAUSED && !broken!("pause_let_go_wakes_none") {
            wake(&self.word);
        }
    }

    /// Refuses the pause, if sysmon has asked for one. *Runs on: the M, as `pause`.*
    pub(crate) fn refuse(&self) {
        let _ = self.word.compare_exchange(ASKED, GOES, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Pauses the M if sysmon has asked for that; refuses if the thread has a lock of the runtime, as `holds`
    /// says. `sleep` sleeps while the word is `PAUSED`. It returns `false` if the M is to go on by itself,
    /// because sysmon does not seem to run any more. *Runs on: the M, in the handler of the signal, in user
    /// code without a P.*
    pub(crate) fn pause(&self, holds: &Holds, mut sleep: impl FnMut(&AtomicU32) -> bool) {
        if holds.is_any() && !broken!("pause_with_a_lock") {
            return self.refuse();
        }
        let asked = self.word.compare_exchange(ASKED, PAUSED, Ordering::Relaxed, Ordering::Relaxed);
        if broken!("pause_unasked") {
            self.word.swap(PAUSED, Ordering::Relaxed);
        } else if asked.is_err() {
            return;
        }
        while self.word.load(Ordering::Relaxed) == PAUSED {
            if !sleep(&self.word) {
                let _ = self.word.compare_exchange(PAUSED, GOES, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::sync::atomic::AtomicBool;
    use crate::sync::hold::{self, Counted};
    use crate::sync::models::{Reached, explore};
    use crate::sync::{Condvar, Mutex, wait_on};
    use loom::{sync::Arc, thread};

    /// An M, and the kernel's queue of sleepers on its word.
    struct World {
        pause: Pause,
        queue: Mutex<()>,
        woken: Condvar,
    }

    impl World {
        fn new() -> Arc<World> {
            Arc::new(World { pause: Pause::new(), queue: Mutex::new(()), woken: Condvar::new() })
        }

        /// What the handler does. Calls `paused` if the thread sleeps.
        fn handle_signal(&self, paused: impl Fn()) {
            hold::of_this_thread(|holds| {
                self.pause.pause(holds, |word| {
                    // As the kernel: compares the word under the lock of the queue.
                    let mut queue = self.queue.lock();
                    if word.load(Ordering::Relaxed) == PAUSED {
                        paused();
                        queue = wait_on(&self.woken, queue, None);
                    }
                    drop(queue);
                    true
                });
            });
        }

        fn let_go(&self) {
            self.pause.let_go(|_| {
                let _queue = self.queue.lock();
                self.woken.notify_one();
            });
        }
    }

    /// Sysmon asks, sends the signal, and lets the M go. The signal may come at any time. The M goes on in
    /// the end.
    #[test]
    fn a_paused_m_goes_on() {
        static HAS_PAUSED: Reached = Reached::new();
        static IS_SEEN: Reached = Reached::new();
        explore(3, || {
            let world = World::new();
            world.pause.ask();
            let m = world.clone();
            // The thread stands for the handler.
            let m = thread::spawn(move || m.handle_signal(|| HAS_PAUSED.note(true)));
            IS_SEEN.note(world.pause.state() == Paused::Is);
            world.let_go();
            m.join().unwrap();
            assert_eq!(world.pause.state(), Paused::Not, "a late signal has paused the M");
        });
        HAS_PAUSED.assert();
        IS_SEEN.assert();
    }

    /// The guard of a modelled lock. The signal may come before or after the release.
    struct Release<'l, F: Fn(usize)>(Option<loom::sync::MutexGuard<'l, ()>>, &'l F);

    impl<F: Fn(usize)> Drop for Release<'_, F> {
        fn drop(&mut self) {
            self.1(4);
            self.0 = None;
            self.1(5);
        }
    }

    /// The M takes a counted lock and releases it, and the signal comes at any of seven steps. Another thread
    /// takes the lock before sysmon lets the M go, so a pause with the lock would be a deadlock.
    #[test]
    fn no_thread_waits_for_a_lock_of_a_paused_m() {
        const STEPS: usize = 7;
        static HAS_PAUSED: [Reached; STEPS] = [const { Reached::new() }; STEPS];
        static HAS_REFUSED: Reached = Reached::new();
        for at in 0..STEPS {
            explore(2, move || {
                let (world, lock) = (World::new(), Arc::new(Mutex::new(())));
                world.pause.ask();
                let m = thread::spawn({
                    let (world, lock) = (world.clone(), lock.clone());
                    move || {
                        let step = |step: usize| {
                            if step == at {
                                world.handle_signal(|| HAS_PAUSED[step].note(true));
                            }
                        };
                        step(0);
                        let held = Counted::take(|| {
                            step(1);
                            let release = Release(Some(lock.lock()), &step);
                            step(2);
                            release
                        });
                        step(3);
                        drop(held);
                        step(6);
                    }
                });
                drop(lock.lock());
                HAS_REFUSED.note(world.pause.state() == Paused::Not);
                world.let_go();
                m.join().unwrap();
            });
        }
        HAS_PAUSED[0].assert();
        HAS_PAUSED[6].assert();
        HAS_REFUSED.assert();
    }

    /// A lock that is not counted. (A thread that fails in `try_lock` of loom's mutex is blocked.)
    struct Spin(AtomicBool);

    impl Spin {
        fn new() -> Arc<Spin> {
            Arc::new(Spin(AtomicBool::new(false)))
        }

        fn try_lock(&self) -> bool {
            self.0.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }

        fn lock(&self) {
            while !self.try_lock() {
                thread::yield_now();
            }
        }

        fn unlock(&self) {
            self.0.store(false, Ordering::Release);
        }
    }

    /// The M pauses with a lock that is not counted, and sysmon does not let it go. A locker does, again and
    /// again. The locker may come before the request, between the request and the pause, or while sysmon has
    /// the list of hogs.
    #[test]
    fn a_locker_lets_the_holder_go() {
        static HAS_PAUSED: Reached = Reached::new();
        static IS_TOO_EARLY: Reached = Reached::new();
        explore(2, || {
            let (world, lock, hogs) = (World::new(), Spin::new(), Spin::new());
            let m = thread::spawn({
                let (world, lock) = (world.clone(), lock.clone());
                move || {
                    lock.lock();
                    world.handle_signal(|| HAS_PAUSED.note(true));
                    lock.unlock();
                }
            });
            let locker = thread::spawn({
                let (world, lock, hogs) = (world.clone(), lock.clone(), hogs.clone());
                move || {
                    while !lock.try_lock() {
                        if hogs.try_lock() {
                            IS_TOO_EARLY.note(world.pause.state() != Paused::Is);
                            world.let_go();
                            hogs.unlock();
                        }
                        thread::yield_now();
                    }
                    lock.unlock();
                }
            });
            hogs.lock();
            world.pause.ask();
            hogs.unlock();
            locker.join().unwrap();
            world.let_go();
            m.join().unwrap();
        });
        HAS_PAUSED.assert();
        IS_TOO_EARLY.assert();
    }
}
