//! Many threads.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
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
    let leaders = threads.into_iter().map(|thread| thread.join().unwrap());
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

/// Threads that take turns by `yield_now` alone.
pub fn yields() {
    static TURN: AtomicUsize = AtomicUsize::new(0);
    let take_turns = |mine| {
        for _ in 0..50 {
            while TURN.load(SeqCst) % 3 != mine {
                thread::yield_now();
            }
            TURN.fetch_add(1, SeqCst);
        }
    };
    let threads: Vec<_> = (0..3).map(|mine| thread::spawn(move || take_turns(mine))).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    println!("turns: {}", TURN.load(SeqCst));
}

/// Threads that end, joined and detached ones, leave no memory behind.
pub fn many() {
    let pages = || -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse().unwrap()
    };
    // The pages of the most threads at the same time stay: more than there are below, also on a busy machine.
    const AT_ONCE: usize = 1_000;
    static ALL: Barrier = Barrier::new(AT_ONCE);
    thread::scope(|scope| (0..AT_ONCE).for_each(|_| drop(scope.spawn(|| ALL.wait()))));
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    let wait_for = |ended| {
        while ENDED.load(SeqCst) < ended {
            thread::yield_now();
        }
    };
    let some = |threads: usize| {
        ENDED.store(0, SeqCst);
        for number in 0..threads {
            let count = || _ = ENDED.fetch_add(1, SeqCst);
            thread::Builder::new().name("one of many".into()).spawn(count).unwrap().join().unwrap();
            drop(thread::spawn(count));
            wait_for((2 * number).saturating_sub(100));
        }
        wait_for(2 * threads);
    };
    some(2_000);
    // The smallest piece of `malloc` has 32 bytes: lost for each of the joined threads, or of the others, it
    // takes 156 pages in each round. One round may take 700 pages: the first time that a thread computes for
    // long, the runtime reads its stack, and keeps the tables of the unwinder and of the program's symbols.
    let leaves_many = (0..3).all(|_| {
        let before = pages();
        some(20_000);
        let more = pages().saturating_sub(before);
        eprintln!("more pages: {more}");
        more >= 100
    });
    println!("more pages: {}", if leaves_many { "many" } else { "few" });
}

/// Prints the memory of the page tables, in KiB, while 1,000 threads wait.
pub fn page_tables() {
    static ALL: Barrier = Barrier::new(1_001);
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    let wait = || {
        BEGUN.fetch_add(1, SeqCst);
        ALL.wait();
    };
    thread::scope(|scope| {
        (0..1_000).for_each(|_| drop(scope.spawn(wait)));
        while BEGUN.load(SeqCst) < 1_000 {
            thread::sleep(Duration::from_millis(1));
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let kib = status.lines().find_map(|line| line.strip_prefix("VmPTE:")?.split_whitespace().next());
        println!("{}", kib.unwrap());
        ALL.wait();
    });
}
