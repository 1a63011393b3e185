#!/usr/bin/env bash
# Doc tests pass, and the documentation builds without a warning.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace --doc
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
