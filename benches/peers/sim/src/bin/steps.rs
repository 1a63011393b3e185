//! How many steps a second simulations of this runtime make, on one OS thread, by what the program does.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use runtime::channel::bounded;
use runtime::net::{TcpListener, TcpStream};
use runtime::sim::{self, Builder};
use runtime::sync::Mutex;
use runtime::{sleep, spawn, yield_now};

/// How many green threads a program has, unless it says something else.
const THREADS: usize = 10;

/// Runs `work` in each of `threads` green threads, and waits for them.
fn each(threads: usize, work: impl Fn(usize) + Send + Sync) {
    runtime::scope(|scope| {
        let work = &work;
        (0..threads).for_each(|i| drop(scope.spawn(move || work(i))));
    });
}

fn yields() {
    each(THREADS, |_| (0..1000).for_each(|_| yield_now()));
}

fn ping_pong() {
    let ((there, r), (s, back)) = (bounded(1), bounded(1));
    let other = spawn(move || r.iter().for_each(|i: u64| s.send(i + 1).unwrap()));
    for i in 0..2000 {
        there.send(i).unwrap();
        assert_eq!(back.recv(), Ok(i + 1));
    }
    drop(there);
    other.join().unwrap();
}

/// The lock is held across a point of choice, so that most calls wait for it.
fn mutex() {
    let count = Mutex::new(0);
    each(4, |_| {
        for _ in 0..1000 {
            let mut count = count.lock();
            sim::point();
            *count += 1;
        }
    });
}

fn sleeps() {
    each(THREADS, |i| (0..500).for_each(|n| sleep(Duration::from_micros(1 + (i as u64 * 7 + n) % 100))));
}

fn tcp_echo() {
    let server = sim::node("server", || {
        let listener = TcpListener::bind("0.0.0.0:7").unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            drop(spawn(move || {
                let mut bytes = [0; 64];
                while let Ok(n @ 1..) = stream.read(&mut bytes) {
                    stream.write_all(&bytes[..n]).unwrap();
                }
            }));
        }
    });
    each(4, |_| {
        let mut stream = TcpStream::connect("server:7").unwrap();
        let mut bytes = [7; 64];
        for _ in 0..250 {
            stream.write_all(&bytes).unwrap();
            stream.read_exact(&mut bytes).unwrap();
        }
    });
    server.kill();
}

/// A program so short that a run is mostly the beginning and the end of a simulation.
fn nothing() {
    spawn(|| ()).join().unwrap();
}

const PROGRAMS: [(&str, fn(), u64); 6] = [
    ("yields", yields, 200),
    ("channel ping-pong", ping_pong, 200),
    ("contended mutex", mutex, 200),
    ("sleeps", sleeps, 200),
    ("TCP echo", tcp_echo, 50),
    ("runs", nothing, 2000),
];

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    for (name, program, runs) in PROGRAMS.into_iter().filter(|(name, ..)| name.contains(&wanted)) {
        let start = Instant::now();
        let report = Builder::new().threads(1).explore(runs, program);
        let took = start.elapsed().as_secs_f64();
        println!(
            "{name:18} {:6.2} million steps/s, {:6} steps a run, {:6.0} runs/s",
            report.steps() as f64 / took / 1e6,
            report.steps() / report.runs(),
            report.runs() as f64 / took
        );
    }
}
