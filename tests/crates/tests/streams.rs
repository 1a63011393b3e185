//! Unchanged crates that are generic over streams, and crates that block or compute, on green threads without
//! further features.

use std::io::{BufRead, BufReader, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crates::{Watchdog, make_certificate, missing};
use native_tls::{Certificate, Identity, TlsAcceptor, TlsConnector};
use runtime::net::{TcpListener, TcpStream};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn tungstenite_runs_over_streams_that_park() {
    let _dog = Watchdog::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    runtime::spawn(move || {
        for stream in listener.incoming().flatten() {
            runtime::spawn(move || {
                let mut socket = tungstenite::accept(stream).unwrap();
                while let Ok(message) = socket.read() {
                    runtime::sleep(MILLI);
                    if message.is_text() && socket.send(message).is_err() {
                        return;
                    }
                }
            });
        }
    });
    let clients: Vec<_> = (0..100)
        .map(|client| {
            runtime::spawn(move || {
                let stream = TcpStream::connect(addr).unwrap();
                let (mut socket, _) = tungstenite::client(format!("ws://{addr}/"), stream).unwrap();
                for n in 0..10 {
                    let text = format!("{client} says {n}");
                    socket.send(text.clone().into()).unwrap();
                    assert_eq!(socket.read().unwrap().into_text().unwrap().as_str(), text);
                }
                socket.close(None).unwrap();
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// OpenSSL's frames lie below the read that parks, so each green thread is pinned to its OS thread.
#[test]
fn native_tls_runs_over_streams_that_park_on_pinned_green_threads() {
    let _dog = Watchdog::new();
    let folder = tempfile::tempdir().unwrap();
    if !make_certificate(folder.path()) {
        return missing("openssl");
    }
    let [certificate, key] =
        ["server.crt", "server.key"].map(|name| std::fs::read(folder.path().join(name)).unwrap());
    let acceptor = TlsAcceptor::new(Identity::from_pkcs8(&certificate, &key).unwrap()).unwrap();
    let certificate = Certificate::from_pem(&certificate).unwrap();
    let connector = TlsConnector::builder()
        .disable_built_in_roots(true)
        .add_root_certificate(certificate)
        .build()
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let pinned = |stack| runtime::thread::Builder::new().stack_size(stack);
    runtime::spawn(move || {
        for stream in listener.incoming().flatten() {
            let acceptor = acceptor.clone();
            let serve = move || {
                let _pinned = runtime::thread::pin();
                let mut stream = BufReader::new(acceptor.accept(stream).unwrap());
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|n| n > 0) {
                    runtime::sleep(MILLI);
                    stream.get_mut().write_all(line.as_bytes()).unwrap();
                    line.clear();
                }
            };
            pinned(1 << 20).spawn(serve).unwrap();
        }
    });
    let clients: Vec<_> = (0..20)
        .map(|client| {
            let connector = connector.clone();
            let ask = move || {
                let _pinned = runtime::thread::pin();
                let stream = TcpStream::connect(addr).unwrap();
                let mut stream = BufReader::new(connector.connect("localhost", stream).unwrap());
                for n in 0..10 {
                    let (text, mut line) = (format!("{client} says {n}\n"), String::new());
                    stream.get_mut().write_all(text.as_bytes()).unwrap();
                    stream.read_line(&mut line).unwrap();
                    assert_eq!(line, text);
                }
            };
            pinned(1 << 20).spawn(ask).unwrap()
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
}

/// Returns the sum of 0 to `n`, computed by rayon's pool.
fn sum(n: u64) -> u64 {
    use rayon::prelude::*;
    (0..=n).into_par_iter().map(std::hint::black_box).sum()
}

#[test]
fn green_threads_run_while_others_wait_for_rayon() {
    let _dog = Watchdog::new();
    const CALLERS: u64 = 32;
    let runtime = runtime::Builder::new().procs(2).build().unwrap();
    // All of rayon's threads wait until a green thread has counted to 100 while more green threads than Ps
    // wait for rayon.
    let counted = Arc::new(AtomicUsize::new(0));
    let wait = |counted: &AtomicUsize| {
        while counted.load(SeqCst) < 100 {
            std::thread::sleep(MILLI);
        }
    };
    let calls: Vec<_> = (0..CALLERS)
        .map(|n| {
            let counted = counted.clone();
            let call = move || rayon::scope(|_| wait(&counted));
            match n % 2 {
                // The call blocks its OS thread, which the runtime is told, or finds out.
                0 => runtime.spawn(move || {
                    runtime::blocking(call);
                    runtime::blocking(|| sum(n * 1000))
                }),
                _ => runtime.spawn(move || {
                    call();
                    sum(n * 1000)
                }),
            }
        })
        .collect();
    let counter = runtime.spawn(move || {
        for _ in 0..100 {
            runtime::sleep(MILLI / 10);
            counted.fetch_add(1, SeqCst);
        }
    });
    counter.join().unwrap();
    for (n, call) in (0..CALLERS).zip(calls) {
        assert_eq!(call.join().unwrap(), n * 1000 * (n * 1000 + 1) / 2);
    }
}

/// The job sends its result to a green thread that parks. So the caller takes no OS thread.
#[test]
fn green_threads_park_while_rayon_computes_for_them() {
    let _dog = Watchdog::new();
    let calls: Vec<_> = (0..1000u64)
        .map(|n| {
            runtime::spawn(move || {
                let (reply, result) = runtime::sync::oneshot::channel();
                rayon::spawn(move || reply.send(sum(n)).unwrap());
                result.recv().unwrap()
            })
        })
        .collect();
    for (n, call) in (0..).zip(calls) {
        assert_eq!(call.join().unwrap(), n * (n + 1) / 2);
    }
}
