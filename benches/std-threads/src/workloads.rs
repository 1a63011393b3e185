//! The programs. Nothing in this file is of this runtime.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::memory;

/// Figures, each with its name and unit.
pub type Figures = Vec<(&'static str, f64)>;

/// A program: with its size in a comparison, and a small one.
pub struct Workload {
    pub name: &'static str,
    pub run: fn(usize) -> Figures,
    pub size: usize,
    pub small: usize,
}

/// All programs.
pub const WORKLOADS: &[Workload] = &[
    Workload { name: "spawn-join", run: spawn_join, size: 50_000, small: 100 },
    Workload { name: "scope", run: scope, size: 50_000, small: 200 },
    Workload { name: "mpsc", run: ping_pong_mpsc, size: 100_000, small: 100 },
    Workload { name: "condvar", run: ping_pong_condvar, size: 100_000, small: 100 },
    Workload { name: "park", run: ping_pong_park, size: 100_000, small: 100 },
    Workload { name: "mutex", run: contended_mutex, size: 1_000_000, small: 1000 },
    Workload { name: "ready", run: ready_calls, size: 500_000, small: 100 },
    Workload { name: "echo-100", run: |ms| echo(100, ms), size: 3000, small: 100 },
    Workload { name: "echo-1000", run: |ms| echo(1000, ms), size: 3000, small: 100 },
    Workload { name: "memory-10000", run: memory_of_each, size: 10_000, small: 100 },
    Workload { name: "memory-100000", run: memory_of_each, size: 100_000, small: 200 },
    Workload { name: "sleepers-10000", run: sleepers, size: 10_000, small: 100 },
    Workload { name: "sleepers-100000", run: sleepers, size: 100_000, small: 200 },
];

fn us_each(since: Instant, n: usize) -> f64 {
    since.elapsed().as_secs_f64() * 1e6 / n as f64
}

fn spawn_join(n: usize) -> Figures {
    let start = Instant::now();
    for i in 0..n {
        assert_eq!(thread::spawn(move || i).join().unwrap(), i);
    }
    vec![("us a thread", us_each(start, n))]
}

fn scope(n: usize) -> Figures {
    const AT_ONCE: usize = 100;
    let mut sums = [0; AT_ONCE];
    let start = Instant::now();
    for _ in 0..n / AT_ONCE {
        thread::scope(|scope| {
            for sum in &mut sums {
                scope.spawn(|| *sum += 1);
            }
        });
    }
    assert!(sums.iter().all(|&sum| sum == n / AT_ONCE));
    vec![("us a thread", us_each(start, n))]
}

fn ping_pong_mpsc(n: usize) -> Figures {
    let ((to, from_main), (back, from_other)) = (mpsc::channel(), mpsc::channel());
    let other = thread::spawn(move || from_main.iter().for_each(|i: usize| back.send(i).unwrap()));
    let start = Instant::now();
    for i in 0..n {
        to.send(i).unwrap();
        assert_eq!(from_other.recv().unwrap(), i);
    }
    let figures = vec![("us a round trip", us_each(start, n))];
    drop(to);
    other.join().unwrap();
    figures
}

fn ping_pong_condvar(n: usize) -> Figures {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let turns = |shared: &(Mutex<usize>, Condvar), mine: usize| {
        let (turn, changed) = shared;
        for _ in 0..n {
            let mut turn = changed.wait_while(turn.lock().unwrap(), |turn| *turn % 2 != mine).unwrap();
            *turn += 1;
            changed.notify_one();
        }
    };
    let start = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| turns(&shared, 1));
        turns(&shared, 0);
    });
    assert_eq!(*shared.0.lock().unwrap(), 2 * n);
    vec![("us a round trip", us_each(start, n))]
}

fn ping_pong_park(n: usize) -> Figures {
    let is_theirs = AtomicBool::new(false);
    let wait = |theirs| {
        while is_theirs.load(Ordering::Acquire) != theirs {
            thread::park();
        }
    };
    let main = thread::current();
    let start = Instant::now();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            for _ in 0..n {
                wait(true);
                is_theirs.store(false, Ordering::Release);
                main.unpark();
            }
        });
        for _ in 0..n {
            is_theirs.store(true, Ordering::Release);
            other.thread().unpark();
            wait(false);
        }
    });
    vec![("us a round trip", us_each(start, n))]
}

