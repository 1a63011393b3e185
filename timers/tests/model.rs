//! Random operations on several heaps, compared with a simple model: which timers are armed, and for when.
#![cfg(not(loom))]

use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::Arc;
use timers::clock::NEVER;
use timers::{Heaps, Timer};

const PS: usize = 3;
const TIMERS: usize = 40;

#[derive(Clone, Debug)]
enum Op {
    Modify { p: usize, timer: usize, delay: u64, period: u64 },
    Delete { timer: usize },
    Check { p: usize, own: bool, passed: u64 },
    MoveAll { from: usize, other: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let (p, timer) = (0..PS, 0..TIMERS);
    let delay = prop_oneof![8 => 0..100_u64, 1 => Just(NEVER)];
    let period = prop_oneof![4 => Just(0), 1 => 1..30_u64];
    prop_oneof![
        10 => (p.clone(), timer.clone(), delay, period)
            .prop_map(|(p, timer, delay, period)| Op::Modify { p, timer, delay, period }),
        5 => timer.prop_map(|timer| Op::Delete { timer }),
        5 => (p.clone(), any::<bool>(), 0..20_u64).prop_map(|(p, own, passed)| Op::Check { p, own, passed }),
        1 => (p, 1..PS).prop_map(|(from, other)| Op::MoveAll { from, other }),
    ]
}

/// How a timer is armed. The P is not part of the model. A stopped timer that was not yet removed is armed
/// again in its old heap, and only the heaps know whether the timer was removed.
#[derive(Clone, Copy, Debug)]
struct Armed {
    when: u64,
    period: u64,
    seq: u64,
}

proptest! {
    #[test]
    fn exactly_the_due_timers_fire(ops in vec(op(), 0..300)) {
        let heaps: Heaps<Arc<Timer>> = Heaps::new(PS);
        (0..PS).for_each(|p| heaps.open(p));
        let timers: Vec<_> = (0..TIMERS).map(|_| Arc::new(Timer::new())).collect();
        let mut armed: [Option<Armed>; TIMERS] = [None; TIMERS];
        let mut now = 0;

        for (seq, op) in ops.into_iter().enumerate() {
            let seq = seq as u64;
            match op {
                Op::Modify { p, timer, delay, period } => {
                    let when = delay.saturating_add(now);
                    let modified = heaps.modify(p, &timers[timer], when, period, seq);
                    prop_assert_eq!(modified.was_pending, armed[timer].is_some());
                    prop_assert!(modified.wake_for.is_none_or(|at| at == when && at != NEVER));
                    armed[timer] = Some(Armed { when, period, seq });
                    prop_assert!(heaps.time_sleep_until() <= when);
                }
                Op::Delete { timer } => {
                    prop_assert_eq!(heaps.delete(&timers[timer]), armed[timer].take().is_some());
                }
                Op::Check { p, own, passed } => {
                    now += passed;
                    let mut late = Vec::new();
                    let checked = heaps.check(p, now, own, &mut |h, seq, _| late.push((h, seq)));
                    prop_assert_eq!(checked.ran, !late.is_empty());
                    prop_assert!(checked.next > now);
                    let mut last = 0;
                    for (h, seq) in late {
                        let timer = timers.iter().position(|timer| Arc::ptr_eq(timer, &h)).unwrap();
                        let it = armed[timer].take().expect("only an armed timer fires");
                        prop_assert!(it.when <= now, "early");
                        prop_assert_eq!(it.seq, seq);
                        prop_assert!(last <= it.when, "out of order");
                        last = it.when;
                        if it.period > 0 {
                            let when = it.when + it.period * (1 + (now - it.when) / it.period);
                            armed[timer] = Some(Armed { when, ..it });
                        }
                    }
                }
                Op::MoveAll { from, other } => {
                    let to = (from + other) % PS;
                    let before = heaps.len(from) + heaps.len(to);
                    heaps.move_all(from, to);
                    prop_assert_eq!((heaps.len(from), heaps.len(to)), (0, before));
                    prop_assert_eq!(heaps.earliest(from), NEVER);
                }
            }
            (0..PS).for_each(|p| heaps.verify_idle(p));
            prop_assert_eq!((0..PS).map(|p| heaps.len(p)).sum::<usize>(), armed.iter().flatten().count());
            let next = armed.iter().flatten().map(|it| it.when).min().unwrap_or(NEVER);
            prop_assert!(heaps.time_sleep_until() <= next, "a sleeper would be late");
        }

        // No timer is lost: at the end of time all armed timers fire, except those for NEVER.
        let mut left = 0;
        for p in 0..PS {
            heaps.check(p, NEVER - 1, true, &mut |_, _, _| left += 1);
        }
        prop_assert_eq!(left, armed.iter().flatten().filter(|it| it.when < NEVER).count());
    }
}
