//! Threads of std that do not end by themselves, at the end of their node or of the simulation.

runtime::interpose!(sim);

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use runtime::sim::{self, Faults};

const SECOND: Duration = Duration::from_secs(1);

/// Programs that go on for ever.
const FOR_EVER: [fn(); 4] = [
    || loop {
        thread::sleep(SECOND);
    },
    || {
        let listener = TcpListener::bind("0.0.0.0:1").unwrap();
        loop {
            if let Ok((stream, _)) = listener.accept() {
                drop(stream);
            }
        }
    },
    || {
        let (_sender, receiver) = mpsc::channel::<()>();
        _ = receiver.recv();
    },
    || {
        let listener = TcpListener::bind("0.0.0.0:1").unwrap();
        thread::spawn(move || listener.incoming().for_each(drop)).join().unwrap();
    },
];

/// The end of the main function is the end of the simulation, as that of `main` is the end of a process.
#[test]
fn threads_that_are_left_end_with_the_main_function() {
    let real = Instant::now();
    for program in FOR_EVER {
        sim::run(1, move || {
            thread::spawn(program);
            thread::sleep(3 * SECOND);
        });
        sim::run(1, move || {
            sim::node("server", program);
            thread::sleep(3 * SECOND);
        });
    }
    // What comes after is not disturbed.
    sim::run(1, || thread::spawn(|| thread::sleep(SECOND)).join().unwrap());
    assert!(real.elapsed() < 30 * SECOND);
}

#[test]
fn threads_end_with_their_node() {
    for program in FOR_EVER {
        sim::run(1, move || {
            let node = sim::node("server", program);
            thread::sleep(3 * SECOND);
            node.kill();
            assert!(node.is_finished());
            assert!(node.join().unwrap_err().is::<runtime::thread::Cancelled>());
            node.restart();
            thread::sleep(3 * SECOND);
            assert!(!node.is_finished());
            node.kill();
        });
    }
}

/// A server that never ends, and heeds no error.
fn serve() {
    let listener = TcpListener::bind("0.0.0.0:7").unwrap();
    loop {
        let Ok((mut stream, _)) = listener.accept() else { continue };
        thread::spawn(move || {
            let mut byte = [0];
            while let Ok(1) = stream.read(&mut byte) {
                _ = stream.write(&byte);
            }
        });
    }
}

/// What is left behind never closes its sockets. Their numbers are used again.
#[test]
fn a_server_that_heeds_no_error_is_killed_and_left() {
    let faults = Faults::new().every(SECOND / 2).kill(0.3).partition(0.1);
    let report = sim::Builder::new().faults(faults).explore(200, || {
        sim::node("server", serve);
        for _ in 0..5 {
            let ask = || {
                let mut stream = TcpStream::connect("server:7")?;
                stream.set_read_timeout(Some(SECOND))?;
                stream.write_all(b"x")?;
                stream.read_exact(&mut [0])
            };
            let mut tries = 0;
            while ask().is_err() {
                tries += 1;
                assert!(tries < 500, "the server does not answer");
                thread::sleep(SECOND / 10);
            }
            thread::sleep(SECOND / 3);
        }
    });
    assert_eq!(report.runs(), 200);
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open < 200, "{open} descriptors are open");
}

/// A flag that threads wait for, in static memory: it outlives simulations.
static FLAG: Mutex<bool> = Mutex::new(false);
static RAISED: Condvar = Condvar::new();

fn await_flag() {
    drop(RAISED.wait_while(FLAG.lock().unwrap(), |raised| !*raised).unwrap());
}

/// Starts a thread that waits for the flag, raises the flag, and wakes one waiter.
fn wake_one() {
    *FLAG.lock().unwrap() = false;
    let waiter = thread::spawn(await_flag);
    thread::sleep(SECOND / 10);
    *FLAG.lock().unwrap() = true;
    RAISED.notify_one();
    waiter.join().unwrap();
    *FLAG.lock().unwrap() = false;
}

