//! The labels of a G: pairs of texts that its code sets and its children inherit. For dumps and profiles.
//!
//! ```text
//!   the G itself              another thread                 a signal handler on the G's own OS thread
//!   lock                      lock
//!   exchange the pointer      read the pointer, count + 1    read the pointer, count + 1
//!   unlock                    unlock
//!   count - 1 of the old
//! ```
//!
//! The lock keeps the G from dropping labels that another thread is about to count. A signal handler takes no
//! lock and needs none: it has interrupted the only thread that exchanges the pointer.

#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{fmt, ptr};

use crate::sync::Mutex;

/// Pairs of a key and a value, in the order of their keys. Each key stands once.
#[derive(Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    /// Returns the labels `outer` with `inner` added. The value of an inner label takes the place of an outer
    /// one, and that of a later label the place of an earlier one.
    pub fn nested(outer: Option<&Labels>, inner: &[(&str, &str)]) -> Labels {
        let mut all: Vec<(Box<str>, Box<str>)> = outer.map(|outer| outer.0.to_vec()).unwrap_or_default();
        for &(key, value) in inner {
            match all.binary_search_by(|(known, _)| (**known).cmp(key)) {
                Ok(at) => all[at].1 = value.into(),
                Err(at) => all.insert(at, (key.into(), value.into())),
            }
        }
        Labels(all.into_boxed_slice())
    }

    /// Returns the value of the label `key`, if there is one.
    pub fn get(&self, key: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(known, _)| (**known).cmp(key)).ok()?;
        Some(&self.0[at].1)
    }

    /// Returns each key with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }
}

impl fmt::Display for Labels {
    /// Writes `{"route": "/x"}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// The place for the labels of one G.
#[derive(Debug, Default)]
pub(crate) struct LabelCell {
    /// Null, or from `Arc::into_raw`: the cell counts as one owner.
    labels: AtomicPtr<Labels>,
    lock: Mutex<()>,
}

impl LabelCell {
    /// Sets the labels. Returns those before, which the caller drops without the lock. *Runs on: the thread
    /// of the G, or its spawner.*
    pub(crate) fn set(&self, labels: Option<Arc<Labels>>) -> Option<Arc<Labels>> {
        let new = labels.map_or(ptr::null_mut(), |labels| Arc::into_raw(labels).cast_mut());
        let old = {
            let _lock = self.lock.lock();
            // AcqRel: a signal handler on this thread sees whole labels, and no drop of the old labels
            // comes before this exchange. Other threads are ordered by the lock.
            self.labels.swap(new, Ordering::AcqRel)
        };
        // SAFETY: `Arc::into_raw` made the pointer, and the exchange has given this count to the caller.
        (!old.is_null()).then(|| unsafe { Arc::from_raw(old) })
    }

    /// Returns the labels. *Runs on: a holder of a reference to the G.*
    pub(crate) fn get(&self) -> Option<Arc<Labels>> {
        let _lock = self.lock.lock();
        let raw = self.counted();
        // SAFETY: `counted` has added this count to what `Arc::into_raw` made.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw) })
    }

    /// Adds one to the count of the labels. Returns the pointer with that count, or null. *Runs on: a holder
    /// of the lock; or the OS thread that runs the G, in a signal handler or in an allocator.*
    fn counted(&self) -> *mut Labels {
        // Acquire: sees whole labels. Pairs with the exchange in `set`.
        let raw = self.labels.load(Ordering::Acquire);
        if !raw.is_null() {
            // SAFETY: `Arc::into_raw` made the pointer. The cell's own count stays during this call: the lock
            // keeps `set` from exchanging the pointer, or the thread that would do so is interrupted.
            unsafe { Arc::increment_strong_count(raw) };
        }
        raw
    }

    /// Returns the labels with a count of their own, for `SampledLabels`. Allocates nothing and takes no
    /// lock. *Runs on: a signal handler or an allocator, on the OS thread that runs the G.*
    #[allow(dead_code, reason = "profiles are taken on Linux only")]
    pub(crate) fn sampled(&self) -> *mut Labels {
        self.counted()
    }
}

impl Drop for LabelCell {
    fn drop(&mut self) {
        drop(self.set(None));
    }
}

/// The labels in a sample. A signal handler fills it, and a reader empties it.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "profiles are taken on Linux only")]
pub(crate) struct SampledLabels(AtomicPtr<Labels>);

#[allow(dead_code, reason = "profiles are taken on Linux only")]
impl SampledLabels {
    /// Keeps `labels`, which `LabelCell::sampled` returned. The reader has emptied this. *Runs on: a signal
    /// handler.*
    pub(crate) fn put(&self, labels: *mut Labels) {
        // Relaxed: the slot of the sample publishes it (`watch/samples.rs`).
        self.0.store(labels, Ordering::Relaxed);
    }

    /// Takes the labels out. *Runs on: the reader.*
    pub(crate) fn take(&self) -> Option<Arc<Labels>> {
        // Relaxed: as in `put`.
        let raw = self.0.swap(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: `sampled` has counted this pointer, and the exchange has given the count to the caller.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw) })
    }
}

impl Drop for SampledLabels {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn an_inner_label_takes_the_place_of_an_outer_one() {
        let outer = Labels::nested(None, &[("route", "/a"), ("user", "7"), ("route", "/b")]);
        let inner = Labels::nested(Some(&outer), &[("user", "8"), ("a", "1")]);
        assert_eq!(inner.iter().collect::<Vec<_>>(), [("a", "1"), ("route", "/b"), ("user", "8")]);
        assert_eq!((outer.get("user"), inner.get("user"), inner.get("us")), (Some("7"), Some("8"), None));
    }

    #[test]
    fn each_count_is_given_back() {
        let (cell, sample) = (LabelCell::default(), SampledLabels::default());
        let labels = Arc::new(Labels::nested(None, &[("k", "v")]));
        assert_eq!((cell.get(), cell.set(Some(labels.clone()))), (None, None));
        sample.put(cell.sampled());
        assert_eq!(Arc::strong_count(&labels), 3);
        assert_eq!(cell.set(None).as_ref(), Some(&labels));
        assert_eq!(sample.take().as_ref(), Some(&labels));
        assert!(cell.get().is_none() && sample.take().is_none());
        cell.set(Some(labels.clone()));
        drop(cell);
        assert_eq!(Arc::strong_count(&labels), 1);
    }

    /// Miri checks that no reader counts labels that are dropped.
    #[test]
    fn a_reader_gets_whole_labels_while_they_change() {
        let (cell, over) = (LabelCell::default(), AtomicBool::new(false));
        std::thread::scope(|s| {
            let reader = s.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    if let Some(labels) = cell.get() {
                        assert_eq!(labels.get("a"), labels.get("b"));
                    }
                }
            });
            for i in 0..if cfg!(miri) { 50 } else { 20_000 } {
                let text = i.to_string();
                let labels = Labels::nested(None, &[("a", &text), ("b", &text)]);
                drop(cell.set((i % 7 != 0).then(|| Arc::new(labels))));
            }
            over.store(true, Ordering::Relaxed);
            reader.join().unwrap();
        });
    }
}
