//! The sieve of primes as a chain of green threads: each filters out the multiples of a prime.
//!
//! Look at the time: every number passes through all filters, with a channel operation between each two green
//! threads.
//!
//! `cargo run --release --example sieve -- [PRIMES]`

use std::time::Instant;

use runtime::channel::{Receiver, bounded};

/// Starts the source: sends 2, 3, 4, ... until the receiver is dropped.
fn numbers() -> Receiver<u64> {
    let (sender, receiver) = bounded(0);
    runtime::spawn(move || (2..).try_for_each(|n| sender.send(n)));
    receiver
}

/// Starts a filter: passes on the numbers that `prime` does not divide.
fn without_multiples_of(prime: u64, numbers: Receiver<u64>) -> Receiver<u64> {
    let (sender, receiver) = bounded(0);
    runtime::spawn(move || numbers.iter().filter(|n| n % prime != 0).try_for_each(|n| sender.send(n)));
    receiver
}

fn primes(count: usize) -> Vec<u64> {
    let mut candidates = numbers();
    let mut primes = Vec::with_capacity(count);
    for _ in 0..count {
        // A number that has passed all filters so far has no smaller prime factor.
        let prime = candidates.recv().expect("there is always another number");
        primes.push(prime);
        candidates = without_multiples_of(prime, candidates);
    }
    // Dropping the last receiver ends the last filter. The receiver of that filter ends the filter before it,
    // and so on to the source.
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
