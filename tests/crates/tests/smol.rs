//! Crates with a reactor of their own, unchanged and without feature flags: async-io, smol, and tokio's under
//! async-compat.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use async_compat::Compat;
use async_io::{Async, Timer};
use crates::Watchdog;
use futures::{AsyncReadExt, AsyncWriteExt};
use runtime::{Builder, Migration};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn timers_and_sockets_of_async_io_wake_green_threads() {
    let _dog = Watchdog::new();
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        let runtime = Builder::new().procs(2).migration(migration).build().unwrap();
        let listener = Async::<TcpListener>::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.get_ref().local_addr().unwrap();
        let server = runtime.spawn(async move {
            for _ in 0..100 {
                let (mut stream, _) = listener.accept().await.unwrap();
                runtime::spawn(async move {
                    let mut bytes = [0; 8];
                    while stream.read_exact(&mut bytes).await.is_ok() {
                        Timer::after(MILLI).await;
                        // This call parks inside the poll.
                        runtime::sleep(MILLI);
                        stream.write_all(&bytes).await.unwrap();
                    }
                });
            }
        });
        let clients: Vec<_> = (0..100u64)
            .map(|client| {
                runtime.spawn(async move {
                    let mut stream = Async::<TcpStream>::connect(addr).await.unwrap();
                    for n in 0..10 {
                        let mut answer = [0; 8];
                        stream.write_all(&(client + n).to_le_bytes()).await.unwrap();
                        stream.read_exact(&mut answer).await.unwrap();
                        assert_eq!(u64::from_le_bytes(answer), client + n);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
        server.join().unwrap();
    }
}

#[test]
fn smol_spawns_tasks_and_unblocks_files_for_green_threads() {
    let _dog = Watchdog::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    runtime::block_on(async {
        smol::fs::write(&file, "here").await.unwrap();
        let task = smol::spawn(smol::fs::read_to_string(file.clone()));
        let green = runtime::spawn(smol::unblock(|| 7));
        assert_eq!((task.await.unwrap().as_str(), green.await.unwrap()), ("here", 7));
    });
}

/// Each green thread enters tokio's context for each poll (async-compat), and also parks, computes for longer
/// than sysmon allows, and wakes others inside a poll.
#[test]
fn tokios_timers_work_under_async_compat() {
    let _dog = Watchdog::new();
    let runtime = Builder::new().procs(2).build().unwrap();
    let done = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..200)
        .map(|n| {
            let done = done.clone();
            runtime.spawn(Compat::new(async move {
                let notify = tokio::sync::Notify::new();
                for _ in 0..5 {
                    tokio::time::sleep(MILLI).await;
                    let start = Instant::now();
                    while n % 50 == 0 && start.elapsed() < 12 * MILLI {}
                    notify.notify_one();
                    notify.notified().await;
                    // The poll has entered tokio's context. No other poll may enter it on this OS thread
                    // meanwhile.
                    let _pinned = runtime::thread::pin();
                    runtime::sleep(MILLI);
                }
                done.fetch_add(1, SeqCst);
            }))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(done.load(SeqCst), 200);
}
