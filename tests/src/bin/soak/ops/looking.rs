//! Observation: metrics, and the identity of the current thread.

use runtime::metrics::Snapshot;
use runtime::{Handle, thread};

use crate::actor::Actor;

/// Counters never decrease.
pub(super) fn metrics(a: &mut Actor) {
    let look = if a.one_in(2) { runtime::metrics::snapshot() } else { a.world.home.handle.metrics() };
    assert!(look.procs >= 1 && look.local_queues.len() >= look.procs);
    let handle = a.site.handle.clone();
    let before = counters(&handle.metrics());
    a.pause();
    let after = counters(&handle.metrics());
    assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{before:?} {after:?}");
}

fn counters(look: &Snapshot) -> [u64; 10] {
    [
        look.spawned,
        look.ended,
        look.parks,
        look.yields,
        look.steals,
        look.timers_fired,
        look.net_wakeups,
        look.net_polls,
        look.hand_offs,
        look.rescues_computing,
    ]
}

/// The id of a thread is unique and does not change.
pub(super) fn current(a: &mut Actor) {
    let me = thread::current();
    assert_eq!(Handle::try_current().is_some(), a.green);
    let child = a.spawn(|b| {
        let before = thread::current().id();
        b.pause();
        assert_eq!(thread::current().id(), before);
        assert_eq!(thread::current().name(), None);
        before
    });
    let id = child.handle().thread().id();
    a.pause();
    assert_eq!(child.value(), id);
    assert_eq!(thread::current().id(), me.id());
    assert_ne!(id, me.id());
}
