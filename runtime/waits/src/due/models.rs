//! Models of `Due`: taking, stopping and moving a point in time race, with and without a waiter.

use std::time::{Duration, Instant};

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::{Due, Next};
use sched::Outcome;
use sched::modelled::Sleeper;
use sched::sync::models::explore;

const MS: Duration = Duration::from_millis(1);

fn due(next: Next, period: Option<Duration>) -> Arc<Due<()>> {
    Arc::new(Due::new(next, period))
}

fn and<T: 'static>(due: &Arc<Due<()>>, does: impl FnOnce(&Due<()>) -> T + 'static) -> JoinHandle<T> {
    let due = due.clone();
    thread::spawn(move || does(&due))
}

/// Takes the point that is due at `now`, after waiting for it if need be.
fn receive(due: &Due<()>, now: Instant) -> Instant {
    loop {
        if let Some(instant) = due.take(now) {
            return instant;
        }
        due.wait(now, None, ());
    }
}

#[test]
fn a_stopped_point_is_not_taken() {
    explore(3, || {
        let now = Instant::now();
        let due = due(Next::At(now), None);
        let taker = and(&due, move |due| due.take(now).is_some());
        let stopped = due.set(Next::Nothing, None);
        assert!(stopped ^ taker.join().unwrap(), "the point was both taken and pending, or neither");
        assert_eq!(due.take(now), None, "a point was taken after it was stopped");
    });
}

/// The point is moved while two takers take it: the old point is taken or was pending, and the new point is
/// taken once.
#[test]
fn each_point_is_taken_or_was_pending() {
    explore(3, || {
        let now = Instant::now();
        let due = due(Next::At(now - MS), None);
        let takers = [0, 1].map(|_| and(&due, move |due| due.take(now)));
        let moved = due.set(Next::At(now), None);
        let after = due.take(now);
        let taken: Vec<_> =
            takers.into_iter().map(|taker| taker.join().unwrap()).chain([after]).flatten().collect();
        assert_eq!(taken.iter().filter(|&&instant| instant == now - MS).count() + usize::from(moved), 1);
        assert_eq!(taken.iter().filter(|&&instant| instant == now).count(), 1);
        assert_ne!(after, Some(now - MS), "a point was taken after it was moved");
    });
}

/// Two threads replace the point. Only one of them finds it pending.
#[test]
fn a_pending_point_is_found_by_one_of_two_movers() {
    explore(3, || {
        let now = Instant::now();
        let due = due(Next::At(now), None);
        let mover = and(&due, move |due| due.set(Next::At(now + MS), None));
        let stopped = due.set(Next::Nothing, None);
        let moved = mover.join().unwrap();
        let pending = due.set(Next::Nothing, None);
        assert_eq!([stopped, moved, pending].into_iter().filter(|&found| found).count(), 2);
    });
}

#[test]
fn a_waiter_is_woken_for_an_earlier_point() {
    explore(3, || {
        let now = Instant::now();
        let sleeper = Sleeper::new();
        Sleeper::is_me(&sleeper);
        let due = due(Next::At(now + MS), None);
        let mover = and(&due, move |due| assert!(due.set(Next::At(now), None)));
        assert_eq!(receive(&due, now), now);
        mover.join().unwrap();
        assert!(due.0.lock().waiters.is_empty());
    });
}

/// The point is set, stopped and set again. The waiter takes the last point, whether or not it saw the first.
#[test]
fn a_waiter_is_woken_for_a_point_that_was_set_again() {
    explore(2, || {
        let now = Instant::now();
        let sleeper = Sleeper::new();
        Sleeper::is_me(&sleeper);
        let due = due(Next::Nothing, None);
        let mover = and(&due, move |due| {
            let stopped = !due.set(Next::At(now + MS), None) && due.set(Next::Nothing, None);
            assert!(stopped);
            due.set(Next::At(now), None);
        });
        assert_eq!(receive(&due, now), now);
        mover.join().unwrap();
    });
}

/// Two waiters look again after a move, and each gets one tick.
#[test]
fn all_waiters_look_again() {
    explore(2, || {
        let now = Instant::now();
        let sleepers = [Sleeper::new(), Sleeper::new()];
        Sleeper::is_me(&sleepers[0]);
        // With this period a new point is due whenever a point is taken.
        let due = due(Next::Never, Some(Duration::ZERO));
        let other = sleepers[1].clone();
        let receiver = and(&due, move |due| {
            Sleeper::is_me(&other);
            receive(due, now)
        });
        let mover = and(&due, move |due| assert!(due.set(Next::At(now), Some(Duration::ZERO))));
        receive(&due, now);
        receiver.join().unwrap();
        mover.join().unwrap();
    });
}

/// A waiter times out while its point is moved. The waiter leaves the queue, and the new point can be taken.
#[test]
fn a_mover_meets_a_time_out() {
    explore(3, || {
        let now = Instant::now();
        let sleeper = Sleeper::new();
        Sleeper::is_me(&sleeper);
        let due = due(Next::At(now + MS), None);
        let mover = and(&due, move |due| due.set(Next::At(now), None));
        let timer = {
            let sleeper = sleeper.clone();
            thread::spawn(move || sleeper.time_out(1))
        };
        let outcome = due.wait(now, None, ());
        assert!(matches!(outcome, Outcome::Woken | Outcome::TimedOut));
        assert!(mover.join().unwrap());
        timer.join().unwrap();
        assert!(due.0.lock().waiters.is_empty(), "the waiter is still in the queue");
        assert_eq!(due.take(now), Some(now));
    });
}
