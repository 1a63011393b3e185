//! Pinned ones keep their OS thread; so does everyone in a runtime of that kind.

use runtime::thread;

use crate::actor::{Actor, os_thread};

/// Pinned, once or twice, it waits in several ways.
pub(super) fn stays(a: &mut Actor) {
    let _pin = thread::pin();
    let twice = a.one_in(2).then(thread::pin);
    waits_here(a);
    drop(twice);
    waits_here(a);
}

/// Whatever it does.
pub(super) fn anything(a: &mut Actor) {
    let (_pin, before) = (thread::pin(), os_thread());
    a.anything();
    assert_eq!(os_thread(), before, "it was pinned");
}

/// Without a pin, where a started one stays.
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
        assert_eq!(os_thread(), before, "it was to stay on its OS thread");
    }
}
