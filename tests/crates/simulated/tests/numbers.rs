//! The numbers of simulated sockets: none stands for two sockets, also if simulations leave threads behind.

runtime::interpose!(sim);

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::{Condvar, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use runtime::sim;

/// Held by each test: numbers belong to the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes a connection within the node of the caller.
fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Starts a thread that never ends, and keeps `keeps` for ever.
fn leave_behind(keeps: impl Send + 'static) {
    thread::spawn(move || {
        let _keeps = keeps;
        let never = Mutex::new(());
        drop(Condvar::new().wait_while(never.lock().unwrap(), |()| true));
    });
    thread::sleep(Duration::from_millis(1));
}

/// Returns streams of a simulation that has left a thread behind, and thus forgets its sockets.
fn outlive(count: usize) -> Vec<(TcpStream, TcpStream)> {
    sim::run(1, move || {
        leave_behind(());
        (0..count).map(|_| pair()).collect()
    })
}

fn numbers(streams: &[(TcpStream, TcpStream)]) -> BTreeSet<i32> {
    streams.iter().flat_map(|(near, far)| [near.as_raw_fd(), far.as_raw_fd()]).collect()
}

fn exchange((near, far): &mut (TcpStream, TcpStream)) {
    near.write_all(b"x").unwrap();
    far.read_exact(&mut [0]).unwrap();
}

/// The streams of an earlier simulation close their own numbers.
#[test]
fn a_value_that_outlives_its_simulation_closes_no_socket_of_a_later_one() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let old = outlive(4);
    let earlier = numbers(&old);
    let old = Mutex::new(old);
    sim::run(2, || {
        let mut streams: Vec<_> = (0..4).map(|_| pair()).collect();
        assert!(earlier.is_disjoint(&numbers(&streams)), "the owners of {earlier:?} have not closed them");
        // Half of them are dropped in the simulation, half by a thread of the system.
        old.lock().unwrap().truncate(2);
        streams.iter_mut().for_each(exchange);
    });
    let late = sim::run(3, || (0..4).map(|_| pair()).collect::<Vec<_>>());
    drop(old);
    let is_open = |fd: &i32| std::fs::exists(format!("/proc/self/fd/{fd}")).unwrap();
    assert!(numbers(&late).iter().all(is_open));
}

/// A number that its owner closes while the simulation ends is the system's.
#[test]
fn a_number_that_is_closed_at_the_end_of_its_simulation_is_not_used_again() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for round in 0..30 {
        let (give, take) = mpsc::channel::<Vec<(TcpStream, TcpStream)>>();
        let closer = thread::spawn(move || take.into_iter().for_each(drop));
        sim::run(round, move || {
            leave_behind(());
            give.send((0..40).map(|_| pair()).collect()).unwrap();
        });
        closer.join().unwrap();
        let streams = sim::run(round, || (0..40).map(|_| pair()).collect::<Vec<_>>());
        for fd in numbers(&streams) {
            assert!(std::fs::exists(format!("/proc/self/fd/{fd}")).unwrap(), "{fd} is closed");
        }
    }
}

/// A thread that is left in a call keeps its socket for ever, so the number of that is free.
#[test]
fn numbers_of_threads_that_are_left_in_calls_are_used_again() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let before = open();
    for seed in 0..50 {
        sim::run(seed, || {
            thread::spawn(|| {
                let listener = TcpListener::bind("0.0.0.0:1").unwrap();
                while listener.accept().is_err() {}
            });
            thread::sleep(Duration::from_secs(1));
        });
    }
    assert!(open() < before + 10, "{} descriptors more are open", open() - before);
}
