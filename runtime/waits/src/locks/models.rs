//! What the loom models of the locks share: threads that may park, and their ends.

mod condvar;
mod futures;
mod mutex;
mod once;
mod rwlock;

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::Patience;
use sched::modelled::Sleeper;

/// A thread of a model, with the sleeper that it parks on.
struct Person<T> {
    sleeper: Arc<Sleeper>,
    thread: JoinHandle<T>,
}

/// Starts a thread that may park.
fn person<T: 'static>(does: impl FnOnce() -> T + 'static) -> Person<T> {
    let sleeper = Sleeper::new();
    let its = sleeper.clone();
    let thread = thread::spawn(move || {
        Sleeper::is_me(&its);
        does()
    });
    Person { sleeper, thread }
}

/// Gives the calling thread a sleeper, so that it may park. Keep the sleeper until all threads have ended.
fn i_may_wait() -> Arc<Sleeper> {
    let sleeper = Sleeper::new();
    Sleeper::is_me(&sleeper);
    sleeper
}

/// Joins all threads and returns their results. Keeps their sleepers alive until the last thread has ended.
fn all_end<T>(people: Vec<Person<T>>) -> Vec<T> {
    let (sleepers, threads): (Vec<_>, Vec<_>) =
        people.into_iter().map(|person| (person.sleeper, person.thread)).unzip();
    let ends = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    drop(sleepers);
    ends
}
