//! What std waits with: locks, conditions, barriers, `Once`, channels, `park`, scopes, time-outs.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Condvar, LazyLock, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

pub fn run() {
    println!("mutex: {}", mutex());
    println!("condvar: {}", condvar());
    println!("condvar with a time-out: {}", late());
    println!("rwlock: {}", rwlock());
    println!("barrier: {}", barrier());
    println!("once: {}", once());
    println!("channels: {}", channels());
    println!("a channel with a time-out: {:?}", late_message());
    println!("park: {}", park());
    println!("scope: {}", scope());
    all_at_once();
}

fn mutex() -> u64 {
    let sum = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let mut sum = sum.lock().unwrap();
                    let before = *sum;
                    thread::yield_now();
                    *sum = before + 1;
                }
            });
        }
    });
    sum.into_inner().unwrap()
}

/// Two threads take turns.
fn condvar() -> u32 {
    let turns = Arc::new((Mutex::new(0), Condvar::new()));
    let other = turns.clone();
    let take_turns = |turns: &(Mutex<u32>, Condvar), mine: u32| {
        for _ in 0..1000 {
            let turn = turns.1.wait_while(turns.0.lock().unwrap(), |turn| *turn % 2 != mine).unwrap();
            { turn }.add(1);
            turns.1.notify_one();
        }
    };
    let thread = thread::spawn(move || take_turns(&other, 1));
    take_turns(&turns, 0);
    thread.join().unwrap();
    *turns.0.lock().unwrap()
}

trait Add {
    fn add(&mut self, more: u32);
}

impl Add for std::sync::MutexGuard<'_, u32> {
    fn add(&mut self, more: u32) {
        **self += more;
    }
}

fn late() -> bool {
    let (lock, condvar) = (Mutex::new(()), Condvar::new());
    condvar.wait_timeout_while(lock.lock().unwrap(), MILLI, |()| true).unwrap().1.timed_out()
}

fn rwlock() -> u64 {
    let numbers = RwLock::new((0, 0));
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut numbers = numbers.write().unwrap();
                    numbers.0 += 1;
                    thread::yield_now();
                    numbers.1 += 1;
                }
            });
            scope.spawn(|| {
                for _ in 0..50 {
                    let numbers = numbers.read().unwrap();
                    thread::yield_now();
                    assert_eq!(numbers.0, numbers.1);
                }
            });
        }
    });
    numbers.into_inner().unwrap().0
}

fn barrier() -> usize {
    let (barrier, leaders) = (Barrier::new(30), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                for _ in 0..20 {
                    leaders.fetch_add(barrier.wait().is_leader().into(), SeqCst);
                }
            });
        }
    });
    leaders.into_inner() as usize
}

fn once() -> u64 {
    static ONCE: Once = Once::new();
    static CELL: OnceLock<u64> = OnceLock::new();
    static LAZY: LazyLock<u64> = LazyLock::new(calls);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    fn calls() -> u64 {
        thread::sleep(MILLI);
        CALLS.fetch_add(1, SeqCst)
    }
    thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                ONCE.call_once(|| _ = calls());
                CELL.get_or_init(calls);
                *LAZY
            });
        }
    });
    CALLS.load(SeqCst)
}

fn channels() -> u64 {
    let (sender, receiver) = mpsc::sync_channel(3);
    let (results, sums) = mpsc::channel();
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..8 {
        let (receiver, results) = (receiver.clone(), results.clone());
        thread::spawn(move || {
            let next = || receiver.lock().unwrap().recv();
            results.send(std::iter::from_fn(|| next().ok()).sum::<u64>()).unwrap();
        });
    }
    drop(results);
    let senders: Vec<_> = (0..8)
        .map(|_| {
            let sender = sender.clone();
            thread::spawn(move || (0..500).for_each(|number| sender.send(number).unwrap()))
        })
        .collect();
    drop(sender);
    senders.into_iter().for_each(|thread| thread.join().unwrap());
    sums.iter().sum()
}

fn late_message() -> [Result<(), RecvTimeoutError>; 2] {
    let (sender, receiver) = mpsc::channel::<()>();
    let late = receiver.recv_timeout(MILLI);
    drop(sender);
    [late, receiver.recv_timeout(MILLI)]
}

/// A token goes round.
fn park() -> u64 {
    const THREADS: u64 = 20;
    let token = Arc::new(AtomicU64::new(0));
    let wait = |token: &AtomicU64, mine: u64| {
        while token.load(SeqCst) % THREADS != mine {
            thread::park();
        }
    };
    let (begin, all) =
        (Arc::new(Barrier::new(THREADS as usize)), Arc::new(OnceLock::<Vec<thread::Thread>>::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|mine| {
            let (token, begin, all) = (token.clone(), begin.clone(), all.clone());
            thread::spawn(move || {
                for _ in 0..50 {
                    wait(&token, mine);
                    token.fetch_add(1, SeqCst);
                    all.wait()[((mine + 1) % THREADS) as usize].unpark();
                }
                begin.wait();
            })
        })
        .collect();
    all.set(threads.iter().map(|thread| thread.thread().clone()).collect()).unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    thread::park_timeout(MILLI);
    token.load(SeqCst)
}

fn scope() -> usize {
    let words = ["one", "two", "three"];
    thread::scope(|scope| {
        let lengths: Vec<_> = words.iter().map(|word| scope.spawn(|| word.len())).collect();
        lengths.into_iter().map(|length| length.join().unwrap()).sum()
    })
}

/// 300 threads wait in each of the ways.
fn all_at_once() {
    const EACH: usize = 100;
    let over = Arc::new((Mutex::new(false), Condvar::new()));
    let all_wait = Arc::new(Barrier::new(3 * EACH + 1));
    let (mut senders, mut threads) = (Vec::new(), Vec::new());
    for _ in 0..EACH {
        let (sender, receiver) = mpsc::channel::<()>();
        senders.push(sender);
        let [first, second, third] = [(); 3].map(|()| all_wait.clone());
        threads.push(thread::spawn(move || {
            first.wait();
            assert!(receiver.recv().is_err());
        }));
        let over = over.clone();
        threads.push(thread::spawn(move || {
            second.wait();
            drop(over.1.wait_while(over.0.lock().unwrap(), |over| !*over).unwrap());
        }));
        threads.push(thread::spawn(move || {
            third.wait();
            thread::park();
        }));
    }
    all_wait.wait();
    thread::sleep(20 * MILLI);
    crate::report_os_threads();
    drop(senders);
    *over.0.lock().unwrap() = true;
    over.1.notify_all();
    threads.iter().for_each(|thread| thread.thread().unpark());
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
