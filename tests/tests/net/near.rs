//! Sockets that move to the P on the processor which receives their packets (Linux): nothing is lost.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use runtime::net::TcpStream;
use runtime::{Handle, JoinHandle, sleep, spawn};
use tests::on;
use tests::sockets::listener;

const MESSAGE: usize = 64;

/// A client that asks again and again.
struct Client {
    answers: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

/// Sends numbers until `end`, compares each answer, and counts them.
fn asks(mut stream: TcpStream, answers: &AtomicU64, end: &AtomicBool) {
    let mut answer = [0; MESSAGE];
    while !end.load(Ordering::Relaxed) {
        let message = [answers.load(Ordering::Relaxed) as u8; MESSAGE];
        stream.write_all(&message).unwrap();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, message);
        answers.fetch_add(1, Ordering::Relaxed);
    }
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
fn busy_connections(count: usize, end: &Arc<AtomicBool>) -> Vec<Client> {
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
            let (answers, end) = (Arc::new(AtomicU64::new(0)), Arc::clone(end));
            let counts = Arc::clone(&answers);
            Client { answers, thread: spawn(move || asks(client, &counts, &end)) }
        })
        .collect()
}

/// Waits until each client has had a hundred answers more.
fn all_go_on(clients: &[Client]) {
    let start = Instant::now();
    let before: Vec<_> = clients.iter().map(|client| client.answers.load(Ordering::Relaxed)).collect();
    for (client, before) in clients.iter().zip(before) {
        while client.answers.load(Ordering::Relaxed) < before + 100 {
            assert!(start.elapsed() < Duration::from_secs(60), "a connection stands still");
            sleep(Duration::from_millis(1));
        }
    }
}

/// Waits until sockets have moved so often.
fn until_moved(handle: &Handle, times: u64) {
    let start = Instant::now();
    while handle.metrics().net_moves < times {
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
        until_moved(&handle, 20);
        // With one P no socket stays near the other.
        for procs in [1, 2, 1, 2] {
            handle.set_procs(procs).unwrap();
            all_go_on(&clients);
        }
        end.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.thread.join().unwrap());
    });
}

#[test]
fn sockets_of_a_runtime_with_one_p_stay() {
    on(1, || {
        let (handle, end) = (Handle::current(), Arc::new(AtomicBool::new(false)));
        let clients = busy_connections(8, &end);
        all_go_on(&clients);
        end.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.thread.join().unwrap());
        assert_eq!(handle.metrics().net_moves, 0);
    });
}
