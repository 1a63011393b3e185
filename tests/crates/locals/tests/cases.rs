//! One test for each thing that is unsound or wrong in a closure that parks, where thread-locals belong to
//! the OS thread.
#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use locals::{in_many, on_all, on_all_with, park};
use rand::RngCore;
use runtime::Migration;

/// The same function uses `rand::rng()` before and after a park: the compiler may look its thread-local up
/// once.
#[test]
fn rand() {
    /// Which generator this is: its `Rc`.
    fn which(rng: rand::rngs::ThreadRng) -> usize {
        const { assert!(size_of::<rand::rngs::ThreadRng>() == size_of::<usize>()) }
        // SAFETY: both are one word. The count of the `Rc` stays one too high.
        unsafe { std::mem::transmute(rng) }
    }
    let here = std::hint::black_box(|| which(rand::rng())) as fn() -> usize;
    on_all(|| {
        in_many(100, |number| {
            for n in 0..10 {
                let mut before = rand::rng();
                before.next_u64();
                park(number + n);
                before.next_u64();
                assert_eq!(
                    which(rand::rng()),
                    std::hint::black_box(here)(),
                    "the generator of another thread"
                );
                assert_eq!(which(before), here());
            }
        });
    });
}

/// The loop around a call of libc that reads `errno`.
#[test]
fn errno() {
    /// Receives one byte, or parks until it can.
    fn receive(socket: &runtime::net::Async<OwnedFd>) -> io::Result<usize> {
        let mut byte = 0_u8;
        loop {
            // SAFETY: the call writes one byte.
            let received = unsafe { libc::recv(socket.get_ref().as_raw_fd(), (&raw mut byte).cast(), 1, 0) };
            if received >= 0 {
                return Ok(received as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::WouldBlock {
                return Err(error);
            }
            socket.readable()?;
        }
    }
    on_all(|| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        in_many(100, |number| {
            let client = runtime::blocking(|| TcpStream::connect(address)).unwrap();
            let server = runtime::blocking(|| listener.accept()).unwrap().0;
            server.set_nonblocking(true).unwrap();
            let socket = runtime::net::Async::new(OwnedFd::from(server)).unwrap();
            let resets = runtime::spawn(move || {
                park(number);
                // A close with this option resets the connection.
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                let (option, bytes) = (&raw const linger, size_of::<libc::linger>() as u32);
                // SAFETY: the call reads the option.
                unsafe {
                    libc::setsockopt(
                        client.as_raw_fd(),
                        libc::SOL_SOCKET,
                        libc::SO_LINGER,
                        option.cast(),
                        bytes,
                    )
                };
            });
            let received = receive(&socket);
            resets.join().unwrap();
            // The pair may be of two connections: then this one ends when the other is reset, in the same
            // way.
            assert_eq!(received.unwrap_err().kind(), io::ErrorKind::ConnectionReset);
        });
    });
}

scoped_tls::scoped_thread_local!(static REQUEST: String);

fn nest(number: usize) {
    let (outer, inner) = (format!("outer {number}"), format!("inner {number}"));
    assert!(!REQUEST.is_set());
    REQUEST.set(&outer, || {
        park(number);
        REQUEST.set(&inner, || {
            park(number + 1);
            REQUEST.with(|request| assert_eq!(*request, inner));
        });
        park(number + 2);
        REQUEST.with(|request| assert_eq!(*request, outer));
    });
    assert!(!REQUEST.is_set());
}

#[test]
fn scoped_tls() {
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        on_all_with(migration, || in_many(100, nest));
    }
}

#[test]
fn scoped_tls_in_polls() {
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        on_all_with(migration, || {
            let polls: Vec<_> = (0..100).map(|number| runtime::spawn(async move { nest(number) })).collect();
            polls.into_iter().for_each(|poll| poll.join().unwrap());
        });
    }
}

/// std wakes the thread that has begun the scope.
#[test]
fn scope_of_std() {
    on_all(|| {
        in_many(8, |number| {
            let done = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(2));
                    done.fetch_add(1, SeqCst);
                });
                (0..4).for_each(|n| park(number + n));
            });
            assert_eq!(done.load(SeqCst), 1);
        });
    });
}

/// Recursion that grows its stack where little is left.
#[test]
fn stacker() {
    fn deep(left: usize) -> usize {
        stacker::maybe_grow(32 << 10, 1 << 20, || {
            let frame = std::hint::black_box([left as u8; 1_000]);
            if left == 0 {
                usize::from(frame[0])
            } else {
                deep(left - 1) + usize::from(frame[1] == left as u8)
            }
        })
    }
    on_all(|| {
        in_many(100, |number| {
            for n in 0..4 {
                let left = stacker::remaining_stack().expect("the bounds of the stack are known");
                assert!((8 << 10..(1 << 20) + (1 << 16)).contains(&left), "{left} bytes are left");
                park(number + n);
            }
            if number % 10 == 0 {
                assert_eq!(deep(5_000), 5_000);
            }
        });
    });
}

#[test]
fn serde_stacker() {
    let text = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
    on_all(|| {
        in_many(4, |number| {
            park(number);
            let mut json = serde_json::Deserializer::from_str(&text);
            json.disable_recursion_limit();
            let value: serde_json::Value =
                serde::Deserialize::deserialize(serde_stacker::Deserializer::new(&mut json)).unwrap();
            let mut depth = 0;
            let mut inner = value;
            // One by one: the destructor recurses as well.
            while let serde_json::Value::Array(mut values) = inner {
                depth += 1;
                inner = values.pop().unwrap_or_default();
            }
            assert_eq!(depth, 20_000);
        });
    });
}

/// A guard that is kept across parks keeps what it has seen from being freed, and does no harm to the guards
/// of others.
#[test]
fn crossbeam_epoch() {
    use crossbeam_epoch::{Atomic, Owned, pin};
    on_all(|| {
        let shared = Atomic::new(String::from("0"));
        in_many(100, |number| {
            for n in 0..20 {
                let guard = pin();
                let seen = shared.load(SeqCst, &guard);
                park(number + n);
                // SAFETY: the guard was pinned before the value was loaded.
                let text = unsafe { seen.deref() };
                assert!(text.parse::<usize>().is_ok(), "{text:?} was freed");
                let old = shared.swap(Owned::new((number * 100 + n).to_string()), SeqCst, &guard);
                // SAFETY: no thread can load the value any more.
                unsafe { guard.defer_destroy(old) };
            }
        });
        // SAFETY: no guard is left.
        drop(unsafe { shared.into_owned() });
    });
}

#[test]
fn papaya() {
    on_all(|| {
        let map = Arc::new(papaya::HashMap::<usize, String>::new());
        in_many(100, |number| {
            for n in 0..20 {
                let pinned = map.pin();
                pinned.insert(number, n.to_string());
                let seen = pinned.get(&((number * 7) % 100)).map(String::as_str);
                park(number + n);
                assert!(seen.is_none_or(|text| text.parse::<usize>().unwrap() < 20));
            }
        });
        assert_eq!(map.pin().len(), 100);
    });
}

/// std's lock of the standard output counts for its thread.
#[test]
fn locks_of_std_output() {
    on_all(|| {
        let inside = AtomicUsize::new(0);
        in_many(4, |number| {
            for n in 0..5 {
                let mut output = std::io::stdout().lock();
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two green threads have one lock");
                park(number + n);
                output.flush().unwrap();
                inside.fetch_sub(1, SeqCst);
            }
        });
    });
}
