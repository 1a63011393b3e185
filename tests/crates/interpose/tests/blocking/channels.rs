//! std's channels, `thread::park` and scopes between green threads, on runtimes with and without sysmon.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use interpose::servers::Watchdog;
use runtime::thread::JoinHandle;
use runtime::{Migration, Runtime};

/// Far more than any wait of these tests needs: a wake-up was lost.
const LOST: Duration = Duration::from_secs(60);

/// Runs `test` on runtimes of both modes with 1, 2 and 8 Ps, with and without sysmon.
fn on_all_runtimes(test: impl Fn(&Runtime)) {
    let _watchdog = Watchdog::new();
    for procs in [1, 2, 8] {
        for migration in [Migration::default(), Migration::BeforeStart] {
            for sysmon in [true, false] {
                let builder = runtime::Builder::new().procs(procs).migration(migration);
                let runtime = builder.sysmon(sysmon).build().unwrap();
                eprintln!("{procs} Ps, {migration:?}, sysmon: {sysmon}");
                test(&runtime);
            }
        }
    }
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    threads.into_iter().map(|thread| thread.join().unwrap()).collect()
}

/// Sends each number on, plus one.
fn pass_on(from: &Receiver<u32>, to: &SyncSender<u32>, rounds: u32) {
    for round in 0..rounds {
        let number = from.recv_timeout(LOST).expect("a message was lost");
        assert_eq!(number, 2 * round);
        to.send(number + 1).unwrap();
    }
}

fn ask(to: &SyncSender<u32>, from: &Receiver<u32>, rounds: u32) {
    for round in 0..rounds {
        to.send(2 * round).unwrap();
        let answer = from.recv_timeout(LOST).expect("a message was lost");
        assert_eq!(answer, 2 * round + 1);
    }
}

/// Pairs of green threads that ask and answer, by channels with room for `room` messages.
fn ping_pong(runtime: &Runtime, pairs: usize, room: usize, rounds: u32) {
    let pairs = (0..pairs).map(|_| {
        let (ask_to, asked) = mpsc::sync_channel(room);
        let (answer_to, answered) = mpsc::sync_channel(room);
        let server = runtime.spawn(move || pass_on(&asked, &answer_to, rounds));
        [server, runtime.spawn(move || ask(&ask_to, &answered, rounds))]
    });
    let pairs: Vec<_> = pairs.collect();
    join(pairs.into_iter().flatten());
}

#[test]
fn two_green_threads_play_ping_pong_by_rendezvous() {
    on_all_runtimes(|runtime| ping_pong(runtime, 1, 0, 500));
}

#[test]
fn many_pairs_play_ping_pong() {
    on_all_runtimes(|runtime| {
        ping_pong(runtime, 12, 0, 50);
        ping_pong(runtime, 12, 1, 50);
    });
}

/// The receiver is the only one that waits; the senders are green threads that only send.
#[test]
fn a_receiver_gets_what_many_green_threads_send() {
    const SENDERS: usize = 20;
    const EACH: usize = 200;
    on_all_runtimes(|runtime| {
        let (sender, receiver) = mpsc::channel();
        let receiver = runtime.spawn(move || {
            let mut sum = 0;
            for _ in 0..SENDERS * EACH {
                sum += receiver.recv_timeout(LOST).expect("a message was lost");
            }
            assert!(receiver.recv().is_err(), "all senders have ended");
            sum
        });
        let senders = (0..SENDERS).map(|_| {
            let sender = sender.clone();
            runtime.spawn(move || {
                for message in 1..=EACH {
                    sender.send(message).unwrap();
                    if message % 50 == 0 {
                        runtime::yield_now();
                    }
                }
            })
        });
        join(senders.collect::<Vec<_>>());
        drop(sender);
        assert_eq!(receiver.join().unwrap(), SENDERS * EACH * (EACH + 1) / 2);
    });
}

