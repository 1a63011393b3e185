//! What the models of the locks share.

mod condvar;
mod mutex;
mod once;
mod rwlock;

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};

use super::Patience;
use crate::queue::modelled::Sleeper;

/// A thread of a model, and where it sleeps.
struct Person<T> {
    sleeper: Arc<Sleeper>,
    thread: JoinHandle<T>,
}

/// Starts a thread that may wait.
fn person<T: 'static>(does: impl FnOnce() -> T + 'static) -> Person<T> {
    let sleeper = Sleeper::new();
    let its = sleeper.clone();
    let thread = thread::spawn(move || {
        Sleeper::is_me(&its);
        does()
    });
    Person { sleeper, thread }
}

/// The calling thread may wait too; keep what this gives until all have ended.
fn i_may_wait() -> Arc<Sleeper> {
    let sleeper = Sleeper::new();
    Sleeper::is_me(&sleeper);
    sleeper
}

/// All of them have ended; their sleepers are kept until then.
fn all_end<T>(people: Vec<Person<T>>) -> Vec<T> {
    let (sleepers, threads): (Vec<_>, Vec<_>) =
        people.into_iter().map(|person| (person.sleeper, person.thread)).unzip();
    let ends = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    drop(sleepers);
    ends
}
