#!/usr/bin/env bash
# Runs all integration tests many times beside four processes that compute. A test that assumes speed fails here. Not part of .ci/run.
# Needs cargo-nextest. Usage: ci/stress.sh [TIMES [ARGUMENT ..]]   (default 20; the arguments are those of `cargo nextest run`)
set -euo pipefail
cd "$(dirname "$0")/.."
times=${1:-20}
shift || true
burners=()
trap 'kill "${burners[@]}" 2>/dev/null || true' EXIT
cargo nextest run -p tests --tests --no-run
for _ in 1 2 3 4; do yes >/dev/null & burners+=($!); done
failed=0
for ((run = 1; run <= times; run++)); do
    echo "ci/stress.sh: run $run of $times"
    cargo nextest run -p tests --tests --test-threads $((4 * $(nproc))) "$@" || failed=$((failed + 1))
done
echo "ci/stress.sh: $failed of $times runs failed"
[ $failed = 0 ]
