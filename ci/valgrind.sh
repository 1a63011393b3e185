#!/usr/bin/env bash
# Runs some examples under Valgrind's memcheck. If valgrind is not installed, prints that and exits with 0.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
    echo "ci/valgrind.sh: valgrind is not installed: memcheck was NOT run"
    exit 0
fi
cargo build --examples
for example in "hello" "timers --rounds 1 1000" "futures --count 1000"; do
    # shellcheck disable=SC2086
    valgrind --quiet --error-exitcode=9 "${CARGO_TARGET_DIR:-target}"/debug/examples/$example
done
