#!/usr/bin/env bash
# Tests well-known crates (reqwest, axum, sqlx, tonic), unchanged, on the runtime with its feature `tokio`, with real servers and clients.
# Then it tests blocking clients and C code (ureq, redis, libpq, libcurl) with the feature `interpose`, in a package of its own.
# LOAD_SECONDS is the duration of each load by wrk (default 1).
set -euo pipefail
cd "$(dirname "$0")/../tests/crates"
cargo fmt --all --check
for package in crates interpose; do
    cargo clippy --locked -p "$package" --all-targets -- -D warnings
    cargo test --locked -p "$package"
done
cargo run --locked --quiet -p crates --example web
