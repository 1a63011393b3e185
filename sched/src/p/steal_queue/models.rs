//! Loom models of the queue: its holder beside thieves, with rings of two slots that grow and shrink.

use std::sync::Arc;

use loom::thread;

use super::*;
use crate::sync::models::{Reached, explore};

static ITEMS: [usize; 6] = [0, 1, 2, 3, 4, 5];

/// As in the runtime, each item is taken once. The queue has one holder at a time, and any thieves.
struct Shared(StealQueue<usize>);

// SAFETY: the models call what is the holder's on one thread only.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

fn queue_of(items: usize) -> Arc<Shared> {
    let queue = StealQueue::new();
    ITEMS[..items].iter().for_each(|item| queue.push(item));
    Arc::new(Shared(queue))
}

/// Steals once. Returns what was stolen, in order.
fn steal(queue: &Shared) -> Vec<usize> {
    let mut kept = Vec::new();
    let oldest = queue.0.steal(|&item| kept.push(item));
    oldest.into_iter().copied().chain(kept).collect()
}

fn pop_all(queue: &Shared) -> Vec<usize> {
    std::iter::from_fn(|| queue.0.pop().map(|(&item, _)| item)).collect()
}

fn assert_each_once(parts: &[&[usize]], items: usize) {
    assert!(parts.iter().all(|part| part.is_sorted()), "out of order: {parts:?}");
    let mut all = parts.concat();
    all.sort_unstable();
    assert_eq!(all, ITEMS[..items], "{parts:?}");
}

#[test]
fn a_thief_and_a_holder_that_grows_the_ring_take_each_item_once() {
    static STOLEN: Reached = Reached::new();
    loom::model(|| {
        let queue = queue_of(2);
        let thief = thread::spawn({
            let queue = queue.clone();
            move || steal(&queue)
        });
        queue.0.push(&ITEMS[2]);
        let popped = pop_all(&queue);
        let stolen = thief.join().unwrap();
        STOLEN.note(!stolen.is_empty() && !popped.is_empty());
        assert_each_once(&[&popped, &stolen], 3);
    });
    STOLEN.assert();
}

#[test]
fn a_thief_reads_no_ring_that_was_freed() {
    explore(3, || {
        // Three items: the ring has four slots, which is many here.
        let queue = queue_of(3);
        let thief = thread::spawn({
            let queue = queue.clone();
            move || steal(&queue)
        });
        let mut popped = pop_all(&queue);
        ITEMS[3..].iter().for_each(|item| queue.0.push(item));
        popped.extend(pop_all(&queue));
        let stolen = thief.join().unwrap();
        assert_each_once(&[&popped, &stolen], 6);
    });
}

#[test]
fn two_thieves_take_different_items() {
    explore(3, || {
        let queue = queue_of(2);
        let thieves = [(); 2].map(|()| {
            let queue = queue.clone();
            thread::spawn(move || steal(&queue))
        });
        let first = queue.0.pop().map(|(&item, _)| item);
        let [one, other] = thieves.map(|thief| thief.join().unwrap());
        let mut popped: Vec<usize> = first.into_iter().collect();
        popped.extend(pop_all(&queue));
        assert_each_once(&[&popped, &one, &other], 2);
    });
}

#[test]
fn what_is_pushed_and_then_fenced_is_seen_by_a_thread_that_fences_and_looks() {
    loom::model(|| {
        let queue = queue_of(0);
        let idle = Arc::new(AtomicUsize::new(0));
        let looker = thread::spawn({
            let (queue, idle) = (queue.clone(), idle.clone());
            move || {
                idle.store(1, Ordering::Relaxed);
                full_fence();
                queue.0.is_empty()
            }
        });
        queue.0.push(&ITEMS[0]);
        full_fence();
        let sees_idle = idle.load(Ordering::Relaxed) == 1;
        let saw_none = looker.join().unwrap();
        assert!(sees_idle || !saw_none, "an M sleeps, and no M looks at the item");
        assert_eq!(pop_all(&queue), [0]);
    });
}
