//! A hashed timing wheel: 4,096 slots of a millisecond, and a driver that ticks (Varghese and Lauck's scheme
//! 6).
//!
//! Adding, cancelling and resetting are O(1), each under the lock of one slot at a time. A timer's time is
//! rounded up to a whole tick. A timer further away than one turn of the wheel is checked once a turn. The
//! driver is a green thread that blocks its OS thread from tick to tick, as a timerproc does. It does so
//! whether a timer is due or not, so no thread needs to wake the driver.
//!
//! ```text
//! the driver, each tick                            adding a timer
//!   1 publish this tick as begun                     1 lock the slot of the timer's tick
//!   2 lock the slot, remove the due timers           2 has that tick begun? lock the slot after the last begun
//!   3 unlock, call                                   3 insert, unlock
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use parking_lot::Mutex;

use super::{Clock, Timers};

const TICK_NS: u64 = 1_000_000;
const SLOTS: u64 = 4096;

pub(crate) struct Wheel(Arc<Shared>);

struct Shared {
    clock: Clock,
    slots: Vec<Mutex<Slot>>,
    /// The tick of the last slot that the driver has begun to empty.
    begun: AtomicU64,
    started: AtomicBool,
    ends: AtomicBool,
}

#[derive(Default)]
struct Slot {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// The number of the last entry. Each entry has its own number, so that a stale handle finds no entry.
    seq: u32,
}

struct Entry {
    tick: u64,
    seq: u32,
    callback: Waker,
}

/// The place of a timer that is, or was, in the wheel.
pub(crate) struct InSlot {
    slot: u32,
    entry: u32,
    seq: u32,
}

impl Wheel {
    pub(crate) fn new() -> Self {
        Wheel(Arc::new(Shared {
            clock: Clock::start(),
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            begun: AtomicU64::new(0),
            started: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        }))
    }

    fn start(&self) {
        // Relaxed: the flag only decides which caller starts the driver.
        if !self.0.started.load(Ordering::Relaxed) && !self.0.started.swap(true, Ordering::Relaxed) {
            let shared = Arc::clone(&self.0);
            drop(runtime::spawn(move || shared.drive()));
        }
    }
}

impl Timers for Wheel {
    type Timer = InSlot;

    fn add(&self, after: Duration, callback: &Waker) -> InSlot {
        self.start();
        self.0.insert(self.0.clock.after(after), callback.clone())
    }

    fn cancel(&self, timer: InSlot) {
        let callback = self.0.slots[timer.slot as usize].lock().remove(&timer);
        // Dropped without the lock: the callback may be the last reference to a green thread.
        drop(callback);
    }

    fn reset(&self, timer: &mut InSlot, after: Duration, callback: &Waker) {
        let when = self.0.clock.after(after);
        let armed = self.0.slots[timer.slot as usize].lock().remove(timer);
        *timer = self.0.insert(when, armed.unwrap_or_else(|| callback.clone()));
    }

    fn end(&self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn insert(&self, when: u64, callback: Waker) -> InSlot {
        let mut tick = when.div_ceil(TICK_NS);
        loop {
            let index = tick % SLOTS;
            let mut slot = self.slots[index as usize].lock();
            // Relaxed: the slot's lock orders the accesses. If the driver held the lock before, its store of
            // `begun` is visible here. If the driver gets the lock later, the driver sees the timer.
            let begun = self.begun.load(Ordering::Relaxed);
            if tick > begun {
                return slot.insert(index as u32, tick, callback);
            }
            drop(slot);
            tick = begun + 1;
        }
    }

    fn drive(&self) {
        let mut due = Vec::new();
        // `insert` puts the first timer into a slot after `begun`.
        let first = self.begun.load(Ordering::Relaxed) + 1;
        for tick in first.. {
            let left = (tick * TICK_NS).saturating_sub(self.clock.now());
            if left > 0 {
                runtime::blocking(|| std::thread::sleep(Duration::from_nanos(left)));
            }
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            self.begun.store(tick, Ordering::Relaxed);
            self.slots[(tick % SLOTS) as usize].lock().take_due(tick, &mut due);
            due.drain(..).for_each(Waker::wake);
        }
    }
}

impl Slot {
    fn insert(&mut self, slot: u32, tick: u64, callback: Waker) -> InSlot {
        self.seq = self.seq.wrapping_add(1);
        let seq = self.seq;
        let new = Some(Entry { tick, seq, callback });
        let entry = match self.free.pop() {
            Some(entry) => {
                self.entries[entry as usize] = new;
                entry
            }
            None => {
                self.entries.push(new);
                (self.entries.len() - 1) as u32
            }
        };
        InSlot { slot, entry, seq }
    }

    fn remove(&mut self, timer: &InSlot) -> Option<Waker> {
        let entry = self.entries.get_mut(timer.entry as usize)?;
        let callback = entry.take_if(|entry| entry.seq == timer.seq)?.callback;
        self.free.push(timer.entry);
        Some(callback)
    }

    fn take_due(&mut self, tick: u64, due: &mut Vec<Waker>) {
        for (i, entry) in self.entries.iter_mut().enumerate() {
            if let Some(entry) = entry.take_if(|entry| entry.tick <= tick) {
                due.push(entry.callback);
                self.free.push(i as u32);
            }
        }
        // The slot is empty. Clearing the vectors spares later turns a walk over unused entries.
        if self.free.len() == self.entries.len() {
            self.entries.clear();
            self.free.clear();
        }
    }
}
