//! The guarantees of `Heaps` to its user: each test checks one guarantee.
#![cfg(not(loom))]

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use timers::clock::NEVER;
use timers::{Checked, Handle, Heaps, Modified, Timer};

fn heaps(ps: usize) -> Heaps<Arc<Timer>> {
    let heaps = Heaps::new(ps);
    (0..ps).for_each(|p| heaps.open(p));
    heaps
}

fn add(heaps: &Heaps<Arc<Timer>>, p: usize, when: u64, period: u64, seq: u64) -> Arc<Timer> {
    let timer = Arc::new(Timer::new());
    heaps.add(p, timer.clone(), when, period, seq);
    timer
}

/// Checks P `p` as its owner. Returns the `seq`s that fired, in order, and the time of the next check.
fn check(heaps: &Heaps<Arc<Timer>>, p: usize, now: u64) -> (Vec<u64>, u64) {
    let mut fired = Vec::new();
    let checked = heaps.check(p, now, true, &mut |_, seq, when| {
        assert!(when <= now, "fired {} early", when - now);
        fired.push(seq);
    });
    heaps.verify_idle(p);
    assert_eq!(checked.ran, !fired.is_empty());
    assert_eq!(checked.next, heaps.earliest(p));
    (fired, checked.next)
}

#[test]
fn timers_fire_in_the_order_of_time_and_never_early() {
    let heaps = heaps(1);
    let _timers: Vec<_> =
        (0..500).map(|i| add(&heaps, 0, 1 + i * 7919 % 500, 0, 1 + i * 7919 % 500)).collect();
    assert_eq!(check(&heaps, 0, 0), (vec![], 1));
    assert_eq!(check(&heaps, 0, 200), ((1..=200).collect(), 201));
    assert_eq!(check(&heaps, 0, 500), ((201..=500).collect(), NEVER));
    assert_eq!(check(&heaps, 0, NEVER), (vec![], NEVER));
}

#[test]
fn a_timer_for_never_stays_in_its_heap_and_does_not_fire() {
    let heaps = heaps(1);
    let timer = Arc::new(Timer::new());
    assert_eq!(heaps.add(0, timer.clone(), NEVER, 0, 1), None, "no thread to wake");
    assert_eq!(check(&heaps, 0, NEVER), (vec![], NEVER));
    assert_eq!(heaps.len(0), 1);
    let modified = heaps.modify(0, &timer, 5, 0, 2);
    assert_eq!(modified, Modified { was_pending: true, wake_for: Some(5) });
    assert_eq!(check(&heaps, 0, 5), (vec![2], NEVER));
    assert_eq!(heaps.modify(0, &timer, NEVER, 0, 3), Modified { was_pending: false, wake_for: None });
    assert!(heaps.delete(&timer));
}

#[test]
fn a_ticker_keeps_its_grid_and_leaves_out_missed_ticks() {
    let heaps = heaps(1);
    let ticker = add(&heaps, 0, 100, 10, 7);
    assert_eq!(check(&heaps, 0, 99), (vec![], 100));
    assert_eq!(check(&heaps, 0, 100), (vec![7], 110));
    assert_eq!(check(&heaps, 0, 145), (vec![7], 150), "once for four ticks");
    assert_eq!(check(&heaps, 0, 150), (vec![7], 160));
    assert!(heaps.delete(&ticker));
    assert_eq!(check(&heaps, 0, 1000), (vec![], NEVER));
}

#[test]
fn modify_returns_was_pending_and_the_time_to_wake_for() {
    let heaps = heaps(2);
    let modified = |was_pending, wake_for| Modified { was_pending, wake_for };
    let timer = Arc::new(Timer::new());
    assert_eq!(heaps.modify(0, &timer, 100, 0, 1), modified(false, Some(100)), "NoStatus: inserted");
    assert_eq!(heaps.modify(1, &timer, 200, 0, 2), modified(true, None), "later: no thread to wake");
    assert_eq!(heaps.modify(1, &timer, 50, 0, 3), modified(true, Some(50)), "earlier");
    assert_eq!(heaps.earliest(0), 50);
    assert_eq!(heaps.modify(1, &timer, 60, 0, 4), modified(true, None), "later again");
    assert!(heaps.delete(&timer));
    assert_eq!(heaps.modify(1, &timer, 70, 0, 6), modified(false, None), "Deleted: stays in its heap");
    assert_eq!(heaps.modify(1, &timer, 30, 0, 6), modified(true, Some(30)), "from ModifiedLater");
    assert_eq!(
        heaps.modify(1, &timer, 70, 0, 6),
        modified(true, None),
        "the time of the check is too early now"
    );
    heaps.verify_idle(0);
    assert_eq!((heaps.len(0), heaps.len(1)), (1, 0));
    assert_eq!(check(&heaps, 0, 70), (vec![6], NEVER));
    assert_eq!(heaps.modify(1, &timer, 80, 0, 7), modified(false, Some(80)), "fired: to the caller's P");
    assert_eq!((heaps.len(0), heaps.len(1)), (0, 1));
}

