//! The mask of the process's first OS thread: what all green threads block. By it signals to the process stay
//! pending that no green thread wants.
//!
//! ```text
//!   a green thread that blocks a signal            the first OS thread
//!   count it among the blockers                    waits for an order
//!   the mask is another one: ASKED = mask,
//!     the orders + 1, wake ──────────────────────> set ASKED in the kernel
//!   wait until the order is done <──────────────── DONE = the order, wake
//! ```
//!
//! A thread that blocks a signal waits, because the signal must not come any more when `pthread_sigmask`
//! returns. A handler may run on the first OS thread for long: the wait has a limit.
//!
//! Threads that block nothing are counted by `LIVE` alone, until the first mask is changed.

use std::ffi::c_int;
use std::time::Duration;

use sched::sync::Mutex;
use timers::clock;

use super::kernel::{NEVER, set_kernel};
use crate::futex;
use crate::poll::timespec_of;
use crate::raw::call;
use crate::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::sync::{broken, statics};

#[cfg(all(test, loom))]
mod models;

statics! {
    /// The green threads of pthread that have not ended, with the first one.
    static LIVE: AtomicU32 = AtomicU32::new(0);
    /// True once a green thread has had a mask.
    static ANY: AtomicBool = AtomicBool::new(false);
    static COMMON: Mutex<Common> = Mutex::new(Common { blockers: [0; 64], suspended: [0; 64], ever: 0 });
    /// The mask that the first OS thread is to have.
    static ASKED: AtomicU64 = AtomicU64::new(0);
    /// How often `ASKED` was changed.
    static ORDERS: AtomicU32 = AtomicU32::new(0);
    /// The last order that the first OS thread has carried out.
    static DONE: AtomicU32 = AtomicU32::new(0);
    /// True while the first OS thread carries out orders, or is about to.
    static SERVES: AtomicBool = AtomicBool::new(false);
}

/// So long a thread waits for the first OS thread, which may run a handler.
const LIMIT: Duration = Duration::from_secs(1);

/// By signal.
struct Common {
    /// The green threads that block it.
    blockers: [u32; 64],
    /// The green threads in `sigsuspend` that wait for it.
    suspended: [u32; 64],
    /// The signals that were ever counted. The others need no look.
    ever: u64,
}

impl Common {
    /// Asks for the mask that follows from the counts. Returns the number of the order.
    fn ask(&self) -> u32 {
        // SeqCst: the partner is `ends`.
        let live = LIVE.load(Ordering::SeqCst);
        let is_in = |at: usize| self.blockers[at] >= live.max(1) || self.suspended[at] > 0;
        let mask = bits(self.ever).filter(|&at| is_in(at)).fold(0, |mask, at| mask | 1 << at) & !NEVER;
        // Relaxed: under the lock of the counts. `ORDERS` publishes it.
        if ASKED.swap(mask, Ordering::Relaxed) == mask {
            return ORDERS.load(Ordering::Relaxed);
        }
        give_order()
    }

    /// Calls `count` for each signal of a set.
    fn count(&mut self, set: u64, count: impl Fn(&mut Common, usize)) {
        self.ever |= set;
        bits(set).for_each(|at| count(self, at));
    }
}

/// Returns the numbers of the bits of a set.
fn bits(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (set != 0).then_some(set.trailing_zeros() as usize);
        set &= set.wrapping_sub(1);
        at
    })
}

/// Wakes the first OS thread. Returns the number of the order.
fn give_order() -> u32 {
    // Release: pairs with the Acquire in `serve`, which reads `ASKED` afterwards.
    let release = if broken!("masks_order_relaxed") { Ordering::Relaxed } else { Ordering::Release };
    let order = ORDERS.fetch_add(1, release).wrapping_add(1);
    futex::wake_in_kernel(ORDERS.as_ptr().expose_provenance(), 1);
    order
}

/// Waits until the first OS thread has carried out an order.
fn wait_for(order: u32) {
    let until = clock::after(LIMIT);
    loop {
        // Acquire, both: pair with the Release in `serve`.
        let done = DONE.load(Ordering::Acquire);
        if done.wrapping_sub(order).cast_signed() >= 0 || !SERVES.load(Ordering::Acquire) {
            return;
        }
        let left = until.saturating_sub(clock::now());
        if left == 0 {
            return;
        }
        wait_in_kernel(&DONE, done, Some(Duration::from_nanos(left)));
    }
}

/// Waits while the word is `value`, or for `time`. Never parks: callers have locks, or are the first OS
/// thread.
fn wait_in_kernel(word: &AtomicU32, value: u32, time: Option<Duration>) {
    let time = time.map(timespec_of);
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel reads the word and the time.
    unsafe { call!(libc::SYS_futex, word.as_ptr(), operation, value, time) };
}

