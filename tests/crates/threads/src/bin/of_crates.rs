//! Crates as they are: rayon, crossbeam-channel and parking_lot.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, RwLock};
use rayon::prelude::*;

runtime::interpose!(threads);

const MILLI: Duration = Duration::from_millis(1);

fn with_rayon() {
    let sum: u64 = (0..100_000_u64).into_par_iter().map(|number| number % 7).sum();
    println!("sum: {sum}");
    let mut numbers: Vec<u64> = (0..50_000).map(|number| number * 7_919 % 50_021).collect();
    numbers.par_sort_unstable();
    println!("sorted: {}", numbers.is_sorted());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(50).build().unwrap();
    println!("threads of a pool: {}", pool.install(rayon::current_num_threads));
    let numbers: Vec<usize> = pool.broadcast(|context| context.index());
    println!("broadcast: {}", numbers.iter().sum::<usize>());
    let (first, second) = pool.join(|| thread::sleep(MILLI), || 5);
    println!("joined: {first:?} {second}");
}

fn with_crossbeam() {
    let (sender, receiver) = crossbeam_channel::bounded(3);
    let (results, sums) = crossbeam_channel::unbounded();
    for _ in 0..20 {
        let (sender, receiver, results) = (sender.clone(), receiver.clone(), results.clone());
        thread::spawn(move || (0..200_u64).for_each(|number| sender.send(number).unwrap()));
        thread::spawn(move || results.send(receiver.iter().sum::<u64>()).unwrap());
    }
    drop((sender, results));
    println!("messages: {}", sums.iter().sum::<u64>());
    println!("late: {:?}", crossbeam_channel::after(MILLI).recv_timeout(500 * MILLI).is_ok());
}

/// Many threads wait for a lock and a condition of parking_lot at the same time.
fn with_parking_lot() {
    const THREADS: usize = 300;
    let (shared, waiting) = (Arc::new((Mutex::new(0), Condvar::new())), Arc::new(AtomicUsize::new(0)));
    let sum = Arc::new(RwLock::new(0));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (shared, waiting, sum) = (shared.clone(), waiting.clone(), sum.clone());
            thread::spawn(move || {
                let mut turn = shared.0.lock();
                waiting.fetch_add(1, SeqCst);
                while *turn == 0 {
                    shared.1.wait(&mut turn);
                }
                *turn += 1;
                drop(turn);
                for _ in 0..10 {
                    let before = *sum.read();
                    *sum.write() += number;
                    thread::yield_now();
                    assert!(*sum.read() >= before);
                }
            })
        })
        .collect();
    while waiting.load(SeqCst) < THREADS {
        thread::sleep(MILLI);
    }
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    println!("late: {}", condvar.wait_for(&mut mutex.lock(), 10 * MILLI).timed_out());
    eprintln!("OS threads: {}", std::fs::read_dir("/proc/self/task").unwrap().count());
    *shared.0.lock() = 1;
    shared.1.notify_all();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("turns: {}, sum: {}", *shared.0.lock(), *sum.read());
}

fn main() {
    match std::env::args().nth(1).expect("the name of a program").as_str() {
        "rayon" => with_rayon(),
        "crossbeam-channel" => with_crossbeam(),
        "parking_lot" => with_parking_lot(),
        program => panic!("no program {program:?}"),
    }
}