/// Eight threads take turns with one lock, and hold it for a few hundred ns.
fn contended_mutex(n: usize) -> Figures {
    const THREADS: usize = 8;
    let table = Mutex::new([0_u64; 64]);
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                (0..n / THREADS).for_each(|_| table.lock().unwrap().iter_mut().for_each(|x| *x += 1))
            });
        }
    });
    assert!(table.lock().unwrap().iter().all(|&x| x == (n / THREADS * THREADS) as u64));
    vec![("us a lock", us_each(start, n))]
}

/// Calls on a socket that need not wait: a byte is written at one end, and read at the other.
fn ready_calls(n: usize) -> Figures {
    let (mut near, mut far) = UnixStream::pair().unwrap();
    let mut byte = [7];
    let start = Instant::now();
    for _ in 0..n {
        near.write_all(&byte).unwrap();
        far.read_exact(&mut byte).unwrap();
    }
    vec![("ns a call", us_each(start, 2 * n) * 1000.0)]
}

/// A server with a thread for each connection, and its clients: each sends 100 bytes and waits for them.
fn echo(connections: usize, ms: usize) -> Figures {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            thread::spawn(move || serve(stream));
        }
    });
    let (all_there, stops) = (Barrier::new(connections + 1), AtomicBool::new(false));
    let mut counts: Vec<u64> = Vec::new();
    let mut seconds = 0.0;
    thread::scope(|scope| {
        let client = || ask(address, &all_there, &stops).unwrap();
        let clients: Vec<_> = (0..connections).map(|_| scope.spawn(client)).collect();
        all_there.wait();
        let start = Instant::now();
        thread::sleep(Duration::from_millis(ms as u64));
        stops.store(true, Ordering::Relaxed);
        seconds = start.elapsed().as_secs_f64();
        counts = clients.into_iter().map(|client| client.join().unwrap()).collect();
    });
    let all: u64 = counts.iter().sum();
    vec![
        ("k requests a second", all as f64 / seconds / 1000.0),
        ("fewest of a connection", counts.iter().min().map_or(0.0, |&n| n as f64)),
        ("most of a connection", counts.iter().max().map_or(0.0, |&n| n as f64)),
    ]
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = [0; 100];
    loop {
        match stream.read(&mut bytes)? {
            0 => return Ok(()),
            n => stream.write_all(&bytes[..n])?,
        }
    }
}

fn ask(address: SocketAddr, all_there: &Barrier, stops: &AtomicBool) -> io::Result<u64> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let (mut bytes, mut count) = ([7; 100], 0);
    all_there.wait();
    while !stops.load(Ordering::Relaxed) {
        stream.write_all(&bytes)?;
        stream.read_exact(&mut bytes)?;
        count += 1;
    }
    Ok(count)
}

/// Threads that wait at a barrier.
fn memory_of_each(n: usize) -> Figures {
    let (barrier, begun) = (Barrier::new(n + 1), AtomicUsize::new(0));
    let wait = || {
        begun.fetch_add(1, Ordering::Relaxed);
        barrier.wait();
    };
    let before = memory::used();
    let mut each = 0.0;
    thread::scope(|scope| {
        (0..n).for_each(|_| _ = scope.spawn(wait));
        // A thread that has not begun has no memory yet.
        while begun.load(Ordering::Relaxed) < n {
            thread::sleep(Duration::from_millis(10));
        }
        // The last ones are about to wait.
        thread::sleep(Duration::from_millis(500));
        each = (memory::used() - before) / n as f64;
        barrier.wait();
    });
    vec![("KB a thread, with the kernel's", each / 1000.0)]
}

/// Threads that sleep for a second.
fn sleepers(n: usize) -> Figures {
    let start = Instant::now();
    let sleeps = || thread::spawn(|| thread::sleep(Duration::from_secs(1)));
    let threads: Vec<_> = (0..n).map(|_| sleeps()).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    vec![("s", start.elapsed().as_secs_f64())]
}
