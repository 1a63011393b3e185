//! Panics: each reaches only its joiner, and a wait during unwinding affects no other green thread.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use runtime::{spawn, thread};
use tests::{Drops, ON_PURPOSE, OnDrop, PROCS, on, on_each, quiet_panics_on_purpose, runtime, with};

fn panics<T>() -> T {
    panic!("{ON_PURPOSE}")
}

fn says_on_purpose(payload: &(dyn Any + Send)) -> bool {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)) == Some(ON_PURPOSE)
}

#[test]
fn only_the_joiner_sees_the_panic() {
    quiet_panics_on_purpose();
    on_each(|| {
        let threads: Vec<_> = (0..1000)
            .map(|i| {
                spawn(move || {
                    thread::yield_now();
                    if i == 617 { panics() } else { i }
                })
            })
            .collect();
        for (i, thread) in threads.into_iter().enumerate() {
            match thread.join() {
                Ok(value) => assert_eq!(value, i),
                Err(payload) => assert!(i == 617 && says_on_purpose(&*payload)),
            }
        }
    });
}

#[test]
fn payloads_of_every_type_arrive() {
    quiet_panics_on_purpose();
    on_each(|| {
        let literal = spawn(|| std::panic::panic_any(ON_PURPOSE)).join().unwrap_err();
        assert!(literal.is::<&str>() && says_on_purpose(&*literal));
        let formatted = spawn(|| panic!("{ON_PURPOSE} {}", 1)).join().unwrap_err();
        assert_eq!(*formatted.downcast::<String>().unwrap(), format!("{ON_PURPOSE} 1"));
        let resumed = spawn(|| resume_unwind(Box::new([7u8; 300]))).join().unwrap_err();
        assert_eq!(*resumed.downcast::<[u8; 300]>().unwrap(), [7; 300]);
        let drops = Drops::default();
        let token = drops.token();
        let counted = spawn(|| resume_unwind(Box::new(token))).join().unwrap_err();
        assert_eq!(drops.count(), 0);
        drop(counted);
        assert_eq!(drops.count(), 1);
    });
}

#[test]
fn a_future_panics_in_its_first_poll_and_in_a_later_one() {
    quiet_panics_on_purpose();
    on_each(|| {
        let drops = Drops::default();
        for sleeps in [0, 1, 3] {
            let token = drops.token();
            let future = async move {
                let _token = token;
                for _ in 0..sleeps {
                    runtime::time::sleep_async(Duration::from_micros(10)).await;
                }
                panics::<()>()
            };
            assert!(says_on_purpose(&*spawn(future).join().unwrap_err()));
        }
        assert_eq!(drops.alive(), 0);
    });
}

