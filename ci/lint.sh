#!/usr/bin/env bash
# Format and lints, warnings denied; the benches compile. Of the peers' programs only the format is checked.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
for peer in tokio may; do
    cargo fmt --manifest-path "benches/peers/$peer/Cargo.toml" --check
done
cargo clippy --workspace --all-targets -- -D warnings
