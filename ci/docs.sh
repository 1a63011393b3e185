#!/usr/bin/env bash
# Runs the doc tests, and builds the documentation with warnings denied.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace --doc
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
