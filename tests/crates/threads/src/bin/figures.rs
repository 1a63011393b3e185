//! Figures of a program of std with green threads and with OS threads: the same program, which starts itself
//! in both modes by turns. `cargo run --release -p threads --bin figures [TURNS]` prints a table with the
//! medians.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

runtime::interpose!(threads);

/// A figure: its name, its unit and its measurement.
type Figure = (&'static str, &'static str, fn() -> f64);

const FIGURES: [Figure; 12] = [
    ("`spawn` and `join`", "us", spawn_and_join),
    ("`thread::scope` with one thread", "us", scope),
    ("`mpsc`, there and back", "us", channel),
    ("`Mutex` and `Condvar`, there and back", "us", condvar),
    ("`park` and `unpark`, there and back", "us", park),
    ("10,000 threads asleep: memory of each, the kernel's too", "KB", memory),
    ("echo, 100 connections", "thousand requests a second", || echo(100).rate),
    ("echo, 100 connections: the slowest of these", "% of the mean", || echo(100).slowest),
    ("echo, 100 connections: OS threads", "", || echo(100).os_threads),
    ("echo, 1,000 connections", "thousand requests a second", || echo(1_000).rate),
    ("echo, 1,000 connections: the slowest of these", "% of the mean", || echo(1_000).slowest),
    ("echo, 1,000 connections: OS threads", "", || echo(1_000).os_threads),
];

/// Returns the time of one of `rounds`, in us.
fn each(rounds: u32, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64() * 1e6 / f64::from(rounds)
}

fn spawn_and_join() -> f64 {
    each(5_000, || {
        (0..5_000).for_each(|n| assert_eq!(thread::spawn(move || black_box(n)).join().unwrap(), n))
    })
}

fn scope() -> f64 {
    each(5_000, || {
        for n in 0..5_000 {
            thread::scope(|scope| assert_eq!(scope.spawn(|| black_box(n)).join().unwrap(), n));
        }
    })
}

const ROUNDS: u32 = 20_000;

fn channel() -> f64 {
    let ((there, asked), (back, answers)) = (mpsc::channel(), mpsc::channel());
    let other = thread::spawn(move || asked.iter().try_for_each(|n: u32| back.send(n)).unwrap());
    let time = each(ROUNDS, || {
        for n in 0..ROUNDS {
            there.send(n).unwrap();
            assert_eq!(answers.recv().unwrap(), n);
        }
    });
    drop(there);
    other.join().unwrap();
    time
}

fn condvar() -> f64 {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let take_turns = |shared: Arc<(Mutex<u32>, Condvar)>, mine| {
        for _ in 0..ROUNDS {
            let mut turn = shared.1.wait_while(shared.0.lock().unwrap(), |turn| *turn % 2 != mine).unwrap();
            *turn += 1;
            drop(turn);
            shared.1.notify_one();
        }
    };
    let others = shared.clone();
    let other = thread::spawn(move || take_turns(others, 1));
    let time = each(ROUNDS, || take_turns(shared, 0));
    other.join().unwrap();
    time
}

fn park() -> f64 {
    let turn = Arc::new(AtomicU64::new(0));
    let (others, main) = (turn.clone(), thread::current());
    let take_turns = |turn: &AtomicU64, mine, other: thread::Thread| {
        for _ in 0..ROUNDS {
            while turn.load(SeqCst) % 2 != mine {
                thread::park();
            }
            turn.fetch_add(1, SeqCst);
            other.unpark();
        }
    };
    let other = thread::spawn(move || take_turns(&others, 1, main));
    let time = each(ROUNDS, || take_turns(&turn, 0, other.thread().clone()));
    other.join().unwrap();
    time
}

/// Returns the memory of the process and of what the kernel keeps for it, in KB.
fn used_memory() -> f64 {
    let of = |file: &str, names: &[&str]| -> f64 {
        let text = std::fs::read_to_string(file).unwrap();
        let numbers = text.lines().filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            names.contains(&name).then(|| rest.trim().trim_end_matches(" kB").parse::<f64>().unwrap())
        });
        numbers.sum()
    };
    of("/proc/self/status", &["VmRSS", "VmPTE"]) + of("/proc/meminfo", &["KernelStack", "SUnreclaim"])
}

fn memory() -> f64 {
    const THREADS: u32 = 10_000;
    let (asleep, over) = (Barrier::new(THREADS as usize + 1), Barrier::new(THREADS as usize + 1));
    let before = used_memory();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let wait = || {
                asleep.wait();
                over.wait();
            };
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, wait).unwrap();
        }
        asleep.wait();
        thread::sleep(Duration::from_millis(300));
        let after = used_memory();
        over.wait();
        (after - before) / f64::from(THREADS)
    })
}

/// What [`echo`] has measured.
struct Echo {
    /// Thousands of requests a second.
    rate: f64,
    /// The requests of the slowest connection, in percent of the mean.
    slowest: f64,
    os_threads: f64,
}

/// Runs an echo server with a thread for each connection, and as many clients.
fn echo(connections: usize) -> Echo {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(read @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..read]).unwrap();
                }
            });
        }
    });
    let (over, ready) = (AtomicBool::new(false), Barrier::new(connections + 1));
    let client = &|mut stream: TcpStream| {
        let mut answered = 0;
        ready.wait();
        while !over.load(SeqCst) {
            stream.write_all(b"0123456789abcdef").unwrap();
            stream.read_exact(&mut [0; 16]).unwrap();
            answered += 1;
        }
        answered
    };
    let time = Duration::from_millis(1_500);
    thread::scope(|scope| {
        // One after the other: the queue of a listener is short.
        let clients: Vec<_> = (0..connections)
            .map(|_| {
                let stream = TcpStream::connect(address).unwrap();
                stream.set_nodelay(true).unwrap();
                scope.spawn(move || client(stream))
            })
            .collect();
        ready.wait();
        thread::sleep(time);
        let os_threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        over.store(true, SeqCst);
        let answered: Vec<u64> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        let (all, least) = (answered.iter().sum::<u64>() as f64, answered.iter().min().unwrap());
        Echo {
            rate: all / time.as_secs_f64() / 1e3,
            slowest: *least as f64 * 100.0 * connections as f64 / all,
            os_threads: os_threads as f64,
        }
    })
}

/// Returns a figure of this program with these threads.
fn measured(figure: usize, threads: &str) -> f64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output =
        command.args(["--figure", &figure.to_string()]).env("RUNTIME_THREADS", threads).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().parse().unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, figure] = &arguments[..]
        && flag == "--figure"
    {
        let (.., measure) = FIGURES[figure.parse::<usize>().unwrap()];
        println!("{}", measure());
        return;
    }
    let turns: usize = arguments.first().map_or(5, |turns| turns.parse().expect("a number of turns"));
    println!("| | OS threads | green threads |\n| --- | ---: | ---: |");
    for (at, (name, unit, _)) in FIGURES.iter().enumerate() {
        let pairs: Vec<_> = (0..turns).map(|_| (measured(at, "os"), measured(at, "green"))).collect();
        let (os, green) = pairs.into_iter().unzip();
        let comma = if unit.is_empty() { "" } else { ", " };
        println!("| {name}{comma}{unit} | {:.2} | {:.2} |", median(os), median(green));
    }
}
