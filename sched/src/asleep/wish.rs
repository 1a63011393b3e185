//! What a parked M is woken for. The waker leaves a [`Wish`], and then wakes the M, which takes it.
//!
//! The kernel needs 5 to 100 us to wake a thread. In this time the P that was left for the thread does
//! nothing. So an M that is awake and finds no idle P may take that P over. It puts the M that was to have
//! the P back into the list of parked Ms.
//!
//! ```text
//!   the giver                       the M that is woken           another M without a P
//!   take the M out of the list      take the wish                 under the lock of the list:
//!   leave the wish                    a P: run                      take the P out of the wish, if it is still there
//!   wake the M                        nothing: leave the list;      put the woken M into the list
//!                                     not in it? sleep again
//! ```
//!
//! The giver wakes the M after it has left the wish. So an M that woke too early, and sleeps again, looks
//! once more.

use crate::sync::{
    atomic::{AtomicUsize, Ordering},
    broken,
};

/// What a parked M is woken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Nothing in particular: the runtime ends, the M is new and has no P, or another M has taken its P over.
    Nothing,
    /// Take P `p`, which has its lease held for this M. With `spinning`, keep the promise to look for work.
    Run { p: usize, spinning: bool },
    /// Watch the network and the timers without a P, unless another M does. The M has promised to look for
    /// work first.
    Watch,
    /// End the thread.
    End,
    /// Go on: the wait of the G that is parked in place on this M is over (`asleep/in_place.rs`).
    GoOn,
}

const NOTHING: usize = 0;
const END: usize = usize::MAX;
const WATCH: usize = usize::MAX - 1;
const GO_ON: usize = usize::MAX - 2;
// Other values: the P's number + 1 above these two bits.
const SPINNING: usize = 1;
const MAY_BE_TAKEN_OVER: usize = 2;

/// The wish of one M.
#[derive(Debug)]
pub(crate) struct WishWord(AtomicUsize);

impl WishWord {
    pub(crate) fn new() -> Self {
        WishWord(AtomicUsize::new(NOTHING))
    }

    /// Hands P `p` to this M, which is in line for a P, waits for one in place, or is about to start. With
    /// `spinning`, hands over the promise to look for work too. *Runs on: any thread; the caller then wakes
    /// the M.*
    pub(crate) fn hand(&self, p: usize, spinning: bool) {
        self.leave((p + 1) << 2 | usize::from(spinning));
    }

    /// Hands P `p` as `hand` does, to an M that was parked: another M may take the P over. *Runs on: the
    /// thread that took the M out of the idle list and then wakes it.*
    pub(crate) fn hand_to_parked(&self, p: usize, spinning: bool) {
        self.leave((p + 1) << 2 | MAY_BE_TAKEN_OVER | usize::from(spinning));
    }

    /// Leaves a parked M the wish to end its thread. *Runs on: as `hand_to_parked`.*
    pub(crate) fn end(&self) {
        self.leave(END);
    }

    /// Leaves a parked M the wish to watch the network and the timers, and hands over the promise to look for
    /// work. *Runs on: as `hand_to_parked`.*
    pub(crate) fn watch(&self) {
        self.leave(WATCH);
    }

