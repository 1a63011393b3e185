//! tokio's own timers, sockets, tasks and processes in green threads.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crates::Watchdog;
use runtime::{Builder, Migration, ThreadLocals};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const MILLI: Duration = Duration::from_millis(1);

#[test]
fn timers_tasks_and_blocking_tasks_of_tokio_work_in_green_threads() {
    let _dog = Watchdog::new();
    for migration in [Migration::Anytime, Migration::BeforeStart] {
        let runtime = Builder::new().procs(2).migration(migration).build().unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let threads: Vec<_> = (0..200u64)
            .map(|n| {
                let done = done.clone();
                runtime.spawn(async move {
                    let start = Instant::now();
                    tokio::time::sleep((n % 10) as u32 * MILLI).await;
                    assert!(start.elapsed() >= (n % 10) as u32 * MILLI);
                    let task = tokio::spawn(async move { n + 1 });
                    let blocks = tokio::task::spawn_blocking(move || n + 2);
                    assert_eq!((task.await.unwrap(), blocks.await.unwrap()), (n + 1, n + 2));
                    // This call parks inside the poll. Afterwards the context of tokio must still be entered.
                    runtime::sleep(MILLI);
                    let late = tokio::time::timeout(MILLI, std::future::pending::<()>()).await;
                    assert!(late.is_err());
                    done.fetch_add(1, SeqCst);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(done.load(SeqCst), 200);
    }
}

/// Runtimes with and without the setting, side by side. (The environment of these tests has the setting.)
#[test]
fn only_a_runtime_with_the_setting_is_in_the_context_of_the_reactor() {
    let is_in_context = || tokio::runtime::Handle::try_current().is_ok();
    for on in [true, false, true, false] {
        for locals in [ThreadLocals::OfOsThread, ThreadLocals::OfGreenThread] {
            let runtime = Builder::new().procs(2).tokio(on).thread_locals(locals).build().unwrap();
            assert_eq!(runtime.block_on(move || runtime::spawn(is_in_context).join().unwrap()), on);
            assert_eq!(runtime.block_on(async move { is_in_context() }), on);
        }
    }
}

/// The main future of a runtime may keep values that are not `Send` while it waits for tokio, and tokio's own
/// local tasks run in it.
#[runtime::test(timeout = Duration::from_secs(60))]
async fn a_main_future_that_is_not_send_waits_for_tokio() {
    let mine = Rc::new(7);
    tokio::time::sleep(MILLI).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let connects = tokio::spawn(async move { tokio::net::TcpStream::connect(addr).await.map(drop) });
    listener.accept().await.unwrap();
    connects.await.unwrap().unwrap();
    let other = Rc::clone(&mine);
    let local = async move {
        tokio::time::sleep(MILLI).await;
        *other
    };
    let tasks = tokio::task::LocalSet::new();
    assert_eq!(tasks.run_until(async { tokio::task::spawn_local(local).await.unwrap() }).await, 7);
    assert_eq!(Rc::strong_count(&mine), 1);
}

/// A blocking task waits by this crate's channel, in a runtime of tokio's with one thread and in a local set:
/// `block_in_place` is not allowed there. The wait works, and leaves its queue.
#[test]
fn a_blocking_task_may_wait_in_a_runtime_of_its_own() {
    let _dog = Watchdog::new();
    let one_thread = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime::block_on(async {
        for round in 0..200u32 {
            let (sender, receiver) = runtime::channel::bounded(0);
            let waits = tokio::task::spawn_blocking(move || match round % 4 {
                0 => one_thread().block_on(async { receiver.recv() }),
                1 => {
                    let set = tokio::task::LocalSet::new();
                    tokio::runtime::Handle::current().block_on(set.run_until(async { receiver.recv() }))
                }
                // The handle that is entered is not that of the runtime which runs there. `block_in_place`
                // panics: that is reported.
                2 => {
                    let reactor = tokio::runtime::Handle::current();
                    one_thread().block_on(async {
                        let _entered = reactor.enter();
                        receiver.recv()
                    })
                }
                _ => tokio::runtime::Handle::current().block_on(async { receiver.recv() }),
            });
            // Most of the receivers wait by then.
            runtime::time::sleep_async(MILLI).await;
            sender.send(round).unwrap();
            assert_eq!(waits.await.unwrap(), Ok(round));
        }
    });
}

#[test]
fn sockets_of_tokio_and_of_the_runtime_connect_to_each_other() {
    let _dog = Watchdog::new();
    runtime::block_on(|| {
        let listener = runtime::block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let addr = listener.local_addr().unwrap();
        runtime::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                runtime::spawn(async move {
                    let mut bytes = [0; 64];
                    while let Ok(n @ 1..) = stream.read(&mut bytes).await {
                        stream.write_all(&bytes[..n]).await.unwrap();
                    }
                });
            }
        });
        let clients: Vec<_> = (0..50u8)
            .map(|client| {
                runtime::spawn(move || {
                    use std::io::{Read, Write};
                    let mut stream = runtime::net::TcpStream::connect(addr).unwrap();
                    for n in 0..50 {
                        let mut answer = [0; 2];
                        stream.write_all(&[client, n]).unwrap();
                        stream.read_exact(&mut answer).unwrap();
                        assert_eq!(answer, [client, n]);
                    }
                })
            })
            .collect();
        clients.into_iter().for_each(|client| client.join().unwrap());
    });
}

#[test]
fn tasks_of_the_reactor_may_call_the_runtime() {
    let _dog = Watchdog::new();
    runtime::block_on(async {
        let ticks = Arc::new(AtomicUsize::new(0));
        let ticker = tokio::spawn({
            let ticks = ticks.clone();
            async move {
                loop {
                    tokio::time::sleep(MILLI).await;
                    ticks.fetch_add(1, SeqCst);
                }
            }
        });
        // Each task blocks its OS thread. The reactor's other tasks must go on.
        let start = Instant::now();
        let sleepers: Vec<_> = (0..50).map(|_| tokio::spawn(async { runtime::sleep(100 * MILLI) })).collect();
        for sleeper in sleepers {
            sleeper.await.unwrap();
        }
        assert!(start.elapsed() < 50 * 100 * MILLI / 4, "{:?}", start.elapsed());
        assert!(ticks.load(SeqCst) > 0, "the reactor's other task did not go on");
        ticker.abort();
    });
}

#[test]
fn the_handle_serves_plain_os_threads() {
    let _dog = Watchdog::new();
    let reactor = runtime::tokio::handle().unwrap();
    let _context = reactor.enter();
    let task = tokio::spawn(async { runtime::spawn(|| 7).await.unwrap() });
    assert_eq!(reactor.block_on(task).unwrap(), 7);
}

#[test]
fn signals_of_tokio_wake_green_threads() {
    let _dog = Watchdog::new();
    runtime::block_on(async {
        let mut signals =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1()).unwrap();
        for _ in 0..3 {
            let kill = ["-USR1", &std::process::id().to_string()];
            assert!(std::process::Command::new("kill").args(kill).status().unwrap().success());
            signals.recv().await.unwrap();
        }
    });
}

#[test]
fn a_process_of_tokio_returns_its_output() {
    let _dog = Watchdog::new();
    runtime::block_on(async {
        let output = tokio::process::Command::new("echo").arg("here").output().await.unwrap();
        assert_eq!(output.stdout, b"here\n");
    });
}
