//! How a locker of a short lock waits for the holder: it spins, then yields its CPU, and then sleeps.
//!
//! Such a lock guards a few words for a few instructions, and its holder neither parks nor enters the
//! runtime. So only the kernel and a pause can delay a holder.
//!
//! The sleep is for a locker of real-time priority. The yield of such a locker does not let a holder of lower
//! priority run, and the holder may need that CPU. A locker that has yielded a few times lets all paused hogs
//! go, because one of them may be the holder (`m/crowd.rs`).

use std::time::Duration;

use crate::m::crowd;
use crate::sys;

/// The pauses of a locker before its first look; they double with each look. Two cores that alternate on a
/// lock transfer its cache line, and all that it guards, each time. While one core pauses, the other takes
/// the lock again and again without a transfer.
const FIRST_PAUSES: u32 = 16;
/// After this many pauses the locker yields its CPU: a holder that runs would have released the lock by now.
const MOST_PAUSES: u32 = 128;
/// After this many pauses and yields the locker sleeps.
const MOST_PAUSES_AND_YIELDS: u32 = 2 * MOST_PAUSES + 64;
/// After so many yields the locker lets all paused hogs go, again and again.
const YIELDS: u32 = 8;
const SLEEP: Duration = Duration::from_micros(50);

/// The state of a locker that waits for a short lock: how long it pauses before its next look.
#[derive(Debug)]
pub struct Backoff {
    pauses: u32,
}

impl Backoff {
    /// Makes the state of a locker that has found the lock taken once.
    pub const fn new() -> Backoff {
        Backoff { pauses: FIRST_PAUSES }
    }

    /// Waits a little before the next look at the lock: 16 pauses of the processor at first, 50 us at most.
    /// Neither parks nor runs code of the user. *Runs on: any thread.*
    pub fn wait(&mut self) {
        if self.pauses <= MOST_PAUSES {
            (0..self.pauses).for_each(|_| std::hint::spin_loop());
            self.pauses *= 2;
        } else if self.pauses < MOST_PAUSES_AND_YIELDS {
            if self.pauses % YIELDS == YIELDS - 1 {
                // A holder that may run has had its chance.
                crowd::let_all_go();
            }
            sys::yield_thread();
            self.pauses += 1;
        } else {
            crowd::let_all_go();
            sys::sleep_thread(SLEEP);
        }
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::new()
    }
}
