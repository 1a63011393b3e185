//! Timers beside sockets: while an M blocks in the netpoller for long, a parked M wakes itself for the next
//! timer.

use std::net::UdpSocket as StdSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use runtime::net::UdpSocket;
use runtime::{Handle, JoinHandle, sleep, spawn, yield_now};
use tests::{Random, everywhere, on};

const MS: Duration = Duration::from_millis(1);

/// Starts a green thread that waits for a datagram on a socket of its own. Returns the socket's address.
fn waits_for_a_datagram() -> (JoinHandle<usize>, std::net::SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    let waits = spawn(move || socket.recv(&mut [0; 8]).unwrap());
    tests::until_it_waits(&waits);
    (waits, addr)
}

fn send(addr: std::net::SocketAddr) {
    StdSocket::bind("127.0.0.1:0").unwrap().send_to(b"x", addr).unwrap();
}

#[test]
fn a_ticker_does_not_wake_the_m_in_the_netpoller() {
    on(2, || {
        let handle = Handle::current();
        let (waits, addr) = waits_for_a_datagram();
        // Until it is settled which M blocks in the netpoller.
        (0..20).for_each(|_| sleep(MS));
        let before = handle.metrics().net_breaks;
        (0..300).for_each(|_| sleep(MS));
        let breaks = handle.metrics().net_breaks - before;
        // Without the alarm each sleep wakes the netpoller.
        assert!(breaks < 15, "{breaks} wake-ups of the netpoller in 300 sleeps");
        send(addr);
        assert_eq!(waits.join().unwrap(), 1);
    });
}

/// The alarm moves between Ms, because others use the Ps for short times, and want Ms to watch the network.
/// No sleep is late, and no datagram.
#[test]
fn sleeps_and_datagrams_are_on_time_while_ms_come_and_go() {
    everywhere(|| {
        let ends = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..3)
            .map(|seed| {
                let ends = Arc::clone(&ends);
                spawn(move || {
                    let mut random = Random::new(seed);
                    while !ends.load(Ordering::Relaxed) {
                        (0..random.below(20)).for_each(|_| yield_now());
                        let fan: Vec<_> = (0..random.below(4)).map(|_| spawn(yield_now)).collect();
                        fan.into_iter().for_each(|one| one.join().unwrap());
                        sleep(Duration::from_micros(random.below(3_000)));
                    }
                })
            })
            .collect();
        let mut late = Vec::new();
        for _ in 0..30 {
            let (waits, addr) = waits_for_a_datagram();
            let start = Instant::now();
            sleep(2 * MS);
            let slept = start.elapsed();
            let start = Instant::now();
            send(addr);
            assert_eq!(waits.join().unwrap(), 1);
            late.push((slept - 2 * MS).max(start.elapsed()));
        }
        ends.store(true, Ordering::Relaxed);
        others.into_iter().for_each(|other| other.join().unwrap());
        late.sort();
        // A sleep that no thread watches ends with the next event or never. A slow machine may stop for longer
        // in a round.
        assert!(late[27] < Duration::from_millis(100) && late[29] < Duration::from_secs(5), "{late:?}");
    });
}

/// The M with the alarm is handed work that keeps all Ps, so that another thread watches its timer.
#[test]
fn a_timer_fires_when_the_m_with_the_alarm_is_given_work() {
    on(2, || {
        let (waits, addr) = waits_for_a_datagram();
        let mut late = Vec::new();
        for _ in 0..50 {
            let start = Instant::now();
            let has_slept = Arc::new(AtomicBool::new(false));
            let notes = has_slept.clone();
            let sleeps = spawn(move || {
                sleep(3 * MS);
                notes.store(true, Ordering::Relaxed);
                start.elapsed() - 3 * MS
            });
            sleep(MS);
            // Two that yield have both Ps, and an M that was parked.
            let busy: Vec<_> = (0..2)
                .map(|_| {
                    let has_slept = has_slept.clone();
                    spawn(move || {
                        while !has_slept.load(Ordering::Relaxed) {
                            yield_now();
                        }
                    })
                })
                .collect();
            busy.into_iter().for_each(|one| one.join().unwrap());
            late.push(sleeps.join().unwrap());
        }
        late.sort();
        // A timer that no thread watches is late in each round, until sysmon looks. On a machine with other
        // work many are late.
        assert!(late[10] < 5 * MS, "a fifth of {late:?}");
        send(addr);
        assert_eq!(waits.join().unwrap(), 1);
    });
}
