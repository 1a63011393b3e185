#!/usr/bin/env bash
# The integration tests under AddressSanitizer. Needs a nightly toolchain; says so and does nothing where there is none.
# Left out: overflow (AddressSanitizer has its own handler of faults), memory and idle (it costs both).
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "ci/asan.sh: no nightly toolchain: AddressSanitizer was NOT run"
    exit 0
fi
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
export RUSTFLAGS="-Zsanitizer=address"
# corosensei never frees the fake stack of a finished coroutine.
export ASAN_OPTIONS="detect_stack_use_after_return=0:detect_leaks=0"
tests=$(ls tests/tests/*.rs | xargs -n1 basename | sed 's/\.rs$//' | grep -vxE 'overflow|memory|idle' | sed 's/^/--test /' | tr '\n' ' ')
# shellcheck disable=SC2086
cargo +nightly test -p tests --features sanitizer --target "$target" $tests "$@"
