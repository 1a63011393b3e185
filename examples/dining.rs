//! Dining philosophers: each eats with the two forks beside it, a waiter lets all but one sit down at a time, and at the end
//! everybody has eaten as often as everybody else.
//!
//! `cargo run --release --example dining -- [PHILOSOPHERS [MEALS]]`

use std::time::{Duration, Instant};

use runtime::sync::{Condvar, Mutex, Semaphore};

/// The table: a fork between each two, and a chair less than there are philosophers, so that one can always get both forks.
struct Table {
    forks: Vec<Mutex<u64>>,
    chairs: Semaphore,
    eaten: Mutex<u64>,
    somebody_has_eaten: Condvar,
}

impl Table {
    fn for_so_many(philosophers: usize) -> Table {
        Table {
            forks: (0..philosophers).map(|_| Mutex::new(0)).collect(),
            chairs: Semaphore::new(philosophers - 1),
            eaten: Mutex::new(0),
            somebody_has_eaten: Condvar::new(),
        }
    }

    /// One meal of the philosopher at that place.
    fn eat(&self, place: usize) {
        let _chair = self.chairs.acquire().expect("the restaurant is open");
        let mut left = self.forks[place].lock();
        let mut right = self.forks[(place + 1) % self.forks.len()].lock();
        runtime::sleep(Duration::from_micros(50));
        *left += 1;
        *right += 1;
        drop((left, right));
        *self.eaten.lock() += 1;
        self.somebody_has_eaten.notify_all();
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().expect("a number"));
    let (philosophers, meals) = (args.next().unwrap_or(100usize).max(2), args.next().unwrap_or(100));
    let start = Instant::now();
    runtime::block_on(|| {
        let table = Table::for_so_many(philosophers);
        let all = (philosophers * meals) as u64;
        runtime::scope(|s| {
            for place in 0..philosophers {
                let table = &table;
                s.spawn(move || (0..meals).for_each(|_| table.eat(place)));
            }
            let mut eaten = table.eaten.lock();
            table.somebody_has_eaten.wait_while(&mut eaten, |eaten| *eaten < all);
        });
        // Each fork was used by its two neighbours, all of whose meals are over.
        assert!(table.forks.iter().all(|fork| *fork.lock() == 2 * meals as u64));
        println!("{philosophers} philosophers have had {meals} meals each, in {:?}", start.elapsed());
    });
}