/// What was left behind runs no more, so it must not take the wake of another waiter.
#[test]
fn what_is_left_behind_takes_no_wake() {
    // In a later simulation, and of an OS thread.
    for wake_one_later in [|| sim::run(1, wake_one), wake_one] {
        sim::run(1, || {
            thread::spawn(await_flag);
            thread::sleep(SECOND);
        });
        wake_one_later();
    }
    // In the same simulation.
    sim::run(1, || {
        let node = sim::node("waits", await_flag);
        thread::sleep(SECOND);
        node.kill();
        wake_one();
    });
}

/// A flag that threads wait for: each waiter wakes the next one. It is in no static memory, so a simulation
/// does not expect others to change it.
#[derive(Default)]
struct Relay {
    raised: Mutex<bool>,
    changed: Condvar,
    /// True once the OS thread has looked at `raised`, with the lock.
    has_looked: AtomicBool,
}

impl Relay {
    fn wait(&self) {
        drop(self.changed.wait_while(self.raised.lock().unwrap(), |raised| !*raised).unwrap());
        self.changed.notify_one();
    }

    fn raise(&self) {
        *self.raised.lock().unwrap() = true;
        self.changed.notify_one();
    }
}

/// An OS thread wakes one waiter at some moment of a simulation's end. If that is a thread of the simulation,
/// it wakes the next one before it is left behind.
#[test]
fn a_wake_at_the_end_of_a_simulation_is_not_lost() {
    // In the first the main function waits: the simulation is given up.
    let mains: [fn(&'static Relay); 2] = [Relay::wait, |relay| {
        thread::spawn(|| relay.wait());
        thread::sleep(SECOND);
    }];
    for round in 0..400 {
        let relay: &Relay = Box::leak(Box::default());
        let (woken, is_woken) = mpsc::channel();
        let waiter = thread::spawn(move || {
            let raised = relay.raised.lock().unwrap();
            relay.has_looked.store(true, SeqCst);
            drop(relay.changed.wait_while(raised, |raised| !*raised).unwrap());
            woken.send(()).unwrap();
        });
        // It has given the lock back, so it waits. A thread of the simulation that is woken, and then must wait
        // for the lock of an OS thread, would be left behind with its duty: no simulation can know of that.
        while !relay.has_looked.load(SeqCst) {
            thread::yield_now();
        }
        drop(relay.raised.lock());
        let raiser = thread::spawn(move || {
            let start = Instant::now();
            while start.elapsed() < Duration::from_micros(20 * (round / 2 % 100)) {
                std::hint::spin_loop();
            }
            relay.raise();
        });
        // The first ends in a deadlock.
        _ = panic::catch_unwind(|| sim::run(round, || mains[round as usize % 2](relay)));
        raiser.join().unwrap();
        is_woken.recv_timeout(60 * SECOND).unwrap_or_else(|_| panic!("a wake was lost in round {round}"));
        waiter.join().unwrap();
    }
}

/// A thread of a node that is killed waits for a lock, and one outside of the node stands behind it. The lock
/// is given back at the moment at which the first thread is left behind: the second one gets it.
#[test]
fn a_thread_that_is_left_keeps_no_wake_from_others() {
    // In a quarter of the seeds the node is left after the lock was given back, before the thread has run.
    for seed in 0..40 {
        sim::run(seed, move || {
            let (lock, has_it) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
            let held = lock.lock().unwrap();
            let of_node = lock.clone();
            let node = sim::node("waits", move || drop(of_node.lock().unwrap()));
            thread::sleep(SECOND);
            thread::spawn({
                let (lock, has_it) = (lock.clone(), has_it.clone());
                move || {
                    drop(lock.lock().unwrap());
                    has_it.store(true, SeqCst);
                }
            });
            thread::sleep(SECOND);
            // It is left behind after a second.
            thread::spawn(move || node.kill());
            thread::sleep(SECOND);
            drop(held);
            thread::sleep(10 * SECOND);
            assert!(has_it.load(SeqCst), "seed {seed}: a wake was lost");
        });
    }
}
