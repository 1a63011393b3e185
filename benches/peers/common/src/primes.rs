//! Computes the expected result of `sieve` in another way.

/// Returns the `n`-th prime (2 is the first). Panics if that prime is above `limit`.
pub fn nth(n: usize, limit: u64) -> u64 {
    let mut composite = vec![false; limit as usize + 1];
    let mut found = 0;
    for i in 2..composite.len() {
        if composite[i] {
            continue;
        }
        found += 1;
        if found == n {
            return i as u64;
        }
        for multiple in (i * i..composite.len()).step_by(i) {
            composite[multiple] = true;
        }
    }
    panic!("there are only {found} primes up to {limit}, not {n}");
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_prime_of_the_definition() {
        assert_eq!(super::nth(2_000, 17_389), 17_389);
        assert_eq!(super::nth(1, 10), 2);
    }
}
