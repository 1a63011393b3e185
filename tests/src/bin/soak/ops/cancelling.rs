//! Cancellation: it ends the wait of a green thread, and destructors run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use runtime::thread::Cancelled;

use super::victims;
use crate::actor::{Actor, described, set};

/// One that waits in some way, at any moment.
pub(super) fn victim(a: &mut Actor) {
    let site = a.site.clone();
    let victim = victims::start(a, &site);
    a.pause();
    victim.cancel();
    victim.was_cancelled();
}

/// One that has not started, most of the time: it then never does.
pub(super) fn not_started(a: &mut Actor) {
    let started = Arc::new(AtomicBool::new(false));
    let (starts, token) = (started.clone(), a.token());
    let child = a.spawn(move |_| {
        let _token = token;
        set(&starts);
        7
    });
    child.cancel();
    match child.join() {
        Ok(value) => assert!(value == 7 && started.load(SeqCst)),
        Err(end) => assert!(end.is::<Cancelled>() && !started.load(SeqCst), "not with {}", described(&*end)),
    }
}

/// One that does anything: it comes to its end, or is cancelled, and leaves nothing.
pub(super) fn anything(a: &mut Actor) {
    let child = a.spawn(|b| b.anything());
    a.pause();
    child.cancel();
    if let Err(end) = child.join() {
        assert!(end.is::<Cancelled>(), "not with {}", described(&*end));
    }
}
