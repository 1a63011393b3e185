//! Clocks of nodes that are fast or slow: `Node::set_clock_rate`, `Faults::clock_drift`.

use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use runtime::net::{TcpListener, TcpStream, UdpSocket};
use runtime::sim::{self, Builder, Faults, Node, Strategy};
use runtime::sync::{Condvar, Mutex};
use runtime::time::{Interval, Ticker, Timer, after_func, interval, sleep_async, timeout, timeout_async};
use runtime::{block_on, channel, context::Context, sleep, sleep_until, spawn, thread, yield_now};

const S: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const NS: Duration = Duration::from_nanos(1);

fn with_clocks() -> Builder {
    Builder::new().node_clocks(true)
}

/// Starts a node with a clock of that rate.
fn node<T: Send + 'static>(name: &str, ppm: i32, main: impl Fn() -> T + Send + Sync + 'static) -> Node<T> {
    let node = sim::node(name, move || {
        // Not before its rate is set.
        sleep(NS);
        main()
    });
    node.set_clock_rate(ppm);
    node
}

/// Returns how long a call takes by the clock of the caller.
fn time(call: impl FnOnce()) -> Duration {
    let start = Instant::now();
    call();
    start.elapsed()
}

fn is_about(time: Duration, expected: Duration) -> bool {
    time.abs_diff(expected) <= 10 * NS
}

#[test]
fn nodes_measure_the_sleeps_of_each_other() {
    with_clocks().check_determinism(true).explore(10, || {
        let measured = Arc::new(Mutex::new(Vec::new()));
        let begins = Instant::now();
        let slow = node("slow", -200, || {
            let socket = UdpSocket::bind("0.0.0.0:7").unwrap();
            let (_, peer) = socket.recv_from(&mut [0]).unwrap();
            assert_eq!(time(|| sleep(1000 * S)), 1000 * S);
            socket.send_to(&[1], peer).unwrap();
        });
        let notes = measured.clone();
        let address = (slow.ip(), 7);
        let fast = node("fast", 200, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            sleep(MS);
            let asked = Instant::now();
            socket.send_to(&[1], address).unwrap();
            socket.recv(&mut [0]).unwrap();
            notes.lock().push(asked.elapsed());
        });
        sim::net::set_quality("slow", "fast", sim::net::Quality::new().latency(MS..=MS));
        slow.join().unwrap();
        fast.join().unwrap();
        let measured = measured.lock()[0];
        // 1000 s / 0.9998 * 1.0002, and the way there and back.
        let expected = Duration::from_nanos(1_000_400_080_016) + 2 * MS;
        assert!(measured.abs_diff(expected) < MS, "{measured:?}");
        assert!(begins.elapsed() > 1000 * S + 200 * MS);
    });
}

/// The ways to wait for nine seconds.
fn waits() -> Vec<(&'static str, fn())> {
    vec![
        ("sleep", || sleep(9 * S)),
        ("sleep_until", || sleep_until(Instant::now() + 9 * S)),
        ("park_timeout", || thread::park_timeout(9 * S)),
        ("timeout", || assert!(timeout(9 * S, || sleep(60 * S)).is_err())),
        ("timeouts within", || assert!(timeout(9 * S, || timeout(60 * S, || sleep(60 * S))).is_err())),
        ("sleep_async", || block_on(sleep_async(9 * S))),
        ("a second future", || {
            block_on(async {
                let mut long = sleep_async(60 * S);
                assert!(timeout_async(9 * S, &mut long).await.is_err());
                long.reset(Instant::now());
                long.await;
            })
        }),
        ("a spawned future", || spawn(async { sleep_async(9 * S).await }).join().unwrap()),
        ("a future that is set again", || {
            block_on(async {
                let mut sleep = sleep_async(S);
                (&mut sleep).await;
                sleep.reset(Instant::now() + 8 * S);
                sleep.await;
            })
        }),
        ("recv_timeout", || _ = channel::bounded::<u8>(1).1.recv_timeout(9 * S)),
        ("after", || _ = channel::after(9 * S).recv()),
        ("Ticker", || {
            let ticker = Ticker::new(3 * S);
            (0..3).for_each(|_| _ = ticker.channel().recv().unwrap());
        }),
        ("interval", || {
            let mut ticks: Interval = interval(3 * S);
            (0..4).for_each(|_| _ = ticks.tick());
        }),
        ("Condvar", || {
            let (lock, condvar) = (Mutex::new(()), Condvar::new());
            assert!(condvar.wait_for(&mut lock.lock(), 9 * S).timed_out());
        }),
        ("after_func", || {
            let (sender, receiver) = channel::bounded(1);
            let _timer = Timer::after_func(9 * S, move || sender.send(()).unwrap());
            receiver.recv().unwrap();
        }),
        ("after_func that is set again", || {
            let (sender, receiver) = channel::bounded(1);
            let timer = Timer::after_func(S, move || sender.send(()).unwrap());
            receiver.recv().unwrap();
            timer.reset(8 * S);
            receiver.recv().unwrap();
        }),
        ("a function of a timer", || {
            let (sender, receiver) = channel::bounded(1);
            let sleeps = move || {
                sleep(5 * S);
                sender.send(()).unwrap();
            };
            let _timer = Timer::after_func(4 * S, sleeps);
            receiver.recv().unwrap();
        }),
        ("Context", || {
            let (context, _cancel) = Context::background().with_timeout(9 * S);
            context.run(|| sleep(60 * S)).unwrap_err();
        }),
        ("a time-out of a socket", || {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            stream.set_read_timeout(Some(9 * S)).unwrap();
            stream.read(&mut [0]).unwrap_err();
        }),
    ]
}

