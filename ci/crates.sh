#!/usr/bin/env bash
# Tests well-known crates (reqwest, axum, sqlx, tonic), unchanged, on the runtime with its feature `tokio`, with real servers and clients.
# LOAD_SECONDS is the duration of each load by wrk (default 1).
set -euo pipefail
cd "$(dirname "$0")/../tests/crates"
cargo fmt --check
cargo clippy --locked --all-targets -- -D warnings
cargo test --locked
cargo run --locked --quiet --example web
