#!/usr/bin/env bash
# Plain OS threads, green threads and some soak under ThreadSanitizer, which is told of stack switches (`--cfg tsan`).
# Usage: ci/tsan.sh [SECONDS [TEST ..]]   (of soak, default 20; integration tests, default all of the list below)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
tests=("${@:2}")
if [ ${#tests[@]} -eq 0 ]; then
    tests=(
        channel_select_stress channel_stress net_tcp park polls spawn sync_condvar sync_mutex sync_rwlock timeout timers
    )
fi
ci/need-nightly.sh ci/tsan.sh rust-src || exit $(($? == 3 ? 0 : 1))
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export RUSTFLAGS="-Zsanitizer=thread --cfg tsan"
export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/ci/tsan.supp ${TSAN_OPTIONS:-}"
# It is many times slower.
export TESTS_HANG_SECS="${TESTS_HANG_SECS:-300}"
build=(-Zbuild-std --target "$target")

test() { cargo +nightly test "${build[@]}" "$@"; }

test --no-run -p gmp-runtime --test plain_threads -p tests "${tests[@]/#/--test=}"
bin=$CARGO_TARGET_DIR/$target/debug
# ThreadSanitizer must report a race of green threads, and must see what orders them.
if log=$("$bin/counter" racy 2>&1) || [[ $log != *"WARNING: ThreadSanitizer: data race"*Counter* ]]; then
    printf '%s\nci/tsan.sh: the race on purpose was not reported\n' "$log" >&2
    exit 1
fi
for case in locked sent joined; do "$bin/counter" "$case"; done
# Left out: a test that counts OS threads, of which slow polls take more.
test -p gmp-runtime --test plain_threads -p tests "${tests[@]/#/--test=}" -- --skip ten_thousand_that_park
"$bin/soak" --secs "$seconds" --workers 4
