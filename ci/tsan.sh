#!/usr/bin/env bash
# Runs tests of plain OS threads and green threads, and a short soak, under ThreadSanitizer. With `--cfg tsan` the runtime tells
# ThreadSanitizer of stack switches. Needs a nightly toolchain and cargo-nextest.
# Usage: ci/tsan.sh [SECONDS [FILTER ..]]   (SECONDS of soak, default 20; parts of names of integration tests, default the list below)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
filters=("${@:2}")
if [ ${#filters[@]} -eq 0 ]; then
    # The test left out counts OS threads, because slow polls need more OS threads.
    filters=(-E '(package(monochrome) and binary(plain_threads)) or (package(tests) and not test(ten_thousand_parked_polls) and (
        (binary(channel) and test(/^(select_stress|stress)::/)) or (binary(net) and test(/^tcp::/)) or (binary(inspect) and test(/^trace::/))
        or (binary(thread) and test(/^(park|polls|spawn)::/)) or (binary(sync) and test(/^(condvar|mutex|rwlock)::/))
        or (binary(time) and test(/^(sleeps|timeout)::/))))')
fi
ci/need-nightly.sh ci/tsan.sh rust-src || exit $(($? == 3 ? 0 : 1))
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export RUSTFLAGS="-Zsanitizer=thread --cfg tsan"
export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/ci/tsan.supp ${TSAN_OPTIONS:-}"
# Tests are many times slower under ThreadSanitizer.
export TESTS_HANG_SECS="${TESTS_HANG_SECS:-300}"

cargo +nightly build -Zbuild-std --target "$target" -p tests --bins
bin=$CARGO_TARGET_DIR/$target/debug
# ThreadSanitizer must report a deliberate race of green threads. It must report nothing where a lock, a channel or a join orders them.
if log=$("$bin/counter" racy 2>&1) || [[ $log != *"WARNING: ThreadSanitizer: data race"*Counter* ]]; then
    printf '%s\nci/tsan.sh: ThreadSanitizer did not report the deliberate race\n' "$log" >&2
    exit 1
fi
for case in locked sent joined; do "$bin/counter" "$case"; done
cargo +nightly nextest run -Zbuild-std --target "$target" -p monochrome -p tests --tests "${filters[@]}"
"$bin/soak" --secs "$seconds" --workers 4
