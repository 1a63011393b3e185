#!/usr/bin/env bash
# Tests well-known crates, unchanged, on the runtime with its feature `tokio`, with real servers and clients. Then it tests blocking
# crates and C code with the feature `interpose`, in a package of its own. The page runtime/src/docs/crates.rs lists the crates.
# The package `programs` has larger examples, whose tests run them with PostgreSQL and Redis.
# The soak of `interpose` performs random operations of std on green threads, for SOAK_SECONDS (default 24).
# LOAD_SECONDS is the duration of each load by wrk, h2load and tonic (default 1; there are eleven of them).
set -euo pipefail
cd "$(dirname "$0")/../tests/crates"
cargo fmt --all --check
for package in crates interpose programs; do
    cargo clippy --locked -p "$package" --all-targets -- -D warnings
    cargo test --locked -p "$package"
done
cargo run --locked --quiet -p crates --example web
# The soak of ci/nightly.sh lasts an hour.
cargo run --locked --quiet -p interpose --bin soak -- "${SOAK_SECONDS:-24}"
cargo run --locked --quiet -p programs --example crawler
