//! Ten green threads say hello, and `main` waits for them.

use std::time::Duration;

fn main() {
    runtime::block_on(|| {
        let threads: Vec<_> = (0..10u64)
            .map(|i| {
                runtime::spawn(move || {
                    runtime::sleep(Duration::from_millis(10 * (10 - i)));
                    println!("hello from green thread {i}");
                    i
                })
            })
            .collect();
        let sum: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        println!("all have ended; the sum of what they returned is {sum}");
    });
}
