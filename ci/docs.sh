#!/usr/bin/env bash
# Builds the documentation with warnings denied. ci/test.sh runs the doc tests.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