/// Lets threads wait for what they order. *Runs on: the first OS thread, before the first green thread, which
/// may order at once.*
pub(in super::super) fn begin_to_serve() {
    // Release: pairs with the Acquire in `wait_for`.
    SERVES.store(!broken!("masks_serves_late"), Ordering::Release);
}

/// Carries out orders until `is_over`. Returns with the mask of the last one. *Runs on: the first OS thread,
/// after `begin_to_serve`.*
pub(in super::super) fn serve(is_over: impl Fn() -> bool) {
    if broken!("masks_serves_late") {
        SERVES.store(true, Ordering::Release);
    }
    loop {
        // Acquire: pairs with the Release in `give_order`.
        let mut order = ORDERS.load(Ordering::Acquire);
        set_kernel(ASKED.load(Ordering::Relaxed));
        if broken!("masks_order_is_read_late") {
            order = ORDERS.load(Ordering::Acquire);
        }
        // Release, here and below: pairs with the Acquire in `wait_for`.
        let release = if broken!("masks_done_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        if !broken!("masks_wakes_before_it_is_done") {
            DONE.store(order, release);
        }
        let done = DONE.as_ptr().expose_provenance();
        futex::wake_in_kernel(done, c_int::MAX as usize);
        if broken!("masks_wakes_before_it_is_done") {
            DONE.store(order, release);
        }
        if is_over() {
            SERVES.store(false, Ordering::Release);
            futex::wake_in_kernel(done, c_int::MAX as usize);
            return;
        }
        wait_in_kernel(&ORDERS, order, None);
    }
}

/// Lets the first OS thread look whether it is over.
pub(in super::super) fn look() {
    // The lock orders this after what the caller has done, and keeps `ask` from a number that is not its own.
    let _counts = COMMON.lock();
    give_order();
}

/// Counts a thread that is about to begin, with its mask.
pub(in super::super) fn begins(mask: u64) {
    // SeqCst: as in `ends`.
    if mask == 0 && !ANY.load(Ordering::SeqCst) {
        LIVE.fetch_add(1, Ordering::SeqCst);
        return;
    }
    ANY.store(true, Ordering::SeqCst);
    let mut common = COMMON.lock();
    LIVE.fetch_add(1, Ordering::SeqCst);
    common.count(mask, |counts, at| counts.blockers[at] += 1);
    common.ask();
}

/// Counts a thread that has ended, or could not be started, with its mask. Returns `true` if it was the last.
pub(in super::super) fn ends(mask: u64) -> bool {
    // SeqCst, both: the partner is `changed`. Either this thread sees that there are masks, or that one
    // counts without this thread.
    if mask == 0 && !ANY.load(Ordering::SeqCst) {
        let was_last = LIVE.fetch_sub(1, Ordering::SeqCst) == 1;
        if ANY.load(Ordering::SeqCst) && !broken!("masks_end_does_not_look_again") {
            COMMON.lock().ask();
        }
        return was_last;
    }
    let mut common = COMMON.lock();
    let was_last = LIVE.fetch_sub(1, Ordering::SeqCst) == 1;
    common.count(mask, |counts, at| counts.blockers[at] -= 1);
    if !was_last {
        common.ask();
    }
    was_last
}

/// Returns `true` if no green thread of pthread is left.
pub(in super::super) fn are_none_left() -> bool {
    LIVE.load(Ordering::SeqCst) == 0
}

/// Counts the new mask of a thread. Returns when the process has no OS thread that takes a signal which all
/// threads block.
pub(super) fn changed(before: u64, mask: u64) {
    // SeqCst: the partner is `ends`, and the read of `LIVE` follows in `ask`.
    if !broken!("masks_change_is_noted_late") {
        ANY.store(true, Ordering::SeqCst);
    }
    let order = {
        let mut common = COMMON.lock();
        common.count(mask & !before, |counts, at| counts.blockers[at] += 1);
        common.count(before & !mask, |counts, at| counts.blockers[at] -= 1);
        common.ask()
    };
    if broken!("masks_change_is_noted_late") {
        ANY.store(true, Ordering::SeqCst);
    }
    if mask & !before != 0 && !broken!("masks_change_does_not_wait") {
        wait_for(order);
    }
}

/// While it lives, signals of a set come to the OS thread that waits for them, and not to the first one.
pub(super) struct Suspended(u64);

impl Suspended {
    pub(super) fn begin(set: u64) -> Suspended {
        let order = {
            let mut common = COMMON.lock();
            common.count(set, |counts, at| counts.suspended[at] += 1);
            common.ask()
        };
        wait_for(order);
        Suspended(set)
    }
}

impl Drop for Suspended {
    fn drop(&mut self) {
        let mut common = COMMON.lock();
        common.count(self.0, |counts, at| counts.suspended[at] -= 1);
        common.ask();
    }
}
