//! The sieve of primes as a chain of green threads: each keeps one prime, and passes on what that does not divide.
//!
//! `cargo run --release --example sieve -- [PRIMES]`

use std::time::Instant;

use runtime::channel::{Receiver, bounded};

/// 2, 3, 4, ... for as long as somebody wants them.
fn numbers() -> Receiver<u64> {
    let (sender, receiver) = bounded(0);
    runtime::spawn(move || (2..).try_for_each(|n| sender.send(n)));
    receiver
}

/// Those that `prime` does not divide.
fn without_multiples_of(prime: u64, numbers: Receiver<u64>) -> Receiver<u64> {
    let (sender, receiver) = bounded(0);
    runtime::spawn(move || numbers.iter().filter(|n| n % prime != 0).try_for_each(|n| sender.send(n)));
    receiver
}

fn primes(count: usize) -> Vec<u64> {
    let mut candidates = numbers();
    let mut primes = Vec::with_capacity(count);
    for _ in 0..count {
        // What comes through all the filters so far is divided by no smaller prime.
        let prime = candidates.recv().expect("there is always another number");
        primes.push(prime);
        candidates = without_multiples_of(prime, candidates);
    }
    // The last receiver goes, so the last filter's send fails and it ends, and so does the one before it, up to the numbers.
    primes
}

fn main() {
    let count = std::env::args().nth(1).map_or(1000, |arg| arg.parse().expect("a number of primes"));
    let start = Instant::now();
    let primes = runtime::block_on(|| primes(count));
    let wall = start.elapsed();
    for (i, &prime) in primes.iter().enumerate() {
        assert!(primes[..i].iter().take_while(|&p| p * p <= prime).all(|p| prime % p != 0), "{prime}");
    }
    let shown = &primes[primes.len().saturating_sub(8)..];
    println!("{count} primes through {count} green threads in {wall:?}; the last are {shown:?}");
}
