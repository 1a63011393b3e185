//! Dining philosophers: each philosopher eats with the two forks beside its place. Each fork is a mutex.
//!
//! A semaphore has one chair less than there are philosophers, so at least one seated philosopher can get
//! both forks: no deadlock. The main body waits on a condition variable until all meals are over, and checks
//! how often each fork was used.
//!
//! `cargo run --release --example dining -- [PHILOSOPHERS [MEALS]]`

use std::time::{Duration, Instant};

use runtime::sync::{Condvar, Mutex, Semaphore};

/// A fork between each two places, and one chair less than there are philosophers.
struct Table {
    forks: Vec<Mutex<u64>>,
    chairs: Semaphore,
    eaten: Mutex<u64>,
    meal_over: Condvar,
}

impl Table {
    fn new(philosophers: usize) -> Table {
        Table {
            forks: (0..philosophers).map(|_| Mutex::new(0)).collect(),
            chairs: Semaphore::new(philosophers - 1),
            eaten: Mutex::new(0),
            meal_over: Condvar::new(),
        }
    }

    /// Eats a meal with the forks on both sides of `place`.
    fn eat(&self, place: usize) {
        let _chair = self.chairs.acquire().expect("the restaurant is open");
        let mut left = self.forks[place].lock();
        let mut right = self.forks[(place + 1) % self.forks.len()].lock();
        runtime::sleep(Duration::from_micros(50));
        *left += 1;
        *right += 1;
        drop((left, right));
        *self.eaten.lock() += 1;
        self.meal_over.notify_all();
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (philosophers, meals) = (args.next().unwrap_or(100usize).max(2), args.next().unwrap_or(100));
    let start = Instant::now();
    runtime::block_on(|| {
        let table = Table::new(philosophers);
        let all = (philosophers * meals) as u64;
        runtime::scope(|s| {
            for place in 0..philosophers {
                let table = &table;
                s.spawn(move || (0..meals).for_each(|_| table.eat(place)));
            }
            let mut eaten = table.eaten.lock();
            table.meal_over.wait_while(&mut eaten, |eaten| *eaten < all);
        });
        // Each fork was used by its two neighbours, and all their meals are over.
        assert!(table.forks.iter().all(|fork| *fork.lock() == 2 * meals as u64));
        println!("{philosophers} philosophers have had {meals} meals each, in {:?}", start.elapsed());
    });
}
