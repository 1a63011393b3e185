#!/usr/bin/env bash
# Checks the format, and runs clippy with warnings denied, on all targets. For the peers' programs the script checks only the format.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
for peer in tokio may; do
    cargo fmt --manifest-path "benches/peers/$peer/Cargo.toml" --check
done
cargo fmt --manifest-path examples/fuzz/Cargo.toml --check
cargo clippy --workspace --all-targets -- -D warnings
