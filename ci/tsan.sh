#!/usr/bin/env bash
# Runs tests of plain OS threads and green threads, and a short soak, under ThreadSanitizer. With `--cfg tsan` the runtime tells
# ThreadSanitizer of stack switches.
# Usage: ci/tsan.sh [SECONDS [TEST ..]]   (SECONDS of soak, default 20; integration tests, default the list below)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
tests=("${@:2}")
if [ ${#tests[@]} -eq 0 ]; then
    tests=(
        channel_select_stress channel_stress net_tcp park polls spawn sync_condvar sync_mutex sync_rwlock timeout timers trace
    )
fi
ci/need-nightly.sh ci/tsan.sh rust-src || exit $(($? == 3 ? 0 : 1))
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export RUSTFLAGS="-Zsanitizer=thread --cfg tsan"
export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/ci/tsan.supp ${TSAN_OPTIONS:-}"
# Tests are many times slower under ThreadSanitizer.
export TESTS_HANG_SECS="${TESTS_HANG_SECS:-300}"
build=(-Zbuild-std --target "$target")

test() { cargo +nightly test "${build[@]}" "$@"; }

test --no-run -p monochrome --test plain_threads -p tests "${tests[@]/#/--test=}"
bin=$CARGO_TARGET_DIR/$target/debug
# ThreadSanitizer must report a deliberate race of green threads. It must report nothing where a lock, a channel or a join orders them.
if log=$("$bin/counter" racy 2>&1) || [[ $log != *"WARNING: ThreadSanitizer: data race"*Counter* ]]; then
    printf '%s\nci/tsan.sh: ThreadSanitizer did not report the deliberate race\n' "$log" >&2
    exit 1
fi
for case in locked sent joined; do "$bin/counter" "$case"; done
# The call below leaves out a test that counts OS threads, because slow polls need more OS threads.
test -p monochrome --test plain_threads -p tests "${tests[@]/#/--test=}" -- --skip ten_thousand_parked_polls
"$bin/soak" --secs "$seconds" --workers 4