#[test]
fn delete_returns_true_only_for_an_armed_timer() {
    let heaps = heaps(1);
    assert!(!heaps.delete(&Timer::new()), "never armed");
    let timer = add(&heaps, 0, 10, 0, 1);
    assert!(heaps.delete(&timer));
    assert!(!heaps.delete(&timer), "deleted");
    assert_eq!(check(&heaps, 0, 10), (vec![], NEVER));
    assert!(!heaps.delete(&timer), "removed");
    heaps.modify(0, &timer, 20, 0, 2);
    assert_eq!(check(&heaps, 0, 20), (vec![2], NEVER));
    assert!(!heaps.delete(&timer), "fired");
}

#[test]
fn a_timer_made_earlier_is_found_deep_in_the_heap() {
    let heaps = heaps(1);
    let timers: Vec<_> = (0..1000).map(|i| add(&heaps, 0, 1_000 + i, 0, i)).collect();
    for i in (0..1000).step_by(10) {
        heaps.modify(0, &timers[i], i as u64, 0, i as u64);
    }
    assert_eq!(heaps.earliest(0), 0);
    assert_eq!(check(&heaps, 0, 499).0, (0..500).step_by(10).collect::<Vec<_>>());
    assert_eq!(check(&heaps, 0, 999).0, (500..1000).step_by(10).collect::<Vec<_>>());
    assert_eq!(check(&heaps, 0, 3_000).0.len(), 900);
}

/// Only the first timer of a heap is reported: by then, another thread looks at the heap and finds the other
/// timers.
#[test]
fn only_a_timer_that_lowers_the_first_time_of_its_heap_is_to_wake_for() {
    let heaps = heaps(2);
    let wake_for = |p, when| heaps.add(p, Arc::new(Timer::new()), when, 0, 0);
    assert_eq!(wake_for(0, 50), Some(50));
    assert_eq!(wake_for(0, 50), None, "as early");
    assert_eq!(wake_for(0, 60), None, "later");
    assert_eq!(wake_for(0, 40), Some(40));
    assert_eq!(wake_for(1, 60), Some(60), "the first of its own heap");
    let timer = Arc::new(Timer::new());
    assert_eq!(heaps.modify(0, &timer, 45, 0, 0), Modified { was_pending: false, wake_for: None });
    assert_eq!(heaps.modify(0, &timer, 41, 0, 0), Modified { was_pending: true, wake_for: None });
    assert_eq!(heaps.modify(0, &timer, 30, 0, 0), Modified { was_pending: true, wake_for: Some(30) });
    check(&heaps, 0, 60);
    assert_eq!(wake_for(0, 70), Some(70), "the heap is empty");
}

