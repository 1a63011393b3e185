//! Planted bugs of distributed programs: a simulation finds each, and finds none in the mended program.
//! `SIM_SEEDS=100000` runs the mended programs with that many seeds.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::experiment;
use runtime::net::{TcpListener, TcpStream, UdpSocket};
use runtime::sim::net::Quality;
use runtime::sim::{self, Builder, Faults};
use runtime::sync::Mutex;
use runtime::{sleep, spawn};

const MS: Duration = Duration::from_millis(1);

/// How many seeds an experiment has.
const EXPERIMENT: u64 = 200;

/// Runs a program with and without its bug. The bug is found within the seeds that an experiment predicts,
/// and the mended program runs with `clean` seeds.
fn check(faults: &Faults, clean: u64, program: fn(bool)) {
    let builder = Builder::new().faults(faults.clone());
    let share = experiment::share(&builder, EXPERIMENT, || program(false));
    let most = experiment::seeds_for(share);
    let failure = builder.try_explore(most, || program(false)).expect_err("the bug was not found");
    println!("found in run {} of {most} (a share of {share}): {}", failure.runs(), failure.schedule());
    let clean = std::env::var("SIM_SEEDS").map_or(clean, |seeds| seeds.parse().unwrap());
    let builder = builder.shrink(false);
    builder.explore(clean, || program(true));
    builder.check_determinism(true).explore(20, || program(true));
}

/// A client sends each deposit again until it gets an answer. A server that does not know a repeated deposit
/// counts it twice.
pub(crate) fn lost_ack(mended: bool) {
    let sum = Arc::new(AtomicU32::new(0));
    let account = sum.clone();
    let _bank = sim::node("bank", move || {
        let socket = UdpSocket::bind("0.0.0.0:100").unwrap();
        let mut seen = HashSet::new();
        loop {
            let mut number = [0];
            let (_, client) = socket.recv_from(&mut number).unwrap();
            if seen.insert(number) || !mended {
                account.fetch_add(10, Ordering::Relaxed);
            }
            socket.send_to(&number, client).unwrap();
        }
    });
    sleep(MS);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("bank:100").unwrap();
    socket.set_read_timeout(Some(50 * MS)).unwrap();
    for number in 0..3 {
        let mut answer = [9];
        while answer != [number] {
            socket.send(&[number]).unwrap();
            while socket.recv(&mut answer).is_ok() && answer != [number] {}
        }
    }
    assert_eq!(sum.load(Ordering::Relaxed), 30);
}

#[test]
fn a_lost_ack() {
    check(&Faults::new().quality(Quality::new().loss(0.05)), 1000, lost_ack);
}

/// A client connects again after an error, and sends what was not acknowledged. A server that does not know a
/// repeated message logs it twice.
fn double_delivery(mended: bool) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let logs = log.clone();
    let _server = sim::node("log", move || {
        for stream in TcpListener::bind("0.0.0.0:100").unwrap().incoming() {
            let (mut stream, log) = (stream.unwrap(), logs.clone());
            spawn(move || {
                let mut number = [0];
                while stream.read_exact(&mut number).is_ok() {
                    let mut log = log.lock();
                    if !mended || log.last().is_none_or(|&last| last < number[0]) {
                        log.push(number[0]);
                    }
                    drop(log);
                    if stream.write_all(&number).is_err() {
                        return;
                    }
                }
            });
        }
    });
    sleep(MS);
    let mut stream = TcpStream::connect("log:100").unwrap();
    for number in 1..=10 {
        let told =
            |stream: &mut TcpStream| stream.write_all(&[number]).and_then(|()| stream.read_exact(&mut [0]));
        while told(&mut stream).is_err() {
            stream = TcpStream::connect("log:100").unwrap();
        }
        sleep(10 * MS);
    }
    assert_eq!(*log.lock(), (1..=10).collect::<Vec<u8>>());
}

#[test]
fn a_double_delivery_after_a_reconnect() {
    check(&Faults::new().every(20 * MS).reset(0.2), 1000, double_delivery);
}

/// A lock service gives a lease until a date. A client with a clock that is behind holds its lease for too
/// long. The mended client measures the time since its request, which every clock does alike.
fn stale_lease(mended: bool) {
    const LEASE: Duration = Duration::from_secs(1);
    let holders = Arc::new(AtomicU32::new(0));
    let _service = sim::node("locks", || {
        let socket = UdpSocket::bind("0.0.0.0:100").unwrap();
        let mut until = Instant::now();
        loop {
            let (_, client) = socket.recv_from(&mut [0; 16]).unwrap();
            let free = until <= Instant::now();
            if free {
                until = Instant::now() + LEASE;
            }
            let date = if free { SystemTime::now() + LEASE } else { SystemTime::UNIX_EPOCH };
            let ns = date.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
            socket.send_to(&ns.to_le_bytes(), client).unwrap();
        }
    });
    let clients: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let holders = holders.clone();
            sim::node(name, move || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.connect("locks:100").unwrap();
                socket.set_read_timeout(Some(100 * MS)).unwrap();
                for _ in 0..20 {
                    let asked = Instant::now();
                    let mut answer = [0; 16];
                    if socket.send(&[0]).is_err() || socket.recv(&mut answer).is_err() || answer == [0; 16] {
                        sleep(100 * MS);
                        continue;
                    }
                    let ns = u64::try_from(u128::from_le_bytes(answer)).unwrap();
                    let until = SystemTime::UNIX_EPOCH + Duration::from_nanos(ns);
                    let holds = || if mended { asked.elapsed() < LEASE } else { SystemTime::now() < until };
                    while holds() {
                        assert_eq!(holders.fetch_add(1, Ordering::Relaxed), 0, "two hold the lock");
                        // A piece of work under the lock, which ends before the lease does.
                        let ends = !mended || asked.elapsed() + 20 * MS < LEASE;
                        sleep(if ends { 10 * MS } else { Duration::ZERO });
                        holders.fetch_sub(1, Ordering::Relaxed);
                        if !ends {
                            break;
                        }
                    }
                    sleep(50 * MS);
                }
            })
        })
        .collect();
    clients.iter().for_each(|client| client.join().unwrap());
}

#[test]
fn a_stale_lease_under_clock_skew() {
    check(&Faults::new().clock_skew(500 * MS), 200, stale_lease);
}
