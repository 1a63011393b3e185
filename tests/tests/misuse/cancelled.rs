//! Which calls unwind a caller that is cancelled or timed out. Calls that wait by their nature always unwind,
//! even if they could return at once. Calls that may complete at once unwind only if they must wait. Other
//! calls never unwind.

use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{Cancelled, JoinHandle};
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{Handle, spawn, thread};
use tests::{everywhere, on_each, wait_until, with};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

fn ended<T: Send + 'static>(value: T) -> JoinHandle<T> {
    let thread = spawn(move || value);
    while !thread.is_finished() {
        thread::yield_now();
    }
    thread
}

/// Calls that wait by their nature. Each could return at once here.
const ALWAYS: &[(&str, fn())] = &[
    ("sleep", || runtime::sleep(Duration::ZERO)),
    ("sleep_until", || runtime::sleep_until(Instant::now())),
    ("park", || {
        thread::current().unpark();
        thread::park();
    }),
    ("park_timeout", || {
        thread::current().unpark();
        thread::park_timeout(Duration::ZERO);
    }),
    ("join", || drop(ended(7).join())),
    ("scope", || runtime::scope(|_| ())),
    ("join in a scope", || {
        runtime::scope(|s| {
            let thread = s.spawn(|| ());
            while !thread.is_finished() {
                thread::yield_now();
            }
            let _ = thread.join();
            unreachable!("the join unwinds");
        });
    }),
];

/// Calls that never unwind.
const NEVER: &[(&str, fn())] = &[
    ("yield_now", thread::yield_now),
    ("spawn", || drop(spawn(|| ()))),
    ("spawn a future", || drop(spawn(async {}))),
    ("blocking", || runtime::blocking(|| std::thread::sleep(MILLI))),
    ("block_on a closure", || runtime::block_on(|| ())),
    ("Handle::block_on", || assert_eq!(Handle::current().block_on(|| spawn(|| 7).join().unwrap()), 7)),
    ("timeout", || assert_eq!(timeout(HOUR, || 7), Ok(7))),
    ("pin", || drop(thread::pin())),
    ("current", || drop(thread::current())),
    ("unpark", || thread::current().unpark()),
    ("cancel", || spawn(thread::park).cancel()),
    ("metrics", || drop(runtime::metrics::snapshot())),
    ("bind", || drop(TcpListener::bind("127.0.0.1:0").unwrap())),
    ("a runtime", || {
        let runtime = tests::runtime(1);
        runtime.spawn(thread::park);
    }),
];

/// Calls that may complete at once, and do so here.
const AT_ONCE: &[(&str, fn())] = &[
    ("block_on a future", || runtime::block_on(async {})),
    ("await an ended thread", || assert_eq!(runtime::block_on(ended(7)).unwrap(), 7)),
    ("await a time that is over", || runtime::block_on(sleep_async(Duration::ZERO))),
    ("timeout_async", || assert_eq!(runtime::block_on(timeout_async(HOUR, async { 7 })), Ok(7))),
    ("sockets", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // std makes the connection, so that no connect of the runtime waits.
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(b"x").unwrap();
        (&client).write_all(b"y").unwrap();
        assert_eq!(server.read(&mut [0; 2]).unwrap(), 1);
    }),
];

/// Calls that may complete at once, and must wait here.
const WAITING: &[(&str, fn())] = &[
    ("block_on a future", || runtime::block_on(std::future::pending())),
    ("await a thread", || drop(runtime::block_on(spawn(thread::park)))),
    ("await a time", || runtime::block_on(sleep_async(HOUR))),
    ("timeout_async", || runtime::block_on(timeout_async(HOUR, sleep_async(HOUR))).unwrap()),
    ("accept", || drop(TcpListener::bind("127.0.0.1:0").unwrap().accept())),
    ("read", || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        // A connect that must wait unwinds too.
        let _ = TcpStream::connect(addr).unwrap().read(&mut [0]);
    }),
];

/// Runs `main` on a green thread after its cancellation.
fn cancelled(main: impl FnOnce() + Send + 'static) {
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let thread = spawn(move || {
        begins.store(true, SeqCst);
        while !thread::cancelled() {
            thread::yield_now();
        }
        main();
        7
    });
    wait_until("the thread has begun", || begun.load(SeqCst));
    thread.cancel();
    assert_eq!(thread.join().expect("the thread returns"), 7);
}

#[test]
fn which_calls_unwind_a_cancelled_thread() {
    on_each(|| {
        for &(name, call) in ALWAYS.iter().chain(WAITING) {
            cancelled(move || {
                let Err(payload) = catch_unwind(call) else { panic!("{name} has returned") };
                assert!(payload.is::<Cancelled>(), "{name}");
            });
        }
        for &(name, call) in NEVER.iter().chain(AT_ONCE) {
            cancelled(move || assert!(catch_unwind(call).is_ok(), "{name} unwinds"));
        }
    });
}

#[test]
fn which_calls_unwind_after_a_timeout() {
    everywhere(|| {
        let is_up = |call: fn()| timeout(Duration::ZERO, call);
        for &(name, call) in ALWAYS {
            assert!(is_up(call).is_err(), "{name}");
        }
        // On a plain thread, a green thread drives the future, and the plain thread's time-out does not apply
        // to that thread.
        if Handle::try_current().is_some() {
            for &(name, call) in WAITING {
                assert!(is_up(call).is_err(), "{name}");
            }
        }
        for &(name, call) in NEVER.iter().chain(AT_ONCE) {
            assert_eq!(is_up(call), Ok(()), "{name}");
        }
    });
}

/// The result that an unwinding `join` has taken is dropped.
#[test]
fn a_result_joined_by_a_cancelled_thread_is_dropped() {
    on_each(|| {
        let drops = tests::Drops::default();
        let token = drops.token();
        cancelled(move || {
            let holds = ended(token);
            assert!(catch_unwind(AssertUnwindSafe(|| drop(holds.join()))).unwrap_err().is::<Cancelled>());
        });
        assert_eq!((drops.count(), drops.alive()), (1, 0));
    });
}

#[test]
fn cancelling_twice_oneself_or_an_ended_thread() {
    with(2, |runtime| {
        let twice = runtime.spawn(thread::park);
        twice.cancel();
        twice.cancel();
        assert!(twice.join().unwrap_err().is::<Cancelled>());
        let dead = runtime.spawn(|| 7);
        wait_until("the thread has ended", || dead.is_finished());
        dead.cancel();
        dead.thread().unpark();
        assert_eq!(dead.join().unwrap(), 7);
        // A thread cancels itself through its own handle.
        let (sender, own) = std::sync::mpsc::channel::<JoinHandle<()>>();
        let itself = runtime.spawn(move || {
            let own = own.recv().unwrap();
            own.cancel();
            assert!(thread::cancelled());
            thread::yield_now();
            drop(own);
            runtime::sleep(HOUR);
        });
        let thread = itself.thread().clone();
        sender.send(itself).unwrap();
        let handle = runtime.handle();
        wait_until("all threads have ended", || handle.metrics().spawned == handle.metrics().ended);
        thread.unpark();
    });
}
