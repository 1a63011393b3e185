//! Pinning: a pinned thread stays on its OS thread, and in a strict runtime every started thread does.

use runtime::thread;

use tests::os_thread;

use crate::actor::Actor;

/// A thread that is pinned, once or twice, waits in several ways.
pub(super) fn stays(a: &mut Actor) {
    let _pin = thread::pin();
    let twice = a.one_in(2).then(thread::pin);
    waits_here(a);
    drop(twice);
    waits_here(a);
}

/// A pinned thread performs any operation.
pub(super) fn anything(a: &mut Actor) {
    let (_pin, before) = (thread::pin(), os_thread());
    a.anything();
    assert_eq!(os_thread(), before, "a pinned thread has moved");
}

/// A thread without a pin, in a runtime where a started thread stays on its OS thread.
pub(super) fn keeps_its_thread(a: &mut Actor) {
    if a.site.mode.keeps_thread || !a.green {
        waits_here(a);
    } else {
        a.pause();
    }
}

fn waits_here(a: &mut Actor) {
    let before = os_thread();
    for _ in 0..a.number(1..6) {
        match a.random.below(5) {
            0 => a.world.clone().desk.ask(a),
            1 => a.spawn(|b| b.pause()).value(),
            2 => runtime::blocking(std::thread::yield_now),
            3 if a.green => a.block_on(runtime::time::sleep_async(std::time::Duration::from_micros(50))),
            _ => a.pause(),
        }
        assert_eq!(os_thread(), before, "the thread has left its OS thread");
    }
}