#[test]
fn every_wait_of_a_node_goes_by_its_clock() {
    for (ppm, real) in [(-100_000, 10 * S), (0, 9 * S), (125_000, 8 * S)] {
        for (name, wait) in waits() {
            with_clocks().explore(3, move || {
                let took = time(|| {
                    let by_its_clock = node("node", ppm, move || time(wait)).join().unwrap();
                    // Packets on the way to itself are no part of it.
                    assert!(by_its_clock.abs_diff(9 * S) < 10 * MS, "{name}: {by_its_clock:?}");
                });
                assert!(took.abs_diff(real) < 10 * MS, "{name} at {ppm}: {took:?}");
            });
        }
    }
}

#[test]
fn dates_drift_and_keep_their_offset() {
    with_clocks().run(1, || {
        let start = SystemTime::now();
        let node = node("node", 500_000, || {
            sleep(3 * S);
            SystemTime::now()
        });
        node.advance_clock(60 * S);
        let date = node.join().unwrap();
        assert!(is_about(date.duration_since(start).unwrap(), 63 * S));
        assert!(is_about(start.elapsed().unwrap(), 2 * S));
    });
}

#[test]
fn a_rate_may_change_while_all_wait() {
    for (name, wait) in waits() {
        with_clocks().explore(3, move || {
            let node = node("node", 0, move || time(wait));
            let took = time(|| {
                sleep(S);
                node.set_clock_rate(-500_000);
                // Four seconds have passed there after this.
                sleep(6 * S);
                node.set_clock_rate(250_000);
                let by_its_clock = node.join().unwrap();
                assert!(by_its_clock.abs_diff(9 * S) < 10 * MS, "{name}: {by_its_clock:?}");
            });
            assert!(took.abs_diff(11 * S) < 10 * MS, "{name}: {took:?}");
        });
    }
}

#[test]
fn a_clock_never_goes_back() {
    with_clocks().explore(20, || {
        let node = node("node", 0, || {
            let mut last = Instant::now();
            for _ in 0..1000 {
                sleep(Duration::from_nanos(sim::random() % 1_000_000));
                let now = Instant::now();
                assert!(now >= last);
                last = now;
            }
        });
        while !node.is_finished() {
            node.set_clock_rate((sim::random() % 1_000_001) as i32 - 500_000);
            sleep(Duration::from_nanos(sim::random() % 3_000_000));
        }
        node.join().unwrap();
    });
}

/// A timer that is armed at one node, and then anew at another, leaves the heap of the first clock.
#[test]
fn a_timer_that_is_reset_goes_by_the_clock_of_the_caller() {
    with_clocks().check_determinism(true).explore(10, || {
        let slow = node("slow", -400_000, || {
            let (called, calls) = channel::unbounded();
            let function = after_func(3600 * S, move || _ = called.send(()));
            (Timer::new(3600 * S), Ticker::new(3600 * S), function, calls)
        });
        let (timer, ticker, function, calls) = slow.join().unwrap();
        let fast = node("fast", 400_000, move || {
            for seconds in [1000, 1] {
                let waits: [(&str, &dyn Fn()); 3] = [
                    ("timer", &|| {
                        timer.reset(seconds * S);
                        timer.channel().recv().unwrap();
                    }),
                    ("ticker", &|| {
                        ticker.reset(seconds * S);
                        ticker.channel().recv().unwrap();
                    }),
                    ("function", &|| {
                        function.reset(seconds * S);
                        calls.recv().unwrap();
                    }),
                ];
                for (name, wait) in waits {
                    let took = time(wait);
                    assert!(is_about(took, seconds * S), "{name}: {took:?} and not {seconds} s");
                }
                ticker.reset(3600 * S);
            }
        });
        fast.join().unwrap();
    });
}