    /// Lets the M go on with the G that is parked on it. *Runs on: the thread that has decided the wait of
    /// that G and then wakes the M.*
    pub(super) fn go_on(&self) {
        // Release: pairs with `take`. A swap, as in `leave`.
        let order = if broken!("in_place_said_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        let before = self.0.swap(GO_ON, order);
        debug_assert_eq!(before, NOTHING, "a wait in place was ended twice, or its M stood in a list");
    }

    fn leave(&self, wish: usize) {
        // Release: pairs with `take` and `take_over`. The note cannot order this: an M that is awake takes
        // the wish before the caller wakes the note. A swap and no store: loom then knows that the wish comes
        // after what an earlier `take` has left.
        self.0.swap(wish, Ordering::Release);
    }

    /// Takes the wish. *Runs on: the M that the wish is for.*
    pub(crate) fn take(&self) -> Wish {
        // Acquire: pairs with `leave`; this M sees what the earlier holder of the P did.
        Wish::from(self.0.swap(NOTHING, Ordering::Acquire))
    }

    /// Sleeps by `sleep` in the list of parked Ms until there is a wish; looks first, unless `sleeps`. If the
    /// M wakes up and finds no wish, it sleeps on if `goes_on` says so. Otherwise it leaves the list by
    /// `leave`, which returns `false` if another thread has taken the M out of the list. Returns the wish;
    /// `None` if the M has left the list by itself, so that no wish can come. *Runs on: the M.*
    pub(crate) fn await_in_list(
        &self,
        mut sleeps: bool,
        mut sleep: impl FnMut(),
        mut goes_on: impl FnMut() -> bool,
        mut leave: impl FnMut() -> bool,
    ) -> Option<Wish> {
        loop {
            if sleeps {
                sleep();
            }
            sleeps = true;
            match self.take() {
                Wish::Nothing if goes_on() => {}
                Wish::Nothing if leave() || broken!("wish_left_behind") => return None,
                // The thread that took the M out of the list is about to leave its wish, and to wake it once
                // more.
                Wish::Nothing => {}
                wish => return Some(wish),
            }
        }
    }

    /// Takes the P out of the wish, if there is one that was handed to a parked M. *Runs on: another M, under
    /// the lock of the idle lists, in which it then puts this M back.*
    pub(crate) fn take_over(&self) -> Option<Wish> {
        let wish = self.0.load(Ordering::Relaxed);
        if matches!(wish, END | WATCH | GO_ON) || wish & MAY_BE_TAKEN_OVER == 0 {
            return None;
        }
        if broken!("wish_taken_over_by_store") {
            self.0.store(NOTHING, Ordering::Relaxed);
            return Some(Wish::from(wish));
        }
        // Acquire: as in `take`. The value may be that of a later wish, which is as good.
        self.0.compare_exchange(wish, NOTHING, Ordering::Acquire, Ordering::Relaxed).ok().map(Wish::from)
    }
}

impl From<usize> for Wish {
    fn from(word: usize) -> Self {
        match word {
            NOTHING => Wish::Nothing,
            END => Wish::End,
            WATCH => Wish::Watch,
            GO_ON => Wish::GoOn,
            handed => Wish::Run { p: (handed >> 2) - 1, spinning: handed & SPINNING != 0 },
        }
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use crate::asleep::idle::Idle;
    use crate::sync::models::{Reached, Turns, explore};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::thread;
    use std::cell::Cell;

    const P: usize = 0;
    /// The M that sleeps in the list at first, and the M that has no P and looks for one.
    const SLEEPER: usize = 0;
    const LOOKER: usize = 1;

    struct World {
        idle: Idle<usize>,
        wishes: [WishWord; 2],
        /// That of the sleeper.
        note: (Mutex<bool>, Condvar),
        ends: AtomicUsize,
        turns: Turns,
    }

    impl World {
        fn new() -> Arc<World> {
            let world = World {
                idle: Idle::new(),
                wishes: [WishWord::new(), WishWord::new()],
                note: (Mutex::new(false), Condvar::new()),
                ends: AtomicUsize::new(0),
                turns: Turns::default(),
            };
            world.idle.park(SLEEPER);
            Arc::new(world)
        }

        /// Models `Note::wake` of the sleeper.
        fn wake(&self) {
            *self.note.0.lock().unwrap() = true;
            self.note.1.notify_one();
        }

        /// Models `Note::sleep`.
        fn sleep(&self) {
            let mut woken = self.note.0.lock().unwrap();
            while !std::mem::take(&mut *woken) {
                woken = self.note.1.wait(woken).unwrap();
            }
        }

        /// Models `Sched::start_m`. Returns `true` if the P stays with the caller, which would start a new M.
        fn start_m(&self) -> bool {
            self.turns.take();
            let Some(m) = self.idle.unpark() else { return true };
            self.wishes[m].hand_to_parked(P, false);
            if m == SLEEPER {
                self.wake();
            }
            false
        }

        /// Models `Sched::wait_for_p` up to the sleep. Returns `true` if M `m` has got the P.
        fn takes_or_parks(&self, m: usize) -> bool {
            self.turns.take();
            let idle = |p| Wish::Run { p, spinning: false };
            self.idle.take_or_park(m, idle, |woken| self.wishes[*woken].take_over()).is_some()
        }

        /// Models `Sched::sleep_until_handed`, and the next `wait_for_p`. Returns `true` if the sleeper has
        /// got the P. The M stays in the list when all ends.
        fn sleeps_and_looks(&self) -> bool {
            let ends = Cell::new(false);
            let sleep = || {
                self.sleep();
                ends.set(self.ends.load(Ordering::SeqCst) == 1);
            };
            let leave = || ends.get() || self.idle.leave(&SLEEPER);
            loop {
                match self.wishes[SLEEPER].await_in_list(true, sleep, || false, leave) {
                    None if ends.get() => return false,
                    None if self.takes_or_parks(SLEEPER) => return true,
                    None => {}
                    Some(wish) => {
                        assert_eq!(wish, Wish::Run { p: P, spinning: false });
                        return true;
                    }
                }
            }
        }

        /// Models `Sched::sleep_until_handed` of an M that watches, and finds at once that a lone G waits for
        /// too long. Returns the P that it has.
        fn watches_and_leaves(&self) -> Option<usize> {
            let leave = || self.idle.leave(&SLEEPER);
            match self.wishes[SLEEPER].await_in_list(false, || self.sleep(), || false, leave) {
                Some(Wish::Run { p, spinning: true }) => Some(p),
                Some(wish) => panic!("nothing leaves this wish: {wish:?}"),
                None => self.idle.take(|_| ()).inspect(|_| self.idle.count_spinning()),
            }
        }
    }

    /// A P is handed to a parked M, and another M without a P takes it over or parks. With `early`, the
    /// sleeper is woken before, as by a G in its own queue.
    fn one_m_has_the_p(early: bool, taken_over: &'static Reached) {
        explore(3, move || {
            let world = World::new();
            let sleeper = world.clone();
            let sleeper = thread::spawn(move || sleeper.sleeps_and_looks());
            let looker = world.clone();
            let looker = thread::spawn(move || looker.takes_or_parks(LOOKER));
            if early {
                world.wake();
            }
            let kept = world.start_m();
            let took_over = looker.join().unwrap();
            taken_over.note(took_over);
            world.ends.store(1, Ordering::SeqCst);
            world.wake();
            let sleeper_has = sleeper.join().unwrap();
            let looker_has = took_over || world.wishes[LOOKER].take() != Wish::Nothing;
            let holders = [kept, sleeper_has, looker_has].into_iter().filter(|has| *has).count();
            assert_eq!(holders, 1, "the P is lost, or two Ms have it");
            for (m, has_p) in [(SLEEPER, sleeper_has), (LOOKER, looker_has)] {
                assert_ne!(has_p, world.idle.leave(&m), "an M has a P or is in the list");
            }
        });
        taken_over.assert();
    }

    /// An M that watches over lone Gs leaves the list to take a P, while a maker of work wakes it with one.
    #[test]
    fn an_m_that_leaves_the_list_for_a_lone_g_has_one_p() {
        static WOKEN: Reached = Reached::new();
        static LEFT: Reached = Reached::new();
        explore(3, || {
            let world = World::new();
            for p in [P, P + 1] {
                world.idle.give_up(p, || true, || ());
            }
            let watcher = world.clone();
            let watcher = thread::spawn(move || watcher.watches_and_leaves());
            // As `Sched::wake_idle_p`; a P for which no M sleeps stays with the caller, and the promise too.
            let kept = world.idle.take_to_look(|_| ()).filter(|&p| match world.idle.unpark() {
                Some(m) => {
                    world.wishes[m].hand_to_parked(p, true);
                    world.wake();
                    WOKEN.note(true);
                    false
                }
                None => true,
            });
            LEFT.note(kept.is_some());
            let has = watcher.join().unwrap();
            assert_eq!(world.wishes[SLEEPER].take(), Wish::Nothing, "a P is left behind");
            let held = usize::from(has.is_some()) + usize::from(kept.is_some());
            assert_eq!(world.idle.idle_ps() + held, 2, "a P is lost");
            assert_eq!(world.idle.spinning(), held, "a promise without an M that keeps it");
        });
        WOKEN.assert();
        LEFT.assert();
    }

    #[test]
    fn a_p_that_is_taken_over_has_one_holder() {
        static TAKEN_OVER: Reached = Reached::new();
        one_m_has_the_p(false, &TAKEN_OVER);
    }

    #[test]
    fn an_m_that_wakes_early_is_in_the_list_or_has_the_p() {
        static TAKEN_OVER: Reached = Reached::new();
        one_m_has_the_p(true, &TAKEN_OVER);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::asleep::idle::Idle;

    fn takes_or_parks(idle: &Idle<usize>, wishes: &[WishWord; 3], m: usize) -> Option<Wish> {
        idle.take_or_park(m, |_| unreachable!("no P is idle"), |woken| wishes[*woken].take_over())
    }

    #[test]
    fn an_m_without_a_p_takes_over_that_of_an_m_that_still_sleeps() {
        let (idle, wishes) = (Idle::new(), [(); 3].map(|()| WishWord::new()));
        idle.park(0);
        assert_eq!(idle.unpark(), Some(0));
        wishes[0].hand_to_parked(7, true);
        assert_eq!(takes_or_parks(&idle, &wishes, 1), Some(Wish::Run { p: 7, spinning: true }));
        // The M that was woken is in the list again, for the next P.
        assert_eq!((wishes[0].take(), idle.parked_ms()), (Wish::Nothing, 1));
        assert_eq!(takes_or_parks(&idle, &wishes, 2), None);
        assert_eq!((idle.unpark(), idle.unpark(), idle.unpark()), (Some(2), Some(0), None));
    }

    #[test]
    fn no_other_wish_is_taken_over() {
        let leave: [fn(&WishWord); 4] = [
            |wish| wish.hand(7, false),
            WishWord::end,
            WishWord::watch,
            |wish| {
                wish.hand_to_parked(7, false);
                wish.take();
            },
        ];
        for leave in leave {
            let (idle, wishes) = (Idle::new(), [(); 3].map(|()| WishWord::new()));
            idle.park(0);
            assert_eq!(idle.unpark(), Some(0));
            leave(&wishes[0]);
            let left = wishes[0].take();
            leave(&wishes[0]);
            assert_eq!(takes_or_parks(&idle, &wishes, 1), None);
            assert_eq!(wishes[0].take(), left);
        }
    }
}
