#!/usr/bin/env bash
# Format and lints, warnings denied; the benches compile.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo clippy --workspace --all-targets -- -D warnings