/// Arms a timer for an earlier time among many others. Counts how often the heap looks into a timer, because
/// each such look may be a cache miss.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand timers take minutes")]
fn a_timer_made_earlier_among_many_costs_a_few_looks() {
    #[derive(Clone)]
    struct Counted(Arc<Timer>, Rc<Cell<usize>>);
    impl Handle for Counted {
        fn timer(&self) -> &Timer {
            self.1.set(self.1.get() + 1);
            &self.0
        }
    }
    const MANY: u64 = 100_000;
    let (heaps, looks) = (Heaps::new(2), Rc::new(Cell::new(0)));
    (0..2).for_each(|p| heaps.open(p));
    let all: Vec<_> = (0..MANY).map(|_| Counted(Arc::new(Timer::new()), looks.clone())).collect();
    for (i, timer) in (0..).zip(&all) {
        heaps.modify(0, timer, 1_000_000 + i * 7919 % MANY, 0, i);
    }
    let mut now = 0;
    // The caller has the P of the heap, or another P because the thread was stolen.
    for (i, p) in (0..MANY).step_by(97).zip([0, 1].into_iter().cycle()) {
        let timer = &all[i as usize];
        // A time-out that did not fire: its entry is still in the heap.
        assert!(heaps.delete(&timer.0));
        now += 10;
        looks.set(0);
        assert!(!heaps.modify(p, timer, now, 0, i).was_pending);
        let mut fired = Vec::new();
        heaps.check(0, now, true, &mut |_, seq, _| fired.push(seq));
        assert_eq!(fired, [i]);
        assert!(looks.get() < 100, "{} looks into timers for timer {i}", looks.get());
    }
}

#[test]
fn a_stale_earliest_is_cleared_when_it_is_reached() {
    let heaps = heaps(1);
    let (timer, _other) = (add(&heaps, 0, 100, 0, 1), add(&heaps, 0, 90, 0, 2));
    heaps.modify(0, &timer, 10, 0, 3);
    heaps.modify(0, &timer, 200, 0, 4);
    assert_eq!(heaps.earliest(0), 10, "too early is allowed");
    assert_eq!(check(&heaps, 0, 10), (vec![], 90));
}

#[test]
fn an_empty_heap_has_no_time() {
    let heaps = heaps(1);
    let timer = add(&heaps, 0, 100, 0, 1);
    heaps.modify(0, &timer, 50, 0, 2);
    assert!(heaps.delete(&timer));
    assert_eq!(check(&heaps, 0, 0), (vec![], NEVER));
    assert_eq!(heaps.time_sleep_until(), NEVER);
}

#[test]
fn create_and_stop_keeps_memory_in_proportion() {
    struct Counted(Arc<Timer>, Arc<()>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            Self(self.0.clone(), self.1.clone())
        }
    }
    impl Handle for Counted {
        fn timer(&self) -> &Timer {
            &self.0
        }
    }
    for checked in [true, false] {
        let heaps = Heaps::new(1);
        heaps.open(0);
        let entries = Arc::new(());
        let mut most = 0;
        for i in 0..100_000_u64 {
            let timer = Arc::new(Timer::new());
            heaps.add(0, Counted(timer.clone(), entries.clone()), 1_000_000 + i, 0, i);
            // Keeps one timer in a thousand.
            if i % 1000 != 0 {
                assert!(heaps.delete(&timer));
            }
            if checked {
                heaps.check(0, 0, true, &mut |_, _, _| unreachable!("nothing is due"));
            }
            most = most.max(Arc::strong_count(&entries) - 1);
        }
        assert_eq!(heaps.len(0), 100);
        assert!(most < 1_000, "{most} entries for 100 live timers");
        heaps.verify_idle(0);
    }
}

#[test]
fn callbacks_run_without_the_lock() {
    let heaps = heaps(1);
    let timer = add(&heaps, 0, 10, 0, 1);
    let again = RefCell::new(3);
    let mut fired = Vec::new();
    heaps.check(0, 10, true, &mut |h: Arc<Timer>, seq, when| {
        assert_eq!(when, 10);
        fired.push(seq);
        assert!(Arc::ptr_eq(&h, &timer));
        let mut again = again.borrow_mut();
        if *again > 0 {
            *again -= 1;
            heaps.modify(0, &h, when, 0, seq + 1);
            assert!(heaps.delete(&h));
            heaps.modify(0, &h, when, 0, seq + 1);
            add(&heaps, 0, when + 1, 0, 100);
        }
    });
    assert_eq!(fired, [1, 2, 3, 4], "timers that become due meanwhile fire in the same check");
    assert_eq!(check(&heaps, 0, 11), (vec![100; 3], NEVER));
}

#[test]
fn a_panicking_callback_loses_no_other_timer() {
    let heaps = heaps(1);
    let _timers: Vec<_> = (0..100).map(|i| add(&heaps, 0, i, 0, i)).collect();
    let mut fired = Vec::new();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        heaps.check(0, 1000, true, &mut |_, seq, _| {
            fired.push(seq);
            assert!(seq != 5, "the fifth panics (on purpose)");
        })
    }));
    assert!(panicked.is_err());
    fired.extend(check(&heaps, 0, 1000).0);
    assert_eq!(fired, (0..100).collect::<Vec<_>>());
}

