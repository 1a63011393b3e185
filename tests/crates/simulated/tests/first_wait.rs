//! The first waits for locks of std in a process, in two simulations at once. This program has no other test:
//! the first of these waits looks up what later ones know.

runtime::interpose!(sim);

use std::ffi::{c_int, c_void};
use std::hint;
use std::ptr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use runtime::sim;

/// The simulations of which a thread is about to wait.
static READY: AtomicUsize = AtomicUsize::new(0);
/// True from the moment at which the list of libraries is locked.
static LOCKED: AtomicBool = AtomicBool::new(false);

/// Keeps the lock of the loader's list of libraries for a while: a look-up in that list waits.
extern "C" fn hold(_: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    LOCKED.store(true, Ordering::Release);
    thread::sleep(Duration::from_millis(500));
    1
}

fn spin_until(is_over: impl Fn() -> bool) {
    while !is_over() {
        hint::spin_loop();
    }
}

/// Two threads want a lock. The second one waits for it by a futex.
fn contend() {
    let lock = Mutex::new(0);
    thread::scope(|scope| {
        let held = lock.lock().unwrap();
        scope.spawn(|| {
            READY.fetch_add(1, Ordering::AcqRel);
            spin_until(|| LOCKED.load(Ordering::Acquire));
            *lock.lock().unwrap() += 1;
        });
        thread::sleep(Duration::from_millis(1));
        drop(held);
    });
    assert_eq!(lock.into_inner().unwrap(), 1);
}

#[test]
fn two_simulations_may_look_up_static_memory_at_once() {
    thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || sim::run(seed, contend));
        }
        spin_until(|| READY.load(Ordering::Acquire) == 2);
        // SAFETY: the function has the type that the loader asks for, and uses no argument.
        unsafe { libc::dl_iterate_phdr(Some(hold), ptr::null_mut()) };
    });
}
