//! Faults of a simulated network: quality of links, held packets, resets, wrong clocks, faults from the seed,
//! and UDP.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use runtime::net::{TcpListener, TcpStream, UdpSocket};
use runtime::sim::net::{self, Quality};
use runtime::sim::{self, Builder, Faults, Node, Schedule, Strategy};
use runtime::{select, sleep, spawn, thread, yield_now};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);

/// Runs `main` with some seeds, each twice.
fn check(main: impl Fn() + Send + Sync) {
    Builder::new().check_determinism(true).explore(20, main);
}

/// Starts a node that counts the datagrams at port 9.
fn counter(name: &str) -> (Node<()>, Arc<AtomicU32>) {
    let count = Arc::new(AtomicU32::new(0));
    let counts = count.clone();
    let node = sim::node(name, move || {
        let socket = UdpSocket::bind("0.0.0.0:9").unwrap();
        loop {
            socket.recv(&mut [0; 9]).unwrap();
            counts.fetch_add(1, Ordering::Relaxed);
        }
    });
    sleep(MS);
    (node, count)
}

/// Sends `n` datagrams over a link of this quality, and returns how many have arrived.
fn arrived(n: u32, quality: Quality) -> u32 {
    sim::run(7, move || {
        let (node, count) = counter("db");
        net::set_quality("main", &node, quality.clone());
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        (0..n).for_each(|_| assert_eq!(socket.send_to(b"x", "db:9").unwrap(), 1));
        sleep(60 * S);
        count.load(Ordering::Relaxed)
    })
}

#[test]
fn datagrams_are_lost_and_doubled_as_often_as_set() {
    assert_eq!(arrived(1000, Quality::new()), 1000);
    assert!((400..600).contains(&arrived(1000, Quality::new().loss(0.5))));
    assert!((1200..1400).contains(&arrived(1000, Quality::new().duplicate(0.3))));
    assert_eq!(arrived(10, Quality::new().loss(1.0)), 0);
}

#[test]
fn datagrams_overtake_each_other() {
    let order = |quality: Quality| {
        sim::run(1, move || {
            let node = sim::node("db", || {
                let socket = UdpSocket::bind("0.0.0.0:9").unwrap();
                let mut byte = [0];
                (0..20)
                    .map(|_| (socket.recv(&mut byte).unwrap(), byte[0]))
                    .map(|(_, byte)| byte)
                    .collect::<Vec<_>>()
            });
            sleep(MS);
            net::set_quality("main", "db", quality.clone());
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            for n in 0..20 {
                socket.send_to(&[n], "db:9").unwrap();
                sleep(MS);
            }
            node.join().unwrap()
        })
    };
    let constant = Quality::new().latency(5 * MS..=5 * MS);
    assert!(order(constant.clone()).is_sorted());
    assert!(!order(constant.reorder(0.5)).is_sorted());
}

#[test]
fn bandwidth_makes_large_transfers_slow() {
    sim::run(1, || {
        let node = sim::node("db", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
            io::copy(&mut stream, &mut io::sink()).unwrap()
        });
        sleep(MS);
        net::set_quality("main", "db", Quality::new().bandwidth(1_000_000));
        let start = Instant::now();
        TcpStream::connect("db:80").unwrap().write_all(&[0; 2_000_000]).unwrap();
        assert_eq!(node.join().unwrap(), 2_000_000);
        assert!((2 * S..3 * S).contains(&start.elapsed()), "{:?}", start.elapsed());
    });
}

#[test]
fn tcp_survives_a_bad_link() {
    let faults = Faults::new().quality(Quality::new().loss(0.1).reorder(0.2).duplicate(0.1));
    Builder::new().faults(faults).check_determinism(true).explore(20, || {
        let node = sim::node("db", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            all
        });
        sleep(MS);
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n / 7) as u8).collect();
        let mut stream = TcpStream::connect("db:80").unwrap();
        bytes.chunks(1000).for_each(|piece| stream.write_all(piece).unwrap());
        drop(stream);
        assert!(node.join().unwrap() == bytes);
    });
}

#[test]
fn held_packets_arrive_later_and_lost_ones_never() {
    check(|| {
        let (node, count) = counter("db");
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let send = || assert_eq!(socket.send_to(b"x", "db:9").unwrap(), 1);
        let after = |n| {
            sleep(S);
            assert_eq!(count.load(Ordering::Relaxed), n);
        };
        net::hold("main", "db");
        send();
        after(0);
        net::release("main", "db");
        after(1);
        net::clog_node(&node);
        send();
        after(1);
        net::unclog_node(&node);
        after(2);
        net::partition_oneway("main", "db");
        send();
        after(2);
        net::repair_oneway("main", "db");
        after(2);
    });
}