/// Green threads that end give their places, with their timers, to others.
#[test]
fn a_timer_that_was_another_clocks_goes_by_the_present_one() {
    with_clocks().check_determinism(true).explore(30, || {
        let work = || {
            for _ in 0..20 {
                let (sender, receiver) = channel::bounded(1);
                let receives = spawn(move || receiver.recv_timeout(1000 * S));
                let sleeps = spawn(|| {
                    let time_to_sleep = Duration::from_nanos(sim::random() % 1_000_000_000);
                    let slept = time(|| sleep(time_to_sleep));
                    // A fast clock shows not every nanosecond.
                    assert!(slept >= time_to_sleep && slept <= time_to_sleep + NS, "{slept:?}");
                });
                sleep(Duration::from_nanos(sim::random() % 1_000_000_000));
                sender.send(()).unwrap();
                receives.join().unwrap().unwrap();
                sleeps.join().unwrap();
            }
        };
        let nodes = [("a", 400_000), ("b", -400_000), ("c", 0)].map(|(name, ppm)| node(name, ppm, work));
        work();
        nodes.into_iter().for_each(|node| node.join().unwrap());
    });
}

#[test]
fn a_clock_goes_on_while_its_node_is_down() {
    with_clocks().run(1, || {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sees = seen.clone();
        let node = node("node", 500_000, move || {
            sees.lock().push(Instant::now());
            sleep(3600 * S);
        });
        sleep(S);
        node.kill();
        sleep(S);
        node.restart();
        sleep(S);
        node.cut_power();
        node.restart();
        sleep(S);
        let seen = seen.lock();
        assert!(is_about(seen[1] - seen[0], 3 * S), "{seen:?}");
        assert!(is_about(seen[2] - seen[1], 3 * S / 2), "{seen:?}");
    });
}

#[test]
fn without_clocks_of_their_own_nodes_have_no_rate() {
    sim::run(1, || {
        let node = sim::node("node", || ());
        let panic = catch_unwind(AssertUnwindSafe(|| node.set_clock_rate(1))).unwrap_err();
        assert!(panic.downcast_ref::<&str>().unwrap().contains("node_clocks"));
    });
    with_clocks().run(1, || {
        let node = sim::node("node", || ());
        catch_unwind(AssertUnwindSafe(|| node.set_clock_rate(500_001))).unwrap_err();
        catch_unwind(AssertUnwindSafe(|| node.set_clock_rate(-500_001))).unwrap_err();
        node.set_clock_rate(-500_000);
    });
}

/// Returns how much longer than the simulation's each of three nodes' sleeps of 1000 s lasts, in us.
fn drifts(builder: &Builder, seed: u64) -> Vec<i64> {
    builder.run(seed, || {
        let sleeps = || time(|| sleep(1000 * S));
        let nodes = ["a", "b", "c"].map(|name| (Instant::now(), sim::node(name, sleeps)));
        let drift = |(start, node): (Instant, Node<Duration>)| {
            assert!(is_about(node.join().unwrap(), 1000 * S));
            start.elapsed().as_micros() as i64 - 1_000_000_000
        };
        // Each is joined by a green thread of its own, at the moment at which it ends.
        let joins = nodes.map(|node| spawn(move || drift(node)));
        joins.into_iter().map(|join| join.join().unwrap()).collect()
    })
}

#[test]
fn each_node_drifts_as_the_seed_decides() {
    let builder = Builder::new().faults(Faults::new().clock_drift(300));
    let all: Vec<i64> = (0..20).flat_map(|seed| drifts(&builder, seed)).collect();
    // 300 ppm of 1000 s, and what rounds.
    assert!(all.iter().all(|us| us.abs() <= 300_100), "{all:?}");
    assert!(all.iter().any(|&us| us > 100_000) && all.iter().any(|&us| us < -100_000), "{all:?}");
    let mut distinct = all.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert!(distinct.len() > 40, "{all:?}");
    assert_eq!(drifts(&builder, 7), drifts(&builder, 7));
    assert_eq!(drifts(&Builder::new(), 7), [0, 0, 0]);
    let swarm = Builder::new().faults(Faults::new().clock_drift(300).swarm(true));
    let right = (0..40).filter(|&seed| drifts(&swarm, seed) == [0, 0, 0]).count();
    assert!((10..=30).contains(&right), "{right} of 40 runs have right clocks");
}

