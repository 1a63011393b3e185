//! `set_procs` with more and fewer Ps while everything runs.

use std::sync::atomic::Ordering::SeqCst;

use tests::OnDrop;

use super::runtimes::Own;
use crate::actor::Actor;

/// Resizes the runtime under test. A single actor at a time does so.
pub(super) fn home(a: &mut Actor) {
    let world = a.world.clone();
    if world.resizing.swap(true, SeqCst) {
        return a.pause();
    }
    let handle = &world.home.handle;
    let _back = OnDrop(|| {
        handle.set_procs(world.procs).expect("the first number of Ps is valid");
        world.resizing.store(false, SeqCst);
    });
    for _ in 0..a.number(1..5) {
        let procs = a.number(1..2 * world.procs as u64 + 2) as usize;
        handle.set_procs(procs).expect("a valid number of Ps");
        assert_eq!(handle.procs(), procs);
        if a.one_in(3) { a.anything() } else { a.pause() }
    }
    assert!(handle.set_procs(0).is_err());
}

/// Resizes a runtime of its own under load: to 1, 8, 2 in turn, or to random numbers.
pub(super) fn own(a: &mut Actor) {
    let own = Own::start(a, 1);
    let children: Vec<_> = (0..a.number(2..12))
        .map(|_| {
            own.spawn(a, |b| {
                b.anything();
                // The children resize the runtime too, at the same time.
                let procs = b.number(1..10) as usize;
                b.site.handle.set_procs(procs).expect("a valid number of Ps");
                b.pause();
            })
        })
        .collect();
    let fixed = a.one_in(2);
    for i in 0..a.number(2..8) as usize {
        let procs = if fixed { [1, 8, 2][i % 3] } else { a.number(1..20) as usize };
        own.site.handle.set_procs(procs).expect("a valid number of Ps");
        a.pause();
    }
    children.into_iter().for_each(|child| child.value());
    own.ends();
}
