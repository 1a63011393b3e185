//! Waits of std's code for a word of memory, as the hook of `futex` sees them. Three kinds look the same, and
//! must be distinguished:
//!
//! | the wait of | is |
//! | --- | --- |
//! | a green thread for a lock of std's | parked |
//! | the runtime: an M that sleeps, a G that has armed its own wait | left to the kernel |
//! | `std::thread::park`, also inside of std's `mpsc` | parked, and its M is claimed |
//!
//! [`StdWaiter::of_caller`] says of which kind a wait is. Its caller has the table of the waiters. (Feature
//! `interpose`.)
//!
//! **`std::thread::park` on a green thread.** Its token belongs to the OS thread. So do the names by which
//! channels know their waiters: a sender of std's `mpsc` passes over a receiver with the sender's own thread
//! id. So a G that parks so *claims* its M until it ends (`run/reserved.rs`): no other G comes to that OS
//! thread. `m/std_parker.rs` has the word, and says what happens beside the Gs that were bound to the M
//! before.
//!
//! Rejected:
//!
//! - *A claim for the time of the wait.* The next wait could begin where Gs are bound, and they would have
//!   the waiter's thread id.
//! - *Other Gs are moved off a claimed M.* A caught call promises its caller the same OS thread.
//! - *The waiter moves to an M without bound Gs.* The channel has written down the waiter's thread id and its
//!   token before the first caught call. Nothing before that call is: std's `recv` makes no other one.
//! - *Gs in caught calls share no M with free Gs*, so that no free G claims beside them. Any free G may make
//!   its first caught call, in frames of C already. So each would need an M of its own.

#![allow(unsafe_code)]

use std::ptr;
use std::sync::atomic::AtomicU32;

use timers::clock;

use crate::api::foreign::is_user_code;
use crate::m::OwnM;
use crate::m::current::{current_g, on_m};
use crate::m::std_parker::{LIMIT, word::PARKED};

/// Which code waits for a word of memory. The file's head lists the kinds.
#[derive(Debug)]
pub enum StdWaiter {
    /// The caller asks the kernel.
    Kernel,
    /// The M learns the address of its word, and waits for nothing: the wait has timed out.
    Learner,
    /// A green thread, for a lock of std's.
    Lock,
    /// A green thread in `std::thread::park`.
    Park(StdPark),
}

impl StdWaiter {
    /// Returns which code of the caller is about to wait for `word`. *Runs on: any thread.*
    pub fn of_caller(word: &AtomicU32) -> StdWaiter {
        if !is_user_code() {
            // The kernel would wait until a time of the simulated clock, on an M of a simulation.
            let learns = on_m(|m| m.own().std_parker.sees(word)) == Some(true);
            return if learns { StdWaiter::Learner } else { StdWaiter::Kernel };
        }
        let Some(g) = current_g() else { return StdWaiter::Kernel };
        if !g.wait.is_decided() {
            // The runtime is about to park this G, and waits for a lock of its own first.
            return StdWaiter::Kernel;
        }
        if on_m(|m| m.own().std_parker.is(word)) == Some(true) {
            return StdWaiter::Park(StdPark(()));
        }
        StdWaiter::Lock
    }
}

/// Evidence that the caller is about to wait as `std::thread::park` does.
#[derive(Debug)]
#[must_use]
pub struct StdPark(());

impl StdPark {
    /// Claims the M and waits by `wait`, until `until` on the runtime's clock at the latest. Returns `true`
    /// if that time has come, and `false` if std is to look at `word` again.
    ///
    /// `word` is that of `of_caller`, and `expected` is the value for which std waits. `wait` parks the
    /// caller until the time that it is given, and returns `true` if the time was up. `wake` wakes all that
    /// wait for the word at an address. *Runs on: the green thread, before its next wait.*
    ///
    /// # Panics
    /// Panics on a thread that is no green thread.
    #[cold]
    pub fn wait(
        self,
        word: &AtomicU32,
        expected: u32,
        until: u64,
        wake: fn(usize),
        wait: impl FnOnce(u64) -> bool,
    ) -> bool {
        let g = current_g().expect("a green thread parks");
        let m = on_m(|m| ptr::from_ref(m.shared())).expect("a green thread runs on an M");
        // SAFETY: the M of this OS thread exists while a G runs on it. This G returns to the M after its
        // wait, because the G claims the M or is pinned.
        let m = unsafe { OwnM::new(&*m) };
        if !g.is_pinned() || g.binding.is_home() {
            // SAFETY: `g` runs here, on `m`.
            unsafe { g.claim(m) };
        }
        let alone = m.homes.count() == usize::from(g.binding.is_home());
        let limit = if alone { clock::NEVER } else { clock::after(LIMIT) };
        debug_assert_eq!(expected, PARKED, "std's `thread::park` waits for another value");
        m.own().std_parker.begins(wake);
        let timed_out = wait(until.min(limit)) && until <= limit;
        m.own().std_parker.ends(word, timed_out);
        timed_out
    }
}