#[test]
fn a_panic_in_the_drop_of_a_capture() {
    quiet_panics_on_purpose();
    on_each(|| {
        let bomb = OnDrop(panics::<()>);
        let closure = spawn(move || drop(bomb));
        assert!(says_on_purpose(&*closure.join().unwrap_err()));
        // A value inside a future is dropped with the future, after its last poll.
        struct Bomb(OnDrop<fn()>);
        impl Future for Bomb {
            type Output = u32;
            fn poll(self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u32> {
                let _ = &self.0;
                Poll::Ready(7)
            }
        }
        let future = spawn(Bomb(OnDrop(panics::<()>)));
        assert!(says_on_purpose(&*future.join().unwrap_err()));
    });
}

#[test]
fn a_panic_in_the_drop_of_a_closure_that_never_began() {
    quiet_panics_on_purpose();
    with(1, |runtime| {
        let (sender, go) = std::sync::mpsc::channel();
        let first = runtime.spawn(move || go.recv().unwrap());
        let bomb = OnDrop(panics::<()>);
        let never = runtime.block_on(move || {
            let never = spawn(move || drop(bomb));
            never.cancel();
            never
        });
        sender.send(()).unwrap();
        first.join().unwrap();
        assert!(says_on_purpose(&*never.join().unwrap_err()));
    });
}

#[test]
fn a_caught_panic_leaves_no_trace() {
    quiet_panics_on_purpose();
    on_each(|| {
        let thread = spawn(|| {
            for _ in 0..100 {
                assert!(catch_unwind(panics::<()>).is_err());
                thread::yield_now();
                runtime::sleep(Duration::from_micros(1));
                assert!(!thread::panicking());
            }
            5
        });
        assert_eq!(thread.join().unwrap(), 5);
    });
}

/// Waits in a way chosen by `kind`, in a destructor during a panic.
fn waits_in_every_way(kind: usize) {
    assert!(thread::panicking());
    match kind % 8 {
        0 => runtime::sleep(Duration::from_millis(2)),
        1 => {
            let me = thread::current();
            spawn(move || {
                runtime::sleep(Duration::from_millis(1));
                me.unpark();
            });
            thread::park();
        }
        2 => spawn(|| runtime::sleep(Duration::from_millis(1))).join().unwrap(),
        3 => (0..20).for_each(|_| thread::yield_now()),
        4 => runtime::blocking(|| std::thread::sleep(Duration::from_millis(1))),
        5 => runtime::block_on(async { runtime::time::sleep_async(Duration::from_millis(1)).await }),
        6 => thread::park_timeout(Duration::from_millis(1)),
        _ => drop(tests::spin(Duration::from_millis(15))),
    }
    assert!(thread::panicking(), "the thread has lost its count of panics");
}

/// Green threads that do not panic poll `panicking`, while others wait in destructors during a panic.
fn others_do_not_see_it(kinds: std::ops::Range<usize>) {
    let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let lookers: Vec<_> = (0..4)
        .map(|i| {
            let (stop, seen) = (stop.clone(), seen.clone());
            spawn(move || {
                while !stop.load(SeqCst) {
                    if thread::panicking() || std::thread::panicking() {
                        seen.fetch_add(1, SeqCst);
                    }
                    if i % 2 == 0 { thread::yield_now() } else { runtime::sleep(Duration::from_micros(50)) }
                }
            })
        })
        .collect();
    let done = Arc::new(AtomicUsize::new(0));
    let number = kinds.len();
    let threads: Vec<_> = kinds
        .map(|kind| {
            let done = done.clone();
            spawn(move || {
                let _waits = OnDrop(|| {
                    waits_in_every_way(kind);
                    done.fetch_add(1, SeqCst);
                });
                panics::<()>()
            })
        })
        .collect();
    for thread in threads {
        assert!(says_on_purpose(&*thread.join().unwrap_err()));
    }
    stop.store(true, SeqCst);
    for looker in lookers {
        looker.join().unwrap();
    }
    assert_eq!(
        (done.load(SeqCst), seen.load(SeqCst)),
        (number, 0),
        "number that waited, number seen by other threads"
    );
}

#[test]
fn destructors_wait_during_panics_unseen_by_others() {
    quiet_panics_on_purpose();
    for procs in PROCS {
        // Each kind alone, and many at the same time.
        for kind in 0..8 {
            on(procs, move || others_do_not_see_it(kind..kind + 1));
        }
        on(procs, || others_do_not_see_it(0..40));
    }
}

#[test]
fn the_destructors_of_a_future_wait_during_a_panic() {
    quiet_panics_on_purpose();
    on_each(|| {
        for kind in 0..8 {
            let waited = Arc::new(AtomicBool::new(false));
            let done = waited.clone();
            let future = async move {
                let _waits = OnDrop(|| {
                    waits_in_every_way(kind);
                    done.store(true, SeqCst);
                });
                runtime::time::sleep_async(Duration::from_micros(10)).await;
                panics::<()>()
            };
            assert!(says_on_purpose(&*spawn(future).join().unwrap_err()));
            assert!(waited.load(SeqCst));
        }
    });
}

#[test]
fn a_panic_in_block_on_unwinds_its_caller() {
    quiet_panics_on_purpose();
    let panicked = |main: &dyn Fn()| {
        let payload = catch_unwind(AssertUnwindSafe(main)).unwrap_err();
        assert!(says_on_purpose(&*payload));
        assert!(!std::thread::panicking());
    };
    // On a plain thread: a closure and a future in the default runtime.
    panicked(&|| runtime::block_on(panics::<()>));
    panicked(&|| runtime::block_on(async { panics::<()>() }));
    with(2, |own| {
        panicked(&|| own.block_on(panics::<()>));
        panicked(&|| own.block_on(async { panics::<()>() }));
        // On a green thread: driven there, or in another runtime.
        let other = runtime(2);
        own.block_on(|| {
            panicked(&|| runtime::block_on(panics::<()>));
            panicked(&|| runtime::block_on(async { panics::<()>() }));
            panicked(&|| other.block_on(panics::<()>));
            panicked(&|| other.handle().block_on(async { panics::<()>() }));
            assert_eq!(spawn(|| 3).join().unwrap(), 3);
        });
    });
}
