//! Threads, locks, channels and sleeps of std in a simulation.

runtime::interpose!(sim);

use std::cell::Cell;
use std::hint;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use runtime::sim;

#[test]
fn a_thread_returns_its_value() {
    assert_eq!(sim::run(1, || thread::spawn(|| 42).join().unwrap()), 42);
}

#[test]
fn names_and_ids_are_the_threads_own() {
    sim::run(1, || {
        let main = thread::current().id();
        let named = thread::Builder::new().name("worker".into());
        let (id, name) = named
            .spawn(|| (thread::current().id(), thread::current().name().map(String::from)))
            .unwrap()
            .join()
            .unwrap();
        assert_ne!(id, main);
        assert_eq!(name.as_deref(), Some("worker"));
        assert_eq!(thread::current().id(), main);
    });
}

#[test]
fn a_panic_reaches_the_joiner() {
    sim::run(1, || {
        let payload = thread::spawn(|| panic!("on purpose")).join().unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"on purpose"));
    });
}

#[test]
fn a_scope_borrows() {
    let sum = sim::run(3, || {
        let parts = [1, 2, 3, 4];
        let sum = AtomicUsize::new(0);
        thread::scope(|scope| {
            for part in &parts {
                let sum = &sum;
                scope.spawn(move || _ = sum.fetch_add(*part, Ordering::Relaxed));
            }
        });
        sum.into_inner()
    });
    assert_eq!(sum, 10);
}

#[test]
fn sleeps_take_simulated_time() {
    let real = Instant::now();
    let slept = sim::run(1, || {
        let start = Instant::now();
        let sleepers: Vec<_> = (1..=100)
            .map(|hours| thread::spawn(move || thread::sleep(Duration::from_secs(3600 * hours))))
            .collect();
        sleepers.into_iter().for_each(|sleeper| sleeper.join().unwrap());
        start.elapsed()
    });
    assert_eq!(slept, Duration::from_secs(360_000));
    assert!(real.elapsed() < Duration::from_secs(60));
}

#[test]
fn locks_conditions_and_channels_park() {
    sim::run(5, || {
        let pair = Arc::new((Mutex::new(0), Condvar::new()));
        let barrier = Arc::new(Barrier::new(4));
        let (sender, receiver) = mpsc::sync_channel(1);
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let (pair, barrier, sender) = (pair.clone(), barrier.clone(), sender.clone());
                thread::spawn(move || {
                    barrier.wait();
                    *pair.0.lock().unwrap() += 1;
                    pair.1.notify_all();
                    sender.send(()).unwrap();
                })
            })
            .collect();
        drop(sender);
        let all = pair.1.wait_while(pair.0.lock().unwrap(), |done| *done < 4).unwrap();
        assert_eq!(*all, 4);
        drop(all);
        assert_eq!(receiver.iter().count(), 4);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
}

#[test]
fn waits_with_a_time_end_in_simulated_time() {
    sim::run(7, || {
        let hour = Duration::from_secs(3600);
        let start = Instant::now();
        let (_sender, receiver) = mpsc::channel::<()>();
        assert_eq!(receiver.recv_timeout(hour), Err(mpsc::RecvTimeoutError::Timeout));
        let (lock, condition) = (Mutex::new(()), Condvar::new());
        assert!(condition.wait_timeout(lock.lock().unwrap(), hour).unwrap().1.timed_out());
        thread::park_timeout(hour);
        let waited = start.elapsed();
        assert!(waited >= 3 * hour && waited < 3 * hour + Duration::from_secs(1), "{waited:?}");
    });
}

thread_local! {
    static OWN: Cell<u32> = const { Cell::new(0) };
}

#[test]
fn thread_locals_are_the_threads_own() {
    sim::run(9, || {
        let threads: Vec<_> = (1..=10)
            .map(|value| {
                thread::spawn(move || {
                    assert_eq!(OWN.replace(value), 0);
                    thread::yield_now();
                    assert_eq!(OWN.get(), value);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(OWN.get(), 0);
    });
}

#[test]
fn other_locks_park() {
    sim::run(11, || {
        let (shared, count) = (Arc::new(parking_lot::Mutex::new(0)), 20);
        let (sender, receiver) = crossbeam_channel::bounded(0);
        let threads: Vec<_> = (0..count)
            .map(|_| {
                let (shared, sender) = (shared.clone(), sender.clone());
                thread::spawn(move || {
                    let mut value = shared.lock();
                    thread::sleep(Duration::from_millis(5));
                    *value += 1;
                    drop(value);
                    sender.send(()).unwrap();
                })
            })
            .collect();
        (0..count).for_each(|_| receiver.recv().unwrap());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*shared.lock(), count);
        let value = RwLock::new(1);
        thread::scope(|scope| {
            let read = value.read().unwrap();
            scope.spawn(|| *value.write().unwrap() = 2);
            thread::sleep(Duration::from_secs(1));
            assert_eq!(*read, 1);
        });
        assert_eq!(*value.read().unwrap(), 2);
    });
}

static SHARED: Mutex<u32> = Mutex::new(0);

/// A wait for it is no deadlock of the simulation that waits.
#[test]
fn a_lock_in_static_memory_may_be_another_simulations() {
    let (held, released) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let holds = || {
            sim::run(1, || {
                let mut shared = SHARED.lock().unwrap();
                held.store(true, Ordering::SeqCst);
                while !released.load(Ordering::SeqCst) {
                    hint::spin_loop();
                }
                *shared += 1;
            });
        };
        scope.spawn(holds);
        while !held.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        let waits = scope.spawn(|| sim::run(2, || *SHARED.lock().unwrap() += 1));
        thread::sleep(Duration::from_millis(300));
        assert!(!waits.is_finished());
        released.store(true, Ordering::SeqCst);
    });
    assert_eq!(*SHARED.lock().unwrap(), 2);
}

#[test]
fn a_wait_for_a_real_socket_fails_the_run() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let failure = sim::Builder::new()
        .try_explore(1, || {
            let acceptor = thread::spawn({
                let listener = listener.try_clone().unwrap();
                move || _ = listener.accept()
            });
            acceptor.join().unwrap();
        })
        .unwrap_err();
    assert!(failure.message().contains("waits for a socket of the system"), "{failure}");
}
