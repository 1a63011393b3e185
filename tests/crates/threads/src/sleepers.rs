//! Many threads.

use std::sync::Barrier;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// 10,000 threads that sleep at the same time.
pub fn sleep() {
    const THREADS: u64 = 10_000;
    let sleep = |number| {
        thread::sleep(Duration::from_millis(100));
        number
    };
    // Small stacks, so that OS threads have room.
    let start = |number| thread::Builder::new().stack_size(32 << 10).spawn(move || sleep(number)).unwrap();
    let threads: Vec<_> = (0..THREADS).map(start).collect();
    println!("{}", threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>());
    static ALL_RUN: Barrier = Barrier::new(1_001);
    let threads: Vec<_> = (0..1_000).map(|_| thread::spawn(|| ALL_RUN.wait().is_leader())).collect();
    // All wait when all but a few can.
    thread::sleep(Duration::from_millis(100));
    crate::report_os_threads();
    let main = ALL_RUN.wait().is_leader();
    let leaders = threads.into_iter().filter(|_| true).map(|thread| thread.join().unwrap());
    println!("leaders: {}", usize::from(main) + leaders.map(usize::from).sum::<usize>());
}

/// Threads that start threads.
pub fn nest() {
    fn tree(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let branches: Vec<JoinHandle<u64>> = (0..3).map(|_| thread::spawn(move || tree(depth - 1))).collect();
        branches.into_iter().map(|branch| branch.join().unwrap()).sum()
    }
    println!("leaves: {}", tree(5));
    let detached = thread::spawn(|| drop(thread::spawn(|| thread::sleep(Duration::from_millis(1)))));
    println!("{:?}", detached.join());
}
