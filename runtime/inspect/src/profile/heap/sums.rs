//! The sums of all samples of one origin: a stack, a spawn place and a set of labels. A table of fixed size
//! in which origins stay, without locks.
//!
//! ```text
//!   a sample of a new origin             a sample of the same origin     a profile
//!   write its hash into a free word      find its hash                   skip what is not complete
//!   write the origin                     add to the sums                 read the sums
//!   mark it as complete
//!   add to the sums
//! ```
//!
//! Two origins with the same 64-bit hash would be counted as one. The table has too few for that.

#![allow(unsafe_code)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::Location;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use sched::Labels;
use sched::interrupted::Thread;

use super::live::Sample;
use super::weight::Weight;

/// The most frames of a stack that are kept, the innermost. Some are those of the allocator.
pub(super) const MOST_FRAMES: usize = 64;

/// A table for `N` origins. All zeroes is an empty one.
pub(super) struct Sums<const N: usize> {
    /// 0 while no origin has this place. Beside each other, because a full table is searched to its end.
    hashes: [AtomicU64; N],
    sums: [Sum; N],
}

struct Sum {
    origin: Origin,
    allocated: Counted,
    freed: Counted,
}

/// An origin. Written once, by the thread that has taken the place.
struct Origin {
    /// How many frames there are, and 1. The Release of the store publishes the rest; 0 before it.
    complete: AtomicUsize,
    frames: [AtomicUsize; MOST_FRAMES],
    /// A `Location<'static>`, or null.
    place: AtomicPtr<Location<'static>>,
    /// Of `Arc::into_raw`, or null. Never dropped.
    labels: AtomicPtr<Labels>,
}

/// Weights and bytes. Relaxed, throughout: the numbers alone count.
struct Counted {
    weights: AtomicU64,
    bytes: AtomicU64,
}

/// What the table has of an origin.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) frames: Vec<usize>,
    pub(super) place: Option<&'static Location<'static>>,
    pub(super) labels: Option<Arc<Labels>>,
    /// Allocations and bytes.
    pub(super) allocated: (u64, u64),
    pub(super) freed: (u64, u64),
}

impl<const N: usize> Sums<N> {
    pub(super) const fn new() -> Self {
        Sums { hashes: [const { AtomicU64::new(0) }; N], sums: [const { Sum::new() }; N] }
    }

    /// Returns the index of an origin, which it adds if it is new; `None` if the table is full. Beyond half
    /// of the table, new origins have no labels: there may be too many of those.
    pub(super) fn of(&self, frames: &[usize], thread: Thread) -> Option<u32> {
        let Thread { place, labels, .. } = thread;
        let with_labels = self.find(frames, place, labels.as_ref(), N / 2);
        with_labels.or_else(|| self.find(frames, place, None, N))
    }

    /// As `of`, in at most `most` places.
    fn find(
        &self,
        frames: &[usize],
        place: Option<&'static Location<'static>>,
        labels: Option<&Arc<Labels>>,
        most: usize,
    ) -> Option<u32> {
        let mut hasher = DefaultHasher::new();
        (frames, place.map(ptr::from_ref), labels).hash(&mut hasher);
        let hash = hasher.finish().max(1);
        // All that have labels lie in the first half.
        let begin = hash as usize % most;
        for at in (begin..most).chain(0..begin) {
            // Relaxed: `origin` has an order of its own, and the numbers need none.
            let mut known = self.hashes[at].load(Ordering::Relaxed);
            if known == 0 {
                match self.hashes[at].compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => {
                        self.sums[at].origin.set(frames, place, labels.cloned());
                        return u32::try_from(at).ok();
                    }
                    Err(other) => known = other,
                }
            }
            if known == hash {
                return u32::try_from(at).ok();
            }
        }
        None
    }

    /// Counts an allocation.
    pub(super) fn add(&self, sample: Sample) {
        self.sums[sample.sum as usize].allocated.add(sample);
    }

    /// Counts the end of an allocation.
    pub(super) fn free(&self, sample: Sample) {
        self.sums[sample.sum as usize].freed.add(sample);
    }

    /// Returns what is known of all origins.
    pub(super) fn seen(&self) -> impl Iterator<Item = Seen> {
        self.sums.iter().filter_map(Sum::seen)
    }
}

impl Sum {
    const fn new() -> Sum {
        Sum { origin: Origin::new(), allocated: Counted::new(), freed: Counted::new() }
    }

    fn seen(&self) -> Option<Seen> {
        let (frames, place, labels) = self.origin.get()?;
        // First the frees: what is freed was allocated before, so there are never more frees, as a rule.
        let freed = self.freed.get();
        Some(Seen { frames, place, labels, freed, allocated: self.allocated.get() })
    }
}

