//! The models: taking, stopping and moving a point in time race, and somebody waits.

use std::time::{Duration, Instant};

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::{Due, Next};
use crate::g::wait::Outcome;
use crate::models::explore;
use crate::queue::modelled::Sleeper;

const MS: Duration = Duration::from_millis(1);

fn due(next: Next, period: Option<Duration>) -> Arc<Due<()>> {
    Arc::new(Due::new(next, period))
}

fn and<T: 'static>(due: &Arc<Due<()>>, does: impl FnOnce(&Due<()>) -> T + 'static) -> JoinHandle<T> {
    let due = due.clone();
    thread::spawn(move || does(&due))
}

/// Takes the point that has come at `now`, and waits for it if need be.
fn receive(due: &Due<()>, now: Instant) -> Instant {
    loop {
        if let Some(instant) = due.take(now) {
            return instant;
        }
        due.wait(now, None, ());
    }
}

#[test]
fn one_that_is_stopped_is_not_taken() {
    explore(3, || {
        let now = Instant::now();
        let due = due(Next::At(now), None);
        let taker = and(&due, move |due| due.take(now).is_some());
        let stopped = due.set(Next::Nothing, None);
        assert!(stopped ^ taker.join().unwrap(), "taken and pending, or neither");
        assert_eq!(due.take(now), None, "it is taken after it was stopped");
    });
}

/// Moved while it is taken, with another one who takes: each of the two points ends in one way.
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
        assert_ne!(after, Some(now - MS), "it is taken after it was moved");
    });
}

/// Two stop it, one of them to start it again.
#[test]
fn two_who_stop_it_cannot_both_have_found_it() {
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
fn who_waits_hears_of_an_earlier_one() {
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

/// Stopped and started again: who waits hears of the second, if it has not heard of the first.
#[test]
fn who_waits_hears_of_one_that_was_started_again() {
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

/// Two wait; each comes to look at the ticks, of which each gets one.
#[test]
fn all_who_wait_look_again() {
    explore(2, || {
        let now = Instant::now();
        let sleepers = [Sleeper::new(), Sleeper::new()];
        Sleeper::is_me(&sleepers[0]);
        // A point whenever one is taken.
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

/// It leaves the queue when its own timer fires, whoever moves the point at that moment.
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
        assert!(due.0.lock().waiters.is_empty(), "it is still in the queue");
        assert_eq!(due.take(now), Some(now));
    });
}
