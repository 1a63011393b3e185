//! Properties of one heap under random operations, portion by portion.

use super::*;
use crate::timer::Modified;
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;

#[derive(Clone, Debug)]
enum Op {
    Add(u64),
    Delete(usize),
    Remove(usize),
    Modify(usize, u64),
    MoveUp(usize, u64),
    Sweep(usize),
    Adjust(u64, usize),
    Check(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..100_u64).prop_map(Op::Add),
        6 => any::<usize>().prop_map(Op::Delete),
        3 => any::<usize>().prop_map(Op::Remove),
        4 => (any::<usize>(), 0..100_u64).prop_map(|(timer, when)| Op::Modify(timer, when)),
        4 => (any::<usize>(), 0..100_u64).prop_map(|(timer, when)| Op::MoveUp(timer, when)),
        4 => (0..20_usize).prop_map(Op::Sweep),
        4 => (0..100_u64, 1..40_usize).prop_map(|(now, most)| Op::Adjust(now, most)),
        1 => (0..50_u64).prop_map(Op::Check),
    ]
}

proptest! {
    /// Between any two portions the heap is in order and no published time is too late. Exactly the due
    /// timers fire.
    #[test]
    fn portions_keep_the_heap_right(ops in vec(op(), 0..300)) {
        let timers = timers();
        let mut all: Vec<(Arc<Timer>, Option<u64>)> = Vec::new();
        for op in ops {
            match op {
                Op::Add(when) => {
                    let timer = Arc::new(Timer::new());
                    let mut locked = timers.lock();
                    prop_assert!(timer.begin(0, when, 0, all.len() as u64));
                    // `prepare` would sweep, too.
                    locked.examine_crossing(locked.len());
                    locked.insert(when, timer.clone());
                    drop(locked);
                    all.push((timer, Some(when)));
                }
                Op::Delete(i) if !all.is_empty() => {
                    let at = i % all.len();
                    let (timer, armed) = &mut all[at];
                    prop_assert_eq!(timer.delete(|_| &timers.counts), armed.take().is_some());
                }
                Op::Remove(i) if !all.is_empty() => {
                    let at = i % all.len();
                    let (timer, armed) = &mut all[at];
                    prop_assert_eq!(timer.delete(|_| &timers.counts), armed.take().is_some());
                    timers.lock().remove_deleted(timer);
                    prop_assert!(matches!(timer.state(), NoStatus | Removed));
                }
                Op::Modify(i, when) if !all.is_empty() => {
                    let at = i % all.len();
                    let (timer, armed) = &mut all[at];
                    let from = timer.state();
                    if matches!(from, Waiting | ModifiedEarlier | ModifiedLater | Deleted) {
                        let to = (when, 0, at as u64);
                        prop_assert!(timer.modify_in_heap(from, to, |_| &timers.counts).is_some());
                        *armed = Some(when);
                    }
                }
                Op::MoveUp(i, when) if !all.is_empty() => {
                    let at = i % all.len();
                    let (timer, armed) = &mut all[at];
                    let mut locked = timers.lock();
                    let before = timers.counts.earliest();
                    if let Some(i) = locked.place_if_later(timer, when) {
                        let from = timer.state();
                        let modified = locked.move_up(i, timer, from, (when, 0, at as u64));
                        let wake_for = (when < before).then_some(when);
                        prop_assert_eq!(modified, Some(Modified { was_pending: armed.is_some(), wake_for }));
                        *armed = Some(when);
                    }
                }
                Op::Sweep(n) => timers.lock().sweep(n),
                Op::Adjust(now, most) => _ = timers.lock().adjust(now, most),
                Op::Check(now) => {
                    timers.check(now, false, &mut |_, seq, _| {
                        let armed = all[seq as usize].1.take();
                        assert!(armed.is_some_and(|when| when <= now), "{armed:?} fired at {now}");
                    });
                    prop_assert!(all.iter().all(|(_, armed)| armed.is_none_or(|when| when > now)));
                }
                Op::Delete(_) | Op::Remove(_) | Op::Modify(..) | Op::MoveUp(..) => {}
            }
            timers.lock().verify_idle();
        }
        // This check ends a walk that is under way.
        timers.check(0, false, &mut |_, seq, _| all[seq as usize].1 = None);
        // The sweep examines a place again after a removal. So twice as many portions as entries examine
        // every entry.
        let mut locked = timers.lock();
        let looks = 2 * locked.len();
        (0..looks).for_each(|_| locked.sweep(1));
        locked.verify();
        prop_assert_eq!(timers.counts.deleted(), 0);
        prop_assert_eq!(locked.len(), all.iter().filter(|(_, armed)| armed.is_some()).count());
    }
}

