//! Code that all criterion benches share: settings with which all benches end in a few minutes, and a runtime
//! around the body.

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{Bencher, BenchmarkGroup, Criterion};

/// Returns settings for short measurements. More precision is not needed: a figure is either far from its
/// goal or near the goal.
pub(crate) fn settings() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .sample_size(30)
        .nresamples(10_000)
}

/// Measures `body` in a new runtime with `procs` Ps. `body` runs as a green thread, once for each sample.
pub(crate) fn bench(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    procs: usize,
    mut body: impl FnMut(&mut Bencher<'_>) + Send,
) {
    let runtime = runtime::Builder::new().procs(procs).build().expect("a runtime starts");
    group.bench_function(name, |b| runtime.block_on(|| body(b)));
}

/// Returns the number of Ps as text: "1 P", "2 Ps".
#[allow(dead_code, reason = "not every bench is run with several numbers of Ps")]
pub(crate) fn ps(procs: usize) -> String {
    format!("{procs} P{}", if procs == 1 { "" } else { "s" })
}
