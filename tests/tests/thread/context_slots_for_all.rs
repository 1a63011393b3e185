//! A slot of every green thread. Apart from the other tests of slots, because it cannot be taken back.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::context_slot::{Slot, ThreadContext};
use runtime::time::sleep_async;
use runtime::{Builder, Migration, scope, spawn};
use tests::with_built;

std::thread_local!(static REQUEST: Cell<u64> = const { Cell::new(0) });

#[inline(never)]
fn set_request(id: u64) -> u64 {
    REQUEST.replace(id)
}

#[inline(never)]
fn request() -> u64 {
    REQUEST.get()
}

struct Request;

static CALLS: AtomicUsize = AtomicUsize::new(0);

impl ThreadContext for Request {
    type Saved = u64;

    fn save(&self) -> u64 {
        CALLS.fetch_add(1, SeqCst);
        set_request(0)
    }

    fn restore(&self, id: u64) {
        assert_eq!(set_request(id), 0, "another green thread has left its context behind");
    }

    fn inherit(&self) -> Option<u64> {
        Some(request())
    }
}

static SLOT: Slot<Request> = Slot::new(Request);

#[test]
fn every_green_thread_has_the_slot() {
    tests::alone!();
    tests::on(2, || {
        runtime::yield_now();
        assert!(!SLOT.is_attached());
    });
    assert_eq!(CALLS.load(SeqCst), 0, "before the slot is attached to all");
    SLOT.attach_to_all();
    SLOT.attach_to_all();
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        for procs in [1, 2, 8] {
            with_built(Builder::new().procs(procs).migration(migration), |runtime| {
                set_request(9);
                runtime.block_on(|| {
                    assert_eq!(request(), 9, "inherited from the plain OS thread");
                    crowd();
                    assert_eq!(request(), 9);
                });
                set_request(0);
            });
        }
    }
    // A green thread may do without.
    tests::on(2, || {
        let before = CALLS.load(SeqCst);
        SLOT.detach();
        (0..10).for_each(|_| runtime::yield_now());
        spawn(|| assert!(SLOT.is_attached())).join().unwrap();
        assert_eq!(CALLS.load(SeqCst), before + 1, "the child's end");
    });
}

fn crowd() {
    scope(|s| {
        for id in 100..300u64 {
            s.spawn(move || {
                assert_eq!(set_request(id), 9);
                runtime::sleep(Duration::from_micros(id));
                assert_eq!(request(), id);
                let child = spawn(async move {
                    sleep_async(Duration::from_micros(id)).await;
                    runtime::yield_now();
                    set_request(1)
                });
                assert_eq!(child.join().unwrap(), id);
                assert_eq!(request(), id);
            });
        }
    });
}