#[test]
fn move_all_takes_the_live_timers_along() {
    let heaps = heaps(3);
    let timers: Vec<_> = (0..10).map(|i| add(&heaps, 2, 100 + i, 0, i)).collect();
    heaps.delete(&timers[0]);
    heaps.modify(2, &timers[5], 50, 0, 5);
    heaps.modify(2, &timers[6], 500, 0, 6);
    let _there = add(&heaps, 0, 80, 0, 80);
    assert_eq!(heaps.move_all(2, 0), Some(50));
    assert_eq!((heaps.len(0), heaps.len(2)), (10, 0));
    heaps.verify_idle(0);
    heaps.verify_idle(2);
    assert_eq!(heaps.earliest(2), NEVER);
    assert_eq!(heaps.time_sleep_until(), 50);
    assert!(heaps.delete(&timers[1]), "counted in the heap to which it moved");
    assert_eq!(check(&heaps, 0, 200).0, [5, 80, 2, 3, 4, 7, 8, 9]);
    assert_eq!(check(&heaps, 0, 500), (vec![6], NEVER));
    assert_eq!(heaps.move_all(2, 1), None, "the heap is empty");
    let unopened = Heaps::<Arc<Timer>>::new(2);
    unopened.open(0);
    assert_eq!(unopened.move_all(1, 0), None);
}

#[test]
fn handles_are_dropped_when_their_entry_goes() {
    let heaps = heaps(2);
    let timers: Vec<_> = (0..8).map(|i| add(&heaps, 0, 10 + i, 0, i)).collect();
    timers[..3].iter().for_each(|timer| assert!(heaps.delete(timer)));
    heaps.move_all(0, 1);
    check(&heaps, 1, 100);
    assert!(timers.iter().all(|timer| Arc::strong_count(timer) == 1));
}

#[test]
fn a_heap_not_opened_has_no_timers() {
    let heaps = Heaps::<Arc<Timer>>::new(2);
    assert_eq!((heaps.earliest(1), heaps.len(1), heaps.time_sleep_until()), (NEVER, 0, NEVER));
    let checked = heaps.check(1, 5, true, &mut |_, _, _| unreachable!());
    assert_eq!(checked, Checked { next: NEVER, ran: false, more: false });
    heaps.open(0);
    heaps.open(1);
    let _timer = add(&heaps, 1, 5, 0, 1);
    heaps.open(1);
    assert_eq!(heaps.len(1), 1, "opening twice changes nothing");
}

#[test]
#[should_panic(expected = "opened in order")]
fn opening_out_of_order_is_a_bug() {
    Heaps::<Arc<Timer>>::new(2).open(1);
}

#[test]
#[should_panic(expected = "already in use")]
fn adding_twice_is_a_bug() {
    let heaps = heaps(1);
    let timer = add(&heaps, 0, 5, 0, 1);
    heaps.add(0, timer, 6, 0, 2);
}

/// Timers may outlive their heap. A live timer, a stopped timer whose entry was not yet removed, and modified
/// timers can be armed again in another heap.
#[test]
fn timers_of_dropped_heaps_can_be_armed_in_others() {
    let timers: Vec<_> = (0..4).map(|_| Arc::new(Timer::new())).collect();
    let old = Heaps::new(1);
    old.open(0);
    for (timer, when) in timers.iter().zip(10..) {
        old.add(0, timer.clone(), when, 0, 0);
    }
    assert!(old.delete(&timers[1]));
    old.modify(0, &timers[2], 5, 0, 0);
    old.modify(0, &timers[3], 50, 0, 0);
    drop(old);

    let new = Heaps::new(1);
    new.open(0);
    for timer in &timers {
        assert_eq!(Arc::strong_count(timer), 1, "the old heap has dropped its handle");
        assert!(!new.modify(0, timer, 7, 0, 1).was_pending);
    }
    new.verify_idle(0);
    let mut fired = 0;
    new.check(0, 7, true, &mut |_, seq, _| fired += seq);
    assert_eq!(fired, 4);
}
