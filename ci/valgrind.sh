#!/usr/bin/env bash
# A short run under Valgrind's memcheck. Needs valgrind; says so and does nothing where there is none.
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
