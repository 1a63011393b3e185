#!/usr/bin/env bash
# Tests well-known crates, unchanged, on the runtime with its feature `tokio`, with real servers and clients. Then it tests blocking
# crates and C code with the feature `interpose`, in a package of its own. The page runtime/src/docs/crates.rs lists the crates.
# The package `locals` has crates that keep what belongs to a thread, in closures with thread-locals of their own.
# The package `threads` has programs of std and crates that run with green threads and with OS threads, and print the same. The programs of
# `benches/std-threads` run in small sizes. The tests of `runtime/preload` run programs of Debian's packages with green threads.
# The package `simulated` has programs of std's threads in simulations.
# The package `programs` has larger examples, whose tests run them with PostgreSQL and Redis.
# Programs of random operations run with green threads and with OS threads (`ci/threads-soak.sh`).
# The soak of `interpose` performs random operations of std on green threads, for SOAK_SECONDS (default 24).
# LOAD_SECONDS is the duration of each load by wrk, h2load and tonic (default 1; there are eleven of them). Needs cargo-nextest.
# Usage: ci/crates.sh [--build]   (--build builds the tests only)
set -euo pipefail
cd "$(dirname "$0")/../tests/crates"
# One build: a feature of the runtime alone changes no result of a program.
if [ "${1:-}" = --build ]; then
    cargo test --locked --no-run --workspace
    cargo build --locked --lib -p monochrome-preload
    exit
fi
[ $# = 0 ] || { echo "usage: ci/crates.sh [--build]" >&2; exit 2; }
# Most tests wait for servers and clients. `tests/crates/.cargo/config.toml` switches tokio's reactor on, with which no deadlock is found: what
# has no futures runs without it.
tests() { EXAMPLES_BUILT=true cargo nextest run --locked --workspace --test-threads $((3 * $(nproc))) -E "$@"; }
futures='package(crates) or package(locals) or package(programs)'
tests "$futures"
RUNTIME_TOKIO=off tests "not ($futures)"
# The calls above have built these. `cargo run` would choose other features for their dependencies.
built=${CARGO_TARGET_DIR:-target}/debug
"$built/examples/web"
"$built/examples/crawler"
# The soak of ci/nightly.sh lasts an hour.
"$built/soak" "${SOAK_SECONDS:-24}"
"$PWD/../../ci/threads-soak.sh" 5
