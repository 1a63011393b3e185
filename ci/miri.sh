#!/usr/bin/env bash
# Miri over all that does not switch stacks: the crates' own tests, and everything that waits on plain OS threads
# (runtime/tests/plain_threads.rs), with many seeds, under Stacked Borrows and under Tree Borrows.
# Usage: ci/miri.sh [SEEDS [FILTER ..]]   (default: 3 seeds of each borrow model; a nightly run takes more)
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-3}
ci/need-nightly.sh ci/miri.sh miri rust-src || exit $(($? == 3 ? 0 : 1))
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/miri"

# Left out: tests that map or protect memory, switch stacks, read the processor's counter or need a timerfd, properties of timers,
# whose tests are long and whose code is safe, and all of sysmon.
miri() {
    local start=$SECONDS
    cargo +nightly miri test --quiet "$@"
    printf 'ci/miri.sh: %s: %d s\n' "$*" $((SECONDS - start))
}
for borrows in "" -Zmiri-tree-borrows; do
    # Time is Miri's own, so no test depends on the machine.
    export MIRIFLAGS="-Zmiri-strict-provenance $borrows -Zmiri-env-set=PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 -Zmiri-env-set=PROPTEST_CASES=4"
    echo "ci/miri.sh: ${borrows:--Zmiri-stacked-borrows}, $seeds seeds"
    miri -p gmp-timers -p gmp-netpoll --lib -- --skip heap:: --skip a_sweep_in_portions
    miri -p gmp-sched --lib -- --skip stack:: --skip gate:: --skip panics:: --skip threads::
    miri -p gmp-runtime --lib
    MIRIFLAGS="$MIRIFLAGS -Zmiri-many-seeds=0..$seeds" miri -p gmp-runtime --test plain_threads -- "${@:2}"
done