#[test]
fn a_reset_ends_both_ends() {
    check(|| {
        let node = sim::node("db", || {
            let (mut stream, _) = TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
            stream.read(&mut [0]).unwrap_err().kind()
        });
        sleep(MS);
        let mut stream = TcpStream::connect("db:80").unwrap();
        sleep(S);
        net::reset("main", "db");
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(node.join().unwrap(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn udp_is_as_in_the_system() {
    check(|| {
        let one = UdpSocket::bind("127.0.0.1:0").unwrap();
        let two = UdpSocket::bind("0.0.0.0:0").unwrap();
        let (here, there) = (one.local_addr().unwrap(), two.local_addr().unwrap());
        assert_eq!(one.send(b"x").unwrap_err().raw_os_error(), Some(libc::EDESTADDRREQ));
        assert_eq!(one.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        two.send_to(b"holds", here).unwrap();
        let mut buf = [0; 3];
        assert_eq!(one.peek_from(&mut buf).unwrap(), (3, ([127, 0, 0, 1], there.port()).into()));
        assert_eq!((one.recv(&mut buf).unwrap(), &buf), (3, b"hol"), "the rest is lost");
        one.set_read_timeout(Some(S)).unwrap();
        assert_eq!(one.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(UdpSocket::bind(here).unwrap_err().kind(), ErrorKind::AddrInUse);
        one.connect(("127.0.0.1", there.port())).unwrap();
        assert_eq!(one.send(&[0; 70_000]).unwrap_err().raw_os_error(), Some(libc::EMSGSIZE));
        // From another address than that of its peer.
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", here).unwrap();
        assert_eq!(one.recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
        // No one has that port any more.
        drop(two);
        one.send(b"x").unwrap();
        assert_eq!(one.recv(&mut buf).unwrap_err().kind(), ErrorKind::ConnectionRefused);
        one.set_broadcast(true).unwrap();
        assert!(one.broadcast().unwrap());
        assert!(one.join_multicast_v4(&[224, 0, 0, 1].into(), &[0, 0, 0, 0].into()).is_err());
        select! {
            readable(one) -> _ => panic!("nothing was sent"),
            timer(S) -> _ => {},
        }
    });
}

#[test]
fn clocks_of_nodes_differ() {
    sim::run(1, || {
        let start = SystemTime::now();
        let later = || {
            sleep(S);
            (SystemTime::now(), Instant::now())
        };
        let (fast, slow) = (sim::node("fast", later), sim::node("slow", later));
        fast.advance_clock(60 * S);
        slow.delay_clock(30 * S);
        let ((fast, one), (slow, two)) = (fast.join().unwrap(), slow.join().unwrap());
        assert_eq!((fast, slow), (start + 61 * S, start - 29 * S));
        assert_eq!((start.elapsed().unwrap(), one), (S, two), "the clock here stays, and so do all instants");
    });
    let faults = Faults::new().clock_skew(S);
    let apart = Builder::new().faults(faults).run(3, || {
        let dates: Vec<_> = ["a", "b", "c"].map(|name| sim::node(name, SystemTime::now)).into();
        let dates: Vec<_> = dates.iter().map(|node| node.join().unwrap()).collect();
        let (first, last) = (dates.iter().min().unwrap(), dates.iter().max().unwrap());
        last.duration_since(*first).unwrap()
    });
    assert!(apart > Duration::ZERO && apart <= 2 * S, "{apart:?}");
}

/// Returns how often a node starts, to which a client talks for two minutes of simulated time.
fn restarts() -> u32 {
    let starts = Arc::new(AtomicU32::new(0));
    let count = starts.clone();
    let _node = sim::node("db", move || {
        count.fetch_add(1, Ordering::Relaxed);
        for stream in TcpListener::bind("0.0.0.0:7").unwrap().incoming() {
            let stream = stream.unwrap();
            spawn(move || io::copy(&mut &stream, &mut &stream));
        }
    });
    let client = spawn(|| {
        loop {
            sleep(100 * MS);
            let Ok(mut stream) = TcpStream::connect("db:7") else { continue };
            stream.set_read_timeout(Some(S)).unwrap();
            while stream.write_all(b"x").is_ok() && stream.read_exact(&mut [0]).is_ok() {
                sleep(100 * MS);
            }
        }
    });
    sleep(120 * S);
    client.cancel();
    starts.load(Ordering::Relaxed)
}

fn everything() -> Faults {
    Faults::new().partition(0.05).partition_oneway(0.05).hold(0.05).reset(0.05).kill(0.05).clock_skew(S)
}

#[test]
fn faults_from_the_seed_are_the_same_in_each_run() {
    Builder::new().faults(everything()).check_determinism(true).explore(10, || {
        restarts();
    });
    let restarts: Vec<u32> =
        (0..5).map(|seed| Builder::new().faults(everything()).run(seed, restarts)).collect();
    assert!(
        restarts.iter().all(|&n| (1..30).contains(&n)) && restarts.iter().any(|&n| n > 2),
        "{restarts:?}"
    );
}

#[test]
fn the_schedule_of_a_failure_has_the_faults_that_it_needs() {
    let main = || assert!(restarts() < 2, "it was killed");
    let failure = Builder::new().faults(everything()).try_explore(10, main).unwrap_err();
    let text = failure.schedule().to_string();
    assert!(text.starts_with('t') && failure.schedule().len() == 1, "one kill is enough: {text}");
    let schedule: Schedule = text.parse().unwrap();
    let replay = Builder::new().faults(everything()).strategy(Strategy::Replay(schedule)).shrink(false);
    let again = std::panic::catch_unwind(|| replay.run(failure.seed(), main));
    assert!(again.is_err());
    let none = Builder::new().faults(everything()).strategy(Strategy::Replay(Schedule::default()));
    none.run(failure.seed(), main);
}

/// Sends 100 datagrams, writes 100 files and makes 100 calls that may fail. Fails if number 42 of `what`
/// fails.
fn many_that_may_fail(what: char) {
    let node = sim::node("db", || {
        let socket = UdpSocket::bind("0.0.0.0:9").unwrap();
        socket.set_read_timeout(Some(S)).unwrap();
        let mut byte = [0];
        std::iter::from_fn(|| socket.recv(&mut byte).ok().map(|_| byte[0])).collect::<Vec<u8>>()
    });
    sleep(MS);
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let yields = spawn(|| (0..100).for_each(|_| yield_now()));
    (0..100).for_each(|n| assert_eq!(socket.send_to(&[n], "db:9").unwrap(), 1));
    let called = (0..100).filter(|_| !sim::fault(0.2)).collect::<Vec<u8>>();
    let written = (0..100).filter(|n| runtime::fs::create_dir(format!("/{n}")).is_ok()).collect::<Vec<u8>>();
    yields.join().unwrap();
    let done = [('p', node.join().unwrap()), ('f', called), ('d', written)];
    done.iter().for_each(|(kind, done)| assert!(*kind != what || done.contains(&42), "{what} 42 failed"));
}

#[test]
fn a_failure_that_needs_one_fault_of_many_shrinks_to_that_fault() {
    let faults = Faults::new().quality(Quality::new().loss(0.2)).disk(sim::fs::Quality::new().error(0.2));
    for (what, shortest) in [('p', "p42:1"), ('f', "f42:1"), ('d', "d42:1")] {
        let builder = Builder::new().faults(faults.clone());
        let long = builder.clone().shrink(false).try_explore(100, || many_that_may_fail(what)).unwrap_err();
        assert!(long.schedule().len() > 60, "{long}");
        let short = builder.try_explore(100, || many_that_may_fail(what)).unwrap_err();
        assert_eq!((short.seed(), &*short.schedule().to_string()), (long.seed(), shortest));
        let replay = builder.strategy(Strategy::Replay(short.schedule().clone())).shrink(false);
        let again = replay.try_explore(short.seed() + 1, || many_that_may_fail(what)).unwrap_err();
        assert_eq!(again.message(), short.message());
    }
}

/// Fails if the other green thread was first, or by a fault of this probability.
fn fails_by_a_switch_or_a_fault(probability: f64) {
    let first = Arc::new(AtomicU32::new(0));
    let other = first.clone();
    let thread = spawn(move || other.fetch_max(1, Ordering::Relaxed));
    (0..20).for_each(|_| sim::point());
    let is_first = first.fetch_max(2, Ordering::Relaxed) == 0;
    thread.join().unwrap();
    let is_faulty = sim::fault(probability);
    assert!(is_first && !is_faulty);
}

#[test]
fn preemptions_are_left_out_before_faults() {
    let schedule = |probability| {
        let failure = Builder::new().try_explore(1, move || fails_by_a_switch_or_a_fault(probability));
        failure.unwrap_err().schedule().to_string()
    };
    assert!(!schedule(0.0).contains('f'), "the run fails without its fault, too");
    assert_eq!(schedule(1.0), "f0:1");
}

#[test]
fn ticks_do_not_hide_a_deadlock() {
    let failure = Builder::new().faults(everything()).shrink(false).try_explore(1, thread::park).unwrap_err();
    assert!(failure.message().contains("deadlock"), "{failure}");
}
