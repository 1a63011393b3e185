#!/usr/bin/env bash
# Builds the documentation with warnings denied, with the features that fill the crates below `runtime`. ci/test.sh runs the doc tests.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --features monochrome/interpose,monochrome/sim
