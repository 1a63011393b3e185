#!/usr/bin/env bash
# Runs the checks that take too long for .ci/run. All steps run, even after a step has failed.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {
    printf '\n=== %s\n' "$*"
    "$@" || failed+=("$*")
}

step ci/models-broken.sh
step ci/miri.sh 32
step ci/tsan.sh 300
step ci/asan.sh
step ci/fuzz.sh 60
step ci/deny.sh --advisories
step ci/semver.sh
step ci/guide.sh --book
# Longer loads than the one second each of .ci/run, and an hour of the soak of `interpose`.
LOAD_SECONDS=10 SOAK_SECONDS=3600 step ci/crates.sh
step ci/simulations.sh
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
echo "all steps passed"
