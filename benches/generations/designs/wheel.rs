//! A hashed timing wheel: 4,096 slots of a millisecond, and a driver that ticks (Varghese and Lauck's scheme 6).
//!
//! Adding, cancelling and resetting are O(1), each under the lock of one slot alone. A timer's time is rounded up to a whole
//! tick, and what is further away than one turn of the wheel is looked at once a turn. The driver is a green thread that
//! sleeps as a timerproc does, in its OS thread, from tick to tick, whether anything is due or not: no thread needs to wake it.
//!
//! ```text
//! the driver, each tick                            adding a timer
//!   1 the ticks begun include this one               1 lock the slot of its tick
//!   2 lock the slot, take what is due                2 has that tick begun? take the next slot instead
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
    /// The last tick whose slot the driver has begun with.
    begun: AtomicU64,
    started: AtomicBool,
    ends: AtomicBool,
}

#[derive(Default)]
struct Slot {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    /// Of the next entry, so that a stale id finds nothing.
    seq: u32,
}

struct Entry {
    tick: u64,
    seq: u32,
    callback: Waker,
}

/// Where a timer is, or was.
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
        // Relaxed: it only says who starts the driver.
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
        // Without the lock: it may be the last one of a green thread.
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
            // Relaxed: the slot's lock orders it. A driver that had the lock before us has stored before that; one that
            // gets it after us sees the timer.
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
        // No timer can be due before the first was added.
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
        // The wheel is empty: the next turn need not walk over the past.
        if self.free.len() == self.entries.len() {
            self.entries.clear();
            self.free.clear();
        }
    }
}