impl Origin {
    const fn new() -> Origin {
        Origin {
            complete: AtomicUsize::new(0),
            frames: [const { AtomicUsize::new(0) }; MOST_FRAMES],
            place: AtomicPtr::new(ptr::null_mut()),
            labels: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn set(&self, frames: &[usize], place: Option<&'static Location<'static>>, labels: Option<Arc<Labels>>) {
        for (word, &frame) in self.frames.iter().zip(frames) {
            word.store(frame, Ordering::Relaxed);
        }
        let place = place.map_or(ptr::null_mut(), |place| ptr::from_ref(place).cast_mut());
        self.place.store(place, Ordering::Relaxed);
        let labels = labels.map_or(ptr::null_mut(), |labels| Arc::into_raw(labels).cast_mut());
        self.labels.store(labels, Ordering::Relaxed);
        // Release: publishes the stores above; pairs with the Acquire in `get`.
        self.complete.store(frames.len().min(MOST_FRAMES) + 1, Ordering::Release);
    }

    #[allow(clippy::type_complexity, reason = "for one caller")]
    fn get(&self) -> Option<(Vec<usize>, Option<&'static Location<'static>>, Option<Arc<Labels>>)> {
        // Acquire: pairs with the Release in `set`.
        let frames = self.complete.load(Ordering::Acquire).checked_sub(1)?;
        let frames = self.frames[..frames].iter().map(|word| word.load(Ordering::Relaxed)).collect();
        // SAFETY: `set` has stored a reference that is valid for ever, or null.
        let place = unsafe { self.place.load(Ordering::Relaxed).as_ref() };
        let labels = self.labels.load(Ordering::Relaxed);
        let labels = (!labels.is_null()).then(|| {
            // SAFETY: `set` has stored what `Arc::into_raw` returned, and its count stays for ever. This
            // adds one for the caller.
            unsafe {
                Arc::increment_strong_count(labels);
                Arc::from_raw(labels)
            }
        });
        Some((frames, place, labels))
    }
}

impl Counted {
    const fn new() -> Counted {
        Counted { weights: AtomicU64::new(0), bytes: AtomicU64::new(0) }
    }

    fn add(&self, sample: Sample) {
        self.weights.fetch_add(sample.weight.0, Ordering::Relaxed);
        self.bytes.fetch_add(sample.weight.bytes(sample.size), Ordering::Relaxed);
    }

    /// Returns how many allocations it is, and how many bytes.
    fn get(&self) -> (u64, u64) {
        let weights = Weight(self.weights.load(Ordering::Relaxed));
        (weights.objects(), self.bytes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(label: Option<&str>) -> Thread {
        let labels = label.map(|label| Arc::new(Labels::nested(None, &[("route", label)])));
        Thread { id: 1, labels, ..Thread::default() }
    }

    #[test]
    fn an_origin_has_one_sum() {
        let sums = Sums::<16>::new();
        let one = sums.of(&[1, 2], thread(Some("/a"))).unwrap();
        // Another set of labels with the same texts.
        assert_eq!(sums.of(&[1, 2], thread(Some("/a"))), Some(one));
        let others = [
            sums.of(&[1, 2], thread(Some("/b"))),
            sums.of(&[1, 2], thread(None)),
            sums.of(&[1], thread(None)),
        ];
        others.iter().for_each(|other| assert_ne!(*other, Some(one)));
        let sample = Sample { size: 10, weight: Weight(2 << 16), sum: one };
        sums.add(sample);
        sums.add(sample);
        sums.free(sample);
        let seen: Vec<_> = sums.seen().filter(|seen| seen.allocated != (0, 0)).collect();
        let [seen] = &*seen else { panic!("{seen:?}") };
        assert_eq!((&*seen.frames, seen.allocated, seen.freed), (&[1, 2][..], (4, 40), (2, 20)));
        assert_eq!(seen.labels.as_ref().unwrap().get("route"), Some("/a"));
    }

    #[test]
    fn many_labels_leave_room_for_stacks() {
        let sums = Sums::<16>::new();
        let labelled = (0..20).map(|i| sums.of(&[1], thread(Some(&i.to_string()))).unwrap());
        // Eight with labels, and one for all the others.
        assert_eq!(labelled.collect::<std::collections::HashSet<_>>().len(), 9);
        (2..9).for_each(|frame| assert!(sums.of(&[frame], thread(None)).is_some()));
        assert_eq!(sums.of(&[100], thread(None)), None);
        assert!(sums.of(&[1], thread(None)).is_some(), "a known one is still found");
    }
}
