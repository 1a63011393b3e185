#!/usr/bin/env bash
# What features add: streams for async crates, hyper. The clients' tests (examples/tests/clients.rs) have the example of hyper.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy -p tests -p gmp-runtime --features tests/async-io --all-targets -- -D warnings
cargo clippy -p examples --features hyper --all-targets -- -D warnings
for feature in futures-io tokio-io hyper; do
    cargo check -p gmp-runtime --features "$feature"
done
cargo test -p gmp-runtime --features futures-io,tokio-io,hyper --doc hyper
cargo test -p tests --features async-io --test net_poll --test net_tcp --test net_async
cargo run --quiet --release -p examples --features hyper --example hyper
