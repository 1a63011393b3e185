#!/usr/bin/env bash
# Runs Miri on tests that do not switch stacks. These are the unit tests of the crates, and the primitives on plain OS threads
# (runtime/tests/plain_threads.rs), the latter with many seeds. Usage: ci/miri.sh [SEEDS [FILTER ..]]
# Without arguments: 1 seed, under Stacked Borrows. With SEEDS (ci/nightly.sh): under Tree Borrows, too.
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-1}
ci/need-nightly.sh ci/miri.sh miri rust-src || exit $(($? == 3 ? 0 : 1))
# ci/api.sh builds there, too.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/nightly"

# The calls below leave out tests that map or protect memory, switch stacks, read the processor's counter or need a timerfd. They leave
# out the property tests of timers and those of the sampler, which are long and test safe code. They leave out all of sysmon.
miri() {
    local start=$SECONDS
    cargo +nightly miri test --quiet "$@"
    printf 'ci/miri.sh: %s: %d s\n' "$*" $((SECONDS - start))
}

# all_tests BORROWS: runs the tests under the borrow model of the flag BORROWS; under Stacked Borrows without a flag.
all_tests() {
    # Miri simulates the clock, so no test depends on the machine.
    export MIRIFLAGS="-Zmiri-strict-provenance $1 -Zmiri-env-set=PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 -Zmiri-env-set=PROPTEST_CASES=4"
    echo "ci/miri.sh: ${1:--Zmiri-stacked-borrows}, $seeds seeds"
    miri -p monochrome-timers -p monochrome-netpoll --lib -- --skip heap:: --skip properties::
    miri -p monochrome-sched --lib -- --skip stack::slab:: --skip stack::saved:: --skip stack::overflow:: --skip gate:: --skip fire:: --skip panics:: --skip threads:: --skip roaming:: --skip crowd:: --skip poll::tests:: --skip watch::memory:: --skip sampler::
    miri -p monochrome-waits --lib
    miri -p monochrome -p monochrome-inspect --lib -- --skip process::
    MIRIFLAGS="$MIRIFLAGS -Zmiri-many-seeds=0..$seeds" miri -p monochrome --test plain_threads -- "${@:2}"
}

if [ $# = 0 ]; then
    all_tests ""
    exit
fi
# Builds first, so that the two runs do not wait for each other's build. Each run of Miri uses one processor, mostly.
cargo +nightly miri test --quiet --no-run -p monochrome-timers -p monochrome-netpoll -p monochrome-sched -p monochrome-waits -p monochrome -p monochrome-inspect --lib --test plain_threads
tree=$(mktemp)
trap 'rm -f "$tree"' EXIT
all_tests -Zmiri-tree-borrows "${@:2}" >"$tree" 2>&1 &
by_tree=$!
all_tests "" "${@:2}" &
status=0
wait $! || status=$?
wait $by_tree || status=$?
cat "$tree"
exit $status
