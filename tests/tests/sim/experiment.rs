//! Within how many seeds a planted bug is found: by the bound of PCT, or by an experiment with other seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use runtime::sim::Builder;

/// The probability with which an exploration of as many seeds as predicted misses the bug.
const MISSES: f64 = 0.001;
/// The first seed of an experiment. No exploration comes that far.
const FIRST: u64 = 1_000_000;

/// Returns how many seeds find a bug if each of them finds it with the probability `share`.
pub(crate) fn seeds_for(share: f64) -> u64 {
    (MISSES.ln() / (1.0 - share).ln()).ceil().max(1.0) as u64
}

/// Returns the least probability with which a run by PCT finds a bug of that depth. The program has so many
/// green threads and steps.
pub(crate) fn bound_of_pct(threads: u64, steps: u64, depth: usize) -> f64 {
    (threads as f64 * (steps as f64).powf(depth as f64 - 1.0)).recip()
}

/// Returns the share of `runs` other seeds that find the bug of a program.
pub(crate) fn share(builder: &Builder, runs: u64, program: impl Fn() + Send + Sync) -> f64 {
    let finds = |&seed: &u64| catch_unwind(AssertUnwindSafe(|| builder.run(seed, &program))).is_err();
    (FIRST..FIRST + runs).filter(finds).count() as f64 / runs as f64
}