/// Each of many green threads asks a server and waits for the answer on a channel of its own: a thousand OS
/// threads at most.
#[test]
fn many_green_threads_wait_for_an_answer_each() {
    const CLIENTS: usize = 150;
    on_all_runtimes(|runtime| {
        let (ask, asked) = mpsc::channel::<(usize, mpsc::Sender<usize>)>();
        let server = runtime.spawn(move || {
            let mut waiting = Vec::new();
            for _ in 0..CLIENTS {
                waiting.push(asked.recv_timeout(LOST).expect("a question was lost"));
            }
            waiting.into_iter().for_each(|(number, answer)| answer.send(number + 1).unwrap());
        });
        let clients = (0..CLIENTS).map(|number| {
            let ask = ask.clone();
            runtime.spawn(move || {
                let (answer, answered) = mpsc::channel();
                ask.send((number, answer)).unwrap();
                assert_eq!(answered.recv_timeout(LOST), Ok(number + 1));
            })
        });
        join(clients.collect::<Vec<_>>());
        server.join().unwrap();
    });
}

/// Green threads that are bound to an OS thread first, by a sleep, and then wait in `park` there: they share
/// its token.
#[test]
fn green_threads_of_one_os_thread_park_beside_each_other() {
    const THREADS: usize = 30;
    on_all_runtimes(|runtime| {
        let flags: Arc<Vec<AtomicBool>> = Arc::new((0..THREADS).map(|_| AtomicBool::new(false)).collect());
        let (tell, told) = mpsc::channel();
        let parked = (0..THREADS).map(|number| {
            let (flags, tell) = (flags.clone(), tell.clone());
            runtime.spawn(move || {
                std::thread::sleep(Duration::from_millis(2));
                tell.send((number, std::thread::current())).unwrap();
                let start = Instant::now();
                while !flags[number].load(Ordering::Acquire) {
                    std::thread::park();
                }
                assert!(start.elapsed() < LOST);
            })
        });
        let parked: Vec<_> = parked.collect();
        for _ in 0..THREADS {
            let (number, thread) = told.recv_timeout(LOST).unwrap();
            // Some are unparked before they park, some while others go on.
            if number % 3 == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
            flags[number].store(true, Ordering::Release);
            thread.unpark();
        }
        join(parked);
    });
}

#[test]
fn a_time_out_of_a_channel_ends_when_it_is_up() {
    on_all_runtimes(|runtime| {
        let waits = (0..20).map(|i| {
            runtime.spawn(move || {
                if i % 2 == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let (_sender, receiver) = mpsc::channel::<()>();
                let (start, time) = (Instant::now(), Duration::from_millis(i));
                assert_eq!(receiver.recv_timeout(time), Err(mpsc::RecvTimeoutError::Timeout));
                assert!(start.elapsed() >= time && start.elapsed() < LOST);
            })
        });
        join(waits.collect::<Vec<_>>());
    });
}

#[test]
fn a_scope_of_plain_threads_and_other_locks_follow_a_park() {
    on_all_runtimes(|runtime| {
        let shared = Arc::new((Mutex::new(0), Condvar::new()));
        let threads = (0..10).map(|_| {
            let shared = shared.clone();
            runtime.spawn(move || {
                let sum = AtomicUsize::new(0);
                std::thread::scope(|scope| {
                    (1..=3).for_each(|n| {
                        let sum = &sum;
                        scope.spawn(move || sum.fetch_add(n, Ordering::Relaxed));
                    });
                });
                assert_eq!(sum.into_inner(), 6);
                // Each waits for the others after it has claimed its OS thread.
                let (count, changed) = &*shared;
                *count.lock().unwrap() += 1;
                changed.notify_all();
                let count = count.lock().unwrap();
                let (count, waited) = changed.wait_timeout_while(count, LOST, |count| *count < 10).unwrap();
                assert!(!waited.timed_out(), "only {count} came");
                drop(count);
                runtime::sleep(Duration::from_millis(1));
                runtime::yield_now();
            })
        });
        join(threads.collect::<Vec<_>>());
    });
}