/// With a hundred thousand deleted timers, each call does only its portion. At last a call asks for no more.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand timers take minutes")]
fn many_deleted_timers_are_removed_in_portions() {
    const MANY: u64 = 100_000;
    for (now, own) in [(0, true), (2 * MANY, true), (2 * MANY, false)] {
        let timers = timers();
        let add = |when| {
            let timer = Arc::new(Timer::new());
            let mut locked = timers.lock();
            locked.prepare();
            assert!(timer.begin(0, when, 0, when));
            locked.insert(when, timer.clone());
            timer
        };
        let all: Vec<_> = (0..MANY).map(|i| add(1 + i * 7919 % MANY)).collect();
        all.iter().for_each(|timer| assert!(timer.delete(|_| &timers.counts)));
        // Adds a timer that is due at once. This insertion removes only its portion.
        let before = timers.lock().len();
        let live = add(0);
        let after = timers.lock().len();
        assert!(before - after < HEADS_AT_INSERTION + PORTION_AT_INSERTION, "{before} -> {after}");
        let (mut fired, mut calls) = (0, 0);
        loop {
            let before = timers.lock().len();
            let checked = timers.check(now, own, &mut |_, _, _| fired += 1);
            let after = timers.lock().len();
            assert_eq!(fired, 1, "the first call fires the due timer");
            assert!(before - after <= 2 * PORTION + HEADS, "{before} -> {after}");
            calls += 1;
            if !checked.more {
                break;
            }
        }
        assert!(calls > MANY as usize / (2 * PORTION), "{calls} calls");
        while timers.tidy() {}
        let len = timers.lock().len();
        assert!(len <= PORTION + 1, "{len} are left");
        drop(live);
    }
}

/// With a hundred thousand timers that were modified to an earlier time, each check examines only its
/// portions. A due timer does not wait for the end of the walk.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand timers take minutes")]
fn many_earlier_timers_are_adjusted_in_portions() {
    const MANY: u64 = 100_000;
    let timers = timers();
    let add = |when| {
        let timer = Arc::new(Timer::new());
        let mut locked = timers.lock();
        locked.prepare();
        assert!(timer.begin(0, when, 0, when));
        locked.insert(when, timer.clone());
        timer
    };
    let all: Vec<_> = (0..MANY).map(|i| add(2 * MANY + i * 7919 % MANY)).collect();
    let modify = |timer: &Timer, when: u64| {
        let from = timer.state();
        assert!(timer.modify_in_heap(from, (when, 0, when), |_| &timers.counts).is_some());
    };
    all.iter().for_each(|timer| modify(timer, timer.when() - MANY));
    // The walk examines the first entries last.
    modify(&all[0], 10);
    let _due = add(5);

    let (mut fired, mut calls) = (Vec::new(), 0);
    loop {
        let before = timers.counts.earlier();
        let checked = timers.check(10, true, &mut |_, seq, _| fired.push(seq));
        calls += 1;
        assert!(before - timers.counts.earlier() <= ADJUST_AT_CHECK);
        assert_eq!(fired[0], 5, "the first call fires the due timer");
        assert_eq!(checked.next <= 10, checked.more, "the heap asks for a check until the walk is over");
        if !checked.more {
            break;
        }
    }
    assert_eq!(fired, [5, 10]);
    assert_eq!(timers.counts.earlier(), 0);
    assert!(calls > MANY as usize / ADJUST_AT_CHECK, "{calls} calls");
    timers.lock().verify_idle();
}

/// A removal behind the walk, by which the last entry moves up past the walk, and an entry before it down.
#[test]
fn a_removal_keeps_what_the_walk_has_not_found() {
    let timers = timers();
    // Entry `i` has the children `4 * i + 1` to `4 * i + 4`. Those of entry 1 are the latest.
    let whens = (0..21).map(|i| match i {
        1 => 100,
        5..=8 => 200,
        _ => i,
    });
    let all: Vec<_> = whens.map(|when| (Arc::new(Timer::new()), when)).collect();
    for (seq, (timer, when)) in all.iter().enumerate() {
        assert!(timer.begin(0, *when, 0, seq as u64));
        timers.lock().insert(*when, timer.clone());
    }
    let (soon, gone) = (&all[1].0, &all[5].0);
    soon.modify_in_heap(Waiting, (0, 0, 1), |_| &timers.counts);
    // The portion ends behind entry 4: entry 1 is not examined.
    assert_eq!(timers.lock().adjust(0, 16), 16);
    assert!(gone.delete(|_| &timers.counts));
    timers.lock().remove_deleted(gone);
    assert_eq!(gone.state(), Removed);
    let mut fired = Vec::new();
    timers.check(0, false, &mut |_, seq, _| fired.push(seq));
    fired.sort_unstable();
    assert_eq!(fired, [0, 1]);
}

fn timers() -> Timers<Arc<Timer>> {
    Timers::new(0, Arc::new(IndexSet::new(1)))
}
