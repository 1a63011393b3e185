//! Cancellation: it ends the wait of a green thread, and destructors run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use runtime::thread::Cancelled;

use super::victims;
use crate::actor::{Actor, described, set};

/// Cancels a green thread that waits in some way, at any moment.
pub(super) fn victim(a: &mut Actor) {
    let site = a.site.clone();
    let victim = victims::start(a, &site);
    a.pause();
    victim.cancel();
    victim.was_cancelled();
}

/// Cancels a green thread, most of the time before its start. Its closure then never runs.
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
        Err(end) => assert!(
            end.is::<Cancelled>() && !started.load(SeqCst),
            "the child ended with {}",
            described(&*end)
        ),
    }
}

/// Cancels a green thread that performs any operation. The thread returns, or ends as cancelled.
pub(super) fn anything(a: &mut Actor) {
    let child = a.spawn(|b| b.anything());
    a.pause();
    child.cancel();
    if let Err(end) = child.join() {
        assert!(end.is::<Cancelled>(), "the child ended with {}", described(&*end));
    }
}