#[test]
fn a_run_with_drift_and_other_faults_is_the_same_each_time() {
    let faults = Faults::new().clock_drift(100_000).kill(0.2).partition(0.1).clock_skew(S);
    Builder::new().faults(faults).check_determinism(true).explore(20, || {
        let server = sim::node("server", || {
            let socket = UdpSocket::bind("0.0.0.0:7").unwrap();
            let mut byte = [0];
            while let Ok((_, peer)) = socket.recv_from(&mut byte) {
                sleep(10 * MS);
                _ = socket.send_to(&byte, peer);
            }
        });
        let address = (server.ip(), 7);
        let clients = ["a", "b"].map(|name| {
            sim::node(name, move || {
                let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
                socket.set_read_timeout(Some(200 * MS)).unwrap();
                for _ in 0..50 {
                    _ = socket.send_to(&[1], address);
                    _ = socket.recv(&mut [0]);
                    sleep(100 * MS);
                }
            })
        });
        sleep(60 * S);
        drop(clients);
    });
}

/// How long a lease lasts.
const LEASE: Duration = Duration::from_secs(10);
/// How much the clocks of two machines may differ within a lease, at 500 ppm each.
const MARGIN: Duration = Duration::from_millis(11);

/// A server gives a lease to one client at a time, and to the next client when the lease is over by the
/// server's clock. To another client it says how long that will be. A client works as long as its lease
/// lasts by its own clock, less the margin. It counts from before it has asked for the lease, so that the
/// way of the answer costs nothing. Panics if two clients work at once.
fn leases(margin: Duration) {
    let server = sim::node("server", || {
        let socket = UdpSocket::bind("0.0.0.0:7").unwrap();
        let mut until = Instant::now();
        loop {
            let Ok((_, client)) = socket.recv_from(&mut [0]) else { return };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                until = Instant::now() + LEASE;
            }
            _ = socket.send_to(&(left.as_nanos() as u64).to_le_bytes(), client);
        }
    });
    let works = Arc::new(AtomicU32::new(0));
    let worked = Arc::new(AtomicU64::new(0));
    let address = (server.ip(), 7);
    for name in ["a", "b"] {
        let (works, worked) = (works.clone(), worked.clone());
        // No handle stays: a panic of the client fails the run at once.
        drop(sim::node(name, move || {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            let mut left = [0; 8];
            // The server has its socket by then.
            sleep(MS);
            loop {
                let asked = Instant::now();
                _ = socket.send_to(&[0], address);
                socket.recv(&mut left).unwrap();
                if left == [0; 8] {
                    assert_eq!(works.fetch_add(1, Ordering::Relaxed), 0, "two clients have the lease");
                    sleep_until(asked + LEASE - margin);
                    works.fetch_sub(1, Ordering::Relaxed);
                    worked.fetch_add(1, Ordering::Relaxed);
                    // The other client is to have the lease.
                    sleep(LEASE);
                } else {
                    sleep(Duration::from_nanos(u64::from_le_bytes(left)));
                }
            }
        }));
    }
    sleep(100 * S);
    assert!(worked.load(Ordering::Relaxed) >= 8);
}

#[test]
fn a_lease_without_a_margin_is_two_clients_in_some_seed() {
    let faults = Faults::new().clock_drift(500);
    let builder = || Builder::new().faults(faults.clone());
    let failure = builder().try_explore(100, || leases(Duration::ZERO)).unwrap_err();
    assert!(failure.message().contains("two clients have the lease"), "{failure}");
    // The drift is what the failure needs: its schedule has it.
    assert!(failure.schedule().to_string().contains('r'), "{failure}");
    let again = builder().strategy(Strategy::Replay(failure.schedule().clone()));
    let replayed = again.first_seed(failure.seed()).try_explore(1, || leases(Duration::ZERO));
    assert_eq!(replayed.unwrap_err().message(), failure.message());
    builder().explore(100, || leases(MARGIN));
    Builder::new().explore(100, || leases(Duration::ZERO));
}

#[test]
fn yields_do_not_move_a_clock() {
    with_clocks().run(1, || {
        let node = node("node", 300_000, || time(|| (0..100).for_each(|_| yield_now())));
        assert_eq!(node.join().unwrap(), Duration::ZERO);
    });
}
