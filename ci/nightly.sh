#!/usr/bin/env bash
# What takes too long for .ci/run: each a step of its own, and all run although one fails.
set -euo pipefail
cd "$(dirname "$0")/.."

failed=()
step() {
    printf '\n=== %s\n' "$*"
    "$@" || failed+=("$*")
}

step ci/miri.sh 32
step ci/tsan.sh 300
step ci/asan.sh
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
echo "all steps passed"
