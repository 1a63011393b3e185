//! A table of calls, one for each kind in the API. Tests make these calls in unusual places, such as
//! destructors.

use std::cell::Cell;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use runtime::net::{TcpListener, TcpStream};
use runtime::thread::{self, Cancelled};
use runtime::time::{sleep_async, timeout, timeout_async};
use runtime::{Handle, Runtime, spawn};

const MILLI: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);

/// A name and a function that makes the call and checks its documented result.
pub type Call = (&'static str, fn());

/// Calls that work on every thread and at every moment.
pub const ANYWHERE: &[Call] = &[
    ("sleep", || takes(MILLI, || runtime::sleep(MILLI))),
    ("sleep_until", || takes(MILLI, || runtime::sleep_until(Instant::now() + MILLI))),
    ("park", || {
        let me = thread::current();
        let waker = spawn(move || {
            runtime::sleep(MILLI);
            me.unpark();
        });
        thread::park();
        waker.join().unwrap();
    }),
    ("park_timeout", || thread::park_timeout(MILLI)),
    ("yield_now", runtime::yield_now),
    ("spawn and join", || assert_eq!(spawn(|| 7).join().unwrap(), 7)),
    ("spawn a future and join", || assert_eq!(spawn(after(MILLI, 7)).join().unwrap(), 7)),
    ("spawn and let go", || drop(spawn(|| runtime::sleep(MILLI)))),
    ("a stack of its own", || {
        let builder = thread::Builder::new().name("odd".into()).stack_size(1 << 20);
        assert_eq!(builder.spawn(|| 7).unwrap().join().unwrap(), 7);
    }),
    ("a refused spawn", || {
        assert!(thread::Builder::new().stack_size(1).spawn(|| ()).is_err());
    }),
    ("cancel", || {
        let other = spawn(|| runtime::sleep(HOUR));
        other.cancel();
        assert!(other.join().unwrap_err().is::<Cancelled>());
    }),
    ("block_on a closure", || assert_eq!(runtime::block_on(|| spawn(|| 7).join().unwrap()), 7)),
    ("block_on a future", || assert_eq!(runtime::block_on(after(MILLI, 7)), 7)),
    ("await a handle", || assert_eq!(runtime::block_on(async { spawn(|| 7).await.unwrap() }), 7)),
    ("Handle::block_on", || assert_eq!(Handle::current().block_on(after(MILLI, 7)), 7)),
    ("a runtime made, used and dropped", || {
        let runtime = Runtime::new().unwrap();
        runtime.spawn(|| runtime::sleep(HOUR));
        assert_eq!(runtime.block_on(|| spawn(|| 7).join().unwrap()), 7);
    }),
    ("scope", || {
        let mut numbers = [1, 2, 3];
        runtime::scope(|s| {
            for number in &mut numbers {
                s.spawn(|| {
                    runtime::sleep(MILLI);
                    *number *= 2;
                });
            }
        });
        assert_eq!(numbers, [2, 4, 6]);
    }),
    ("timeout in time", || assert_eq!(timeout(HOUR, || spawn(|| 7).join().unwrap()), Ok(7))),
    ("timeout_async", || {
        let late = async { timeout_async(MILLI, sleep_async(HOUR)).await.is_err() };
        assert!(runtime::block_on(late));
    }),
    ("blocking", || assert_eq!(runtime::blocking(|| spawn(|| 7).join().unwrap()), 7)),
    ("pin", || {
        let _pinned = thread::pin();
        let here = crate::os_thread();
        runtime::sleep(MILLI);
        assert_eq!(crate::os_thread(), here);
    }),
    ("sockets", || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let server = spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            runtime::sleep(MILLI);
            stream.write_all(b"hello").unwrap();
        });
        let mut text = String::new();
        TcpStream::connect(addr).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        server.join().unwrap();
    }),
    ("metrics", || assert!(runtime::metrics::snapshot().procs >= 1)),
    ("thread::current", || assert_eq!(thread::current().id(), thread::current().id())),
];

/// Calls that have no meaning in the last destructors of a plain OS thread.
pub const WHILE_THE_THREAD_LIVES: &[Call] = &[
    ("thread_local", || {
        runtime::thread_local!(static NUMBER: Cell<u32> = const { Cell::new(1) });
        NUMBER.set(NUMBER.get() + 1);
        runtime::sleep(MILLI);
        assert!(NUMBER.get() > 1);
    }),
    ("names", || {
        let name = thread::current().name().map(str::to_string);
        assert_eq!(thread::current().name(), name.as_deref());
    }),
];

/// Returns all calls.
pub fn everything() -> impl Iterator<Item = Call> {
    ANYWHERE.iter().chain(WHILE_THE_THREAD_LIVES).copied()
}

async fn after<T>(time: Duration, value: T) -> T {
    sleep_async(time).await;
    value
}

fn takes(time: Duration, f: impl FnOnce()) {
    let start = Instant::now();
    f();
    assert!(start.elapsed() >= time);
}
