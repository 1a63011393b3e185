//! A panic hook that waits for an OS thread outside of the simulation. This program has no other test: the
//! hook is that of the process.

runtime::interpose!(sim);

use std::panic;
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use runtime::sim;

/// As the lock under which std prints a backtrace.
static LOCK: Mutex<()> = Mutex::new(());

/// Longer than a simulation waits for the word of a thread that does not panic.
const LONGER_THAN_BEFORE_A_DEADLOCK: Duration = Duration::from_secs(25);

/// Longer than the end of a node takes without a thread that panics.
const LONGER_THAN_A_KILL: Duration = Duration::from_secs(10);

/// As that, for the end of a run.
const LONGER_THAN_AN_END: Duration = Duration::from_secs(2);

/// std calls the hook under a lock. A run that ended before the hook would keep this lock for ever.
#[test]
fn a_run_waits_until_the_hook_has_returned() {
    panic::set_hook(Box::new(|_| drop(LOCK.lock())));
    let holder = hold_for(LONGER_THAN_BEFORE_A_DEADLOCK);
    let result = sim::Builder::new().shrink(false).try_explore(1, || {
        thread::spawn(|| panic!("found")).join().unwrap_err();
        panic!("after it");
    });
    assert_eq!(result.unwrap_err().message(), "after it");
    holder.join().unwrap();

    let holder = hold_for(LONGER_THAN_A_KILL);
    sim::run(1, || {
        let node = sim::node("db", || panic!("killed while it panics"));
        // The node is in the hook then.
        thread::sleep(Duration::from_secs(1));
        node.kill();
    });
    holder.join().unwrap();
    take_hook_soon();

    panic::set_hook(Box::new(|_| drop(LOCK.lock())));
    let holder = hold_for(LONGER_THAN_AN_END);
    sim::run(1, || {
        thread::spawn(|| panic!("not joined"));
        // The thread is in the hook then.
        thread::sleep(Duration::from_secs(1));
    });
    holder.join().unwrap();
    take_hook_soon();
}

/// An OS thread that has locked `LOCK` for `time`.
fn hold_for(time: Duration) -> thread::JoinHandle<()> {
    let (locked, is_locked) = mpsc::channel();
    let holder = thread::spawn(move || {
        let guard = LOCK.lock();
        locked.send(()).unwrap();
        thread::sleep(time);
        drop(guard);
    });
    is_locked.recv().unwrap();
    holder
}

/// Takes the hook, and aborts if another thread is in it.
fn take_hook_soon() {
    let (taken, is_taken) = mpsc::channel();
    thread::spawn(move || {
        _ = panic::take_hook();
        taken.send(()).unwrap();
    });
    if is_taken.recv_timeout(Duration::from_secs(30)).is_err() {
        // A panic would wait for the hook, too.
        eprintln!("a thread of the run was left behind in the hook");
        std::process::abort();
    }
}
