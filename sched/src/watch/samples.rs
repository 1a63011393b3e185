//! Samples on their way from signal handlers to a reader: a fixed number of slots.
//!
//! ```text
//!   a handler                                    the reader
//!   claim    Free -> Writing                     Full?
//!   write the sample                             read the sample
//!   publish  Full                                give back  Free
//! ```
//!
//! A handler never waits: if no slot is free, the sample is lost and counted. A handler cannot interrupt
//! another one on its thread, because the signal is blocked while the handler runs. It may interrupt the
//! profiler, which has no lock.

#![allow(unsafe_code)]

use crate::sync::{
    atomic::{AtomicU8, AtomicU64, Ordering},
    broken,
    cell::UnsafeCell,
};

const FREE: u8 = 0;
const WRITING: u8 = 1;
const FULL: u8 = 2;

/// One sample, or room for one.
struct Slot<T> {
    state: AtomicU8,
    sample: UnsafeCell<T>,
}

/// The slots.
pub struct Samples<T> {
    slots: Box<[Slot<T>]>,
    lost: AtomicU64,
}

// SAFETY: the state of a slot gives its sample to one thread at a time.
unsafe impl<T: Send> Sync for Samples<T> {}

impl<T> Samples<T> {
    /// Makes a slot of each of `slots`.
    pub fn new(slots: impl Iterator<Item = T>) -> Self {
        let slot = |sample| Slot { state: AtomicU8::new(FREE), sample: UnsafeCell::new(sample) };
        Samples { slots: slots.map(slot).collect(), lost: AtomicU64::new(0) }
    }

    /// Calls `write` with a free slot, or counts a lost sample. *Runs on: a signal handler; it allocates
    /// nothing and takes no lock.*
    pub fn add(&self, write: impl FnOnce(&mut T)) {
        let claims = |slot: &&Slot<T>| {
            // Acquire: the reader has read the earlier sample; pairs with the Release in `drain`.
            let order = if broken!("samples_claim_relaxed") { Ordering::Relaxed } else { Ordering::Acquire };
            slot.state.compare_exchange(FREE, WRITING, order, Ordering::Relaxed).is_ok()
        };
        let Some(slot) = self.slots.iter().find(claims) else {
            // Relaxed: a count.
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        };
        // SAFETY: the exchange has given the sample to this handler until the store below.
        slot.sample.with_mut(|sample| write(unsafe { &mut *sample }));
        // Release: publishes the sample. Pairs with the Acquire in `drain`.
        let order = if broken!("samples_publish_relaxed") { Ordering::Relaxed } else { Ordering::Release };
        slot.state.store(FULL, order);
    }

    /// Calls `read` with each sample, and frees its slot. *Runs on: the reader, of which there is one at a
    /// time.*
    pub fn drain(&self, mut read: impl FnMut(&T)) {
        for slot in &self.slots {
            // Acquire: sees the sample; pairs with the Release in `add`.
            if slot.state.load(Ordering::Acquire) == FULL {
                // SAFETY: a full slot belongs to the reader until the store below.
                slot.sample.with(|sample| read(unsafe { &*sample }));
                // Release: the next handler writes after this read. Pairs with the Acquire in `add`.
                slot.state.store(FREE, Ordering::Release);
            }
        }
    }

    /// Returns how many samples were lost, and counts from 0 again.
    pub fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_slot_is_counted() {
        let samples = Samples::new([0; 2].into_iter());
        (1..=3).for_each(|i| samples.add(|slot| *slot = i));
        let mut seen = Vec::new();
        samples.drain(|&sample| seen.push(sample));
        assert_eq!((seen, samples.take_lost(), samples.take_lost()), (vec![1, 2], 1, 0));
        samples.add(|slot| *slot = 4);
        samples.drain(|&sample| assert_eq!(sample, 4));
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Two handlers write into one slot, while the reader reads. loom checks the accesses to the sample.
    #[test]
    fn a_sample_is_read_whole_or_lost() {
        loom::model(|| {
            let samples = Arc::new(Samples::new([(0, 0)].into_iter()));
            let handlers: Vec<_> = (1..=2)
                .map(|i| {
                    let samples = samples.clone();
                    thread::spawn(move || samples.add(|slot| *slot = (i, i)))
                })
                .collect();
            let mut seen = 0;
            let mut read = |&(a, b): &(u64, u64)| {
                assert!(a == b && a > 0);
                seen += 1;
            };
            samples.drain(&mut read);
            handlers.into_iter().for_each(|handler| handler.join().unwrap());
            samples.drain(&mut read);
            assert_eq!(seen + samples.take_lost(), 2);
        });
    }
}
