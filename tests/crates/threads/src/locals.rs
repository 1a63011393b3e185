//! Thread-locals: each thread has its own, and their destructors have run when `join` returns.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

static DROPPED: AtomicUsize = AtomicUsize::new(0);

struct Counts(usize);

impl Drop for Counts {
    fn drop(&mut self) {
        // Others run, and see that this is not over.
        thread::sleep(Duration::from_millis(1));
        DROPPED.fetch_add(self.0, SeqCst);
    }
}

thread_local! {
    static COUNTS: RefCell<Vec<Counts>> = const { RefCell::new(Vec::new()) };
    static NUMBER: Cell<usize> = const { Cell::new(7) };
}

pub fn run() {
    for round in 1..=20 {
        let before = DROPPED.load(SeqCst);
        let threads: Vec<_> = (0..50).map(|number| thread::spawn(move || of_a_thread(number))).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(DROPPED.load(SeqCst) - before, 50, "in round {round}");
    }
    thread::scope(|scope| {
        let thread = scope.spawn(|| of_a_thread(1));
        thread.join().unwrap();
        println!("dropped {}", DROPPED.load(SeqCst));
    });
    println!("main has {}", NUMBER.get());
}

fn of_a_thread(number: usize) {
    assert_eq!(NUMBER.replace(number), 7, "another thread's value");
    COUNTS.with_borrow_mut(|counts| counts.push(Counts(1)));
    let id = thread::current().id();
    for _ in 0..5 {
        thread::sleep(Duration::from_micros(100));
        thread::yield_now();
        assert_eq!(NUMBER.get(), number);
        assert_eq!(COUNTS.with_borrow(Vec::len), 1);
        assert_eq!(thread::current().id(), id);
    }
}
