//! Sockets that move to the P on the processor which receives their packets (Linux): nothing is lost.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use runtime::net::TcpStream;
use runtime::{Handle, JoinHandle, sleep, spawn};
use tests::on;
use tests::sockets::listener;

const MESSAGE: usize = 64;

/// Sends numbers until `end`, and compares each answer. Returns how many came.
fn asks(mut stream: TcpStream, end: &AtomicBool) -> u64 {
    let mut answer = [0; MESSAGE];
    for number in 1.. {
        stream.write_all(&[number as u8; MESSAGE]).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [number as u8; MESSAGE]);
        if end.load(Ordering::Relaxed) {
            return number;
        }
    }
    unreachable!()
}

fn answers(mut stream: TcpStream) {
    let mut bytes = [0; MESSAGE];
    while stream.read_exact(&mut bytes).is_ok() {
        stream.write_all(&bytes).unwrap();
    }
}

async fn answers_as_a_future(stream: TcpStream) {
    let mut bytes = [0; MESSAGE];
    while let Ok(n @ 1..) = stream.read_async(&mut bytes).await {
        stream.write_all_async(&bytes[..n]).await.unwrap();
    }
}

/// Connections that are busy all the time, until `end`. Half of the servers are futures.
fn busy_connections(count: usize, end: &Arc<AtomicBool>) -> Vec<JoinHandle<u64>> {
    let (listener, addr) = listener();
    (0..count)
        .map(|i| {
            let client = TcpStream::connect(addr).unwrap();
            let server = listener.accept().unwrap().0;
            if i % 2 == 0 {
                drop(spawn(move || answers(server)));
            } else {
                drop(spawn(answers_as_a_future(server)));
            }
            let end = Arc::clone(end);
            spawn(move || asks(client, &end))
        })
        .collect()
}

/// Waits until sockets have moved so often since.
fn until_moved(handle: &Handle, before: u64, times: u64) {
    let start = Instant::now();
    while handle.metrics().net_moves < before + times {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", handle.metrics());
        sleep(Duration::from_millis(5));
    }
}

#[test]
#[cfg_attr(not(all(target_os = "linux", not(portable))), ignore = "no poller for each P")]
fn busy_connections_move_and_lose_nothing() {
    if available_parallelism().unwrap().get() < 2 {
        return eprintln!("skipped: sockets move only where there are two processors");
    }
    on(2, || {
        let (handle, end) = (Handle::current(), Arc::new(AtomicBool::new(false)));
        let clients = busy_connections(32, &end);
        until_moved(&handle, 0, 20);
        // With one P no socket stays near the other.
        for procs in [1, 2, 1, 2] {
            handle.set_procs(procs).unwrap();
            sleep(Duration::from_millis(30));
        }
        // Now and then a P is idle, and then sockets move back.
        until_moved(&handle, handle.metrics().net_moves, 5);
        end.store(true, Ordering::Relaxed);
        for client in clients {
            assert!(client.join().unwrap() > 100);
        }
    });
}

#[test]
fn sockets_of_a_runtime_with_one_p_stay() {
    on(1, || {
        let (handle, end) = (Handle::current(), Arc::new(AtomicBool::new(false)));
        let clients = busy_connections(8, &end);
        sleep(Duration::from_millis(50));
        end.store(true, Ordering::Relaxed);
        let all: u64 = clients.into_iter().map(|client| client.join().unwrap()).sum();
        assert!(all >= 8, "{all}");
        assert_eq!(handle.metrics().net_moves, 0);
    });
}
