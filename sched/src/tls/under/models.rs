//! Models of two Ms that go from block to block: no two are in one, and each finds there what the last has
//! left.

use super::{Enter, Under};
use crate::g::wait::{Cancel, Decision, Outcome, Wait};
use crate::sync::models::{Reached, Turns, explore};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A G that waits, and the words of its block.
struct Stopped {
    wait: Wait,
    block: UnsafeCell<usize>,
    turns: Turns,
}

/// The block of such a G.
#[derive(Clone, Copy)]
struct At(*const Stopped);

impl At {
    /// Reads and writes the words, as an M that is in the block does.
    fn touch(self) {
        // SAFETY: the G lives as long as the model. loom checks that no other thread is in the block.
        unsafe { (*self.0).block.with_mut(|words| *words += 1) };
    }
}

impl Enter for At {
    unsafe fn enter(self, m: usize) -> usize {
        self.touch();
        m
    }

    unsafe fn leave(self, home: usize) {
        assert_ne!(home, 0, "an M leaves for its own thread-locals");
        self.touch();
    }

    unsafe fn pass(self, to: Self, _m: usize, _home: usize) {
        to.touch();
        self.touch();
    }
}

impl Stopped {
    fn new() -> Stopped {
        Stopped { wait: Wait::new(), block: UnsafeCell::new(0), turns: Turns::default() }
    }

    fn at(&self) -> At {
        At(self)
    }

    /// Parks the G. Its M goes to `to` first. Returns `true` if the G is parked.
    fn stops(&self, under: &mut Under<At>, to: Option<At>) -> bool {
        // SAFETY: the caller is in the block, and `to` is its own.
        unsafe {
            under.go_then(to, || {
                self.turns.take();
                self.wait.commit()
            })
        }
    }

    /// Ends the wait. Runs the G if it was parked.
    fn wakes(&self, number: u32, under: &mut Under<At>) -> bool {
        self.turns.take();
        let parked = self.wait.decide(number, Outcome::Woken) == Decision::Parked;
        if parked {
            // SAFETY: this thread has woken the G, so it alone runs it.
            unsafe { under.go(Some(self.at())) };
            self.at().touch();
        }
        parked
    }
}

#[test]
fn a_block_is_left_before_another_m_enters_it() {
    static WOKEN: [Reached; 3] = [const { Reached::new() }; 3];
    explore(3, || {
        let gs = Arc::new([Stopped::new(), Stopped::new()]);
        let numbers = [0, 1].map(|g: usize| gs[g].wait.arm(Cancel::Ends));
        let other = gs.clone();
        let waker = thread::spawn(move || {
            let mut under = Under::home(2);
            let woken = [0, 1].map(|g: usize| other[g].wakes(numbers[g], &mut under));
            // SAFETY: this thread is in the block, if in any.
            unsafe { under.leave() };
            woken
        });
        // From the first G straight to the second, and from there home.
        let mut under = Under::home(1);
        // SAFETY: the other thread enters a block only after the stop of its G.
        unsafe { under.go(Some(gs[0].at())) };
        let first = gs[0].stops(&mut under, Some(gs[1].at()));
        gs[1].at().touch();
        let second = gs[1].stops(&mut under, None);
        let woken = waker.join().unwrap();
        assert_eq!(woken, [first, second], "a parked G is run by its waker");
        WOKEN[usize::from(first) + usize::from(second)].note(true);
    });
    WOKEN.iter().for_each(Reached::assert);
}
