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

/// std calls the hook under a lock. A run that ended before the hook would keep this lock for ever.
#[test]
fn a_run_waits_until_the_hook_has_returned() {
    panic::set_hook(Box::new(|_| drop(LOCK.lock())));
    let (locked, is_locked) = mpsc::channel();
    let holder = thread::spawn(move || {
        let guard = LOCK.lock();
        locked.send(()).unwrap();
        thread::sleep(LONGER_THAN_BEFORE_A_DEADLOCK);
        drop(guard);
    });
    is_locked.recv().unwrap();
    let result = sim::Builder::new().shrink(false).try_explore(1, || {
        thread::spawn(|| panic!("found")).join().unwrap_err();
        panic!("after it");
    });
    assert_eq!(result.unwrap_err().message(), "after it");
    holder.join().unwrap();
    _ = panic::take_hook();
}
