//! Defects on purpose, to test the soak itself: each must be reported. An operation of this file is chosen
//! only by its name.

use std::mem::forget;
use std::time::Duration;

use runtime::thread;

use crate::actor::Actor;
use crate::late;

pub(super) fn hangs(_: &mut Actor) {
    loop {
        thread::park();
    }
}

pub(super) fn check_fails(a: &mut Actor) {
    // The failed check is in a thread without a joiner.
    a.spawn(|b| assert_eq!(b.number(0..1), 1)).detach();
}

pub(super) fn drop_is_lost(a: &mut Actor) {
    forget(a.token());
}

pub(super) fn descriptor_is_lost(_: &mut Actor) {
    forget(std::fs::File::open(std::env::current_exe().expect("this program")).expect("a file"));
    runtime::sleep(Duration::from_millis(100));
}

pub(super) fn thread_is_left(_: &mut Actor) {
    std::thread::spawn(|| std::thread::sleep(Duration::from_secs(3600)));
    runtime::sleep(Duration::from_millis(100));
}

/// Delays wake-ups, as if each were lost and repaired after 10 ms.
pub(super) fn wakes_late(_: &mut Actor) {
    late::break_wake_ups();
    runtime::sleep(Duration::from_millis(10));
}
