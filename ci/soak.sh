#!/usr/bin/env bash
# Random operations of the whole API, on 1, 2 and 8 Ps: half of the time in release, half in debug. Each prints its seed.
# Usage: ci/soak.sh [SECONDS] [SETTING ..]  (default 60, in all; the settings are those of the soak)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
shift || true
cargo run --release -p tests --bin soak -- --secs $((seconds / 2)) "$@"
cargo run -p tests --bin soak -- --secs $((seconds - seconds / 2)) "$@"
