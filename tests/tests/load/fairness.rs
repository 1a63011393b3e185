//! Fairness on a single P, without sysmon: no busy green thread keeps others from running for ever.

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use runtime::net::{TcpListener, TcpStream};
use runtime::{Builder, JoinHandle, spawn, thread};
use tests::with_built;

/// Runs `main` as a green thread of a runtime in which only the order of the queues gives a thread its turn.
fn on_one_p(main: impl FnOnce() + Send) {
    with_built(Builder::new().procs(1).sysmon(false), |runtime| runtime.block_on(main));
}

/// Busy green threads, and how to end them.
struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    turns: Arc<AtomicUsize>,
}

impl Busy {
    fn new(number: usize, turn: impl Fn() + Send + Sync + 'static) -> Busy {
        let (stop, turns, turn) =
            (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default(), Arc::new(turn));
        let threads = (0..number)
            .map(|_| {
                let (stop, turns, turn) = (stop.clone(), turns.clone(), turn.clone());
                spawn(move || {
                    while !stop.load(SeqCst) {
                        turns.fetch_add(1, SeqCst);
                        turn();
                    }
                })
            })
            .collect();
        Busy { stop, threads, turns }
    }

    fn yielding() -> Busy {
        Busy::new(2, thread::yield_now)
    }

    /// Two threads that wake each other and park, through the run-next slot.
    fn ping_pong() -> Busy {
        let (stop, turns) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let play = |other: Option<thread::Thread>| {
            let (stop, turns) = (stop.clone(), turns.clone());
            spawn(move || {
                let other = other.unwrap_or_else(|| {
                    thread::park();
                    PARTNER.lock().unwrap().take().expect("the partner's handle is set before the wake-up")
                });
                while !stop.load(SeqCst) {
                    turns.fetch_add(1, SeqCst);
                    other.unpark();
                    thread::park();
                }
                other.unpark();
            })
        };
        static PARTNER: std::sync::Mutex<Option<thread::Thread>> = std::sync::Mutex::new(None);
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _alone = ONE_AT_A_TIME.lock().unwrap();
        let a = play(None);
        let b = play(Some(a.thread().clone()));
        *PARTNER.lock().unwrap() = Some(b.thread().clone());
        a.thread().unpark();
        while PARTNER.lock().unwrap().is_some() {
            thread::yield_now();
        }
        Busy { stop, threads: vec![a, b], turns }
    }

    /// A thread that spawns and joins threads without end.
    fn spawning() -> Busy {
        Busy::new(1, || drop(spawn(|| ()).join()))
    }

    /// Futures that wake themselves.
    fn self_waking() -> Busy {
        let (stop, turns) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let threads = (0..2)
            .map(|_| {
                let (stop, turns) = (stop.clone(), turns.clone());
                spawn(std::future::poll_fn(move |cx| {
                    turns.fetch_add(1, SeqCst);
                    cx.waker().wake_by_ref();
                    if stop.load(SeqCst) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                }))
            })
            .collect();
        Busy { stop, threads, turns }
    }

    fn end(self) {
        assert!(self.turns.load(SeqCst) > 0, "the busy threads have run");
        self.stop.store(true, SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Runs `what` beside each kind of busy threads. `what` must return, and the watchdog ends the process if it
/// does not.
fn beside_each_kind(what: impl Fn() + Send + Sync) {
    for busy in [Busy::yielding, Busy::ping_pong, Busy::spawning, Busy::self_waking] {
        on_one_p(|| {
            let busy = busy();
            what();
            // The busy threads have their turns too.
            let before = busy.turns.load(SeqCst);
            while busy.turns.load(SeqCst) < before + 100 {
                thread::yield_now();
            }
            busy.end();
        });
    }
}

#[test]
fn new_threads_have_their_turn() {
    beside_each_kind(|| {
        let threads: Vec<_> = (0..100).map(|i| spawn(move || i)).collect();
        assert_eq!(threads.into_iter().map(|thread| thread.join().unwrap()).sum::<i32>(), 4950);
    });
}

#[test]
fn yielding_threads_have_their_turn() {
    beside_each_kind(|| (0..1000).for_each(|_| thread::yield_now()));
}

#[test]
fn woken_threads_have_their_turn() {
    beside_each_kind(|| {
        let main = thread::current();
        let other = spawn(move || {
            for _ in 0..100 {
                thread::park();
                main.unpark();
            }
        });
        for _ in 0..100 {
            other.thread().unpark();
            thread::park();
        }
        other.join().unwrap();
    });
}

#[test]
fn timers_fire_beside_busy_threads() {
    beside_each_kind(|| {
        for _ in 0..10 {
            runtime::sleep(Duration::from_millis(1));
            thread::park_timeout(Duration::from_micros(300));
        }
        spawn(runtime::time::sleep_async(Duration::from_millis(1))).join().unwrap();
    });
}

#[test]
fn sockets_become_ready_beside_busy_threads() {
    beside_each_kind(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let client = std::thread::spawn(move || {
            let mut stream = std::net::TcpStream::connect(addr).unwrap();
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(1));
                stream.write_all(b"x").unwrap();
            }
        });
        let mut stream: TcpStream = listener.accept().unwrap().0;
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert_eq!(text.len(), 10);
        client.join().unwrap();
    });
}

#[test]
fn threads_spawned_from_outside_have_their_turn() {
    with_built(Builder::new().procs(1).sysmon(false), |runtime| {
        let busy = runtime.block_on(Busy::yielding);
        for _ in 0..20 {
            runtime.spawn(thread::yield_now).join().unwrap();
        }
        runtime.block_on(|| busy.end());
    });
}
