#!/usr/bin/env bash
# Runs integration tests many times. Runs alternate between debug and release. Every other pair of runs has computing processes beside
# it. Not part of .ci/run. Usage: [FEATURES=LIST] ci/loop.sh TIMES PROGRAM [FILTER ..]   (examples: ci/loop.sh 200 thread cancel::;
# FEATURES=sim ci/loop.sh 100 sim net::). PROGRAM is a folder of tests/tests, FILTER a part of a test's name.
set -euo pipefail
cd "$(dirname "$0")/../tests"
times=$1
test=$2
shift 2

# Builds the test program, and prints its path.
program() {
    cargo test --quiet --no-run --message-format=json --features "${FEATURES:-}" --test "$test" "$@" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

burners=()
stop_burners() {
    [ ${#burners[@]} -eq 0 ] || kill "${burners[@]}" 2>/dev/null || true
    burners=()
}
trap stop_burners EXIT

failed=0
programs=("$(program)" "$(program --release)")
for ((run = 0; run < times; run++)); do
    if ((run % 4 == 2)); then
        for ((i = 0; i < $(nproc); i++)); do yes >/dev/null & burners+=($!); done
    fi
    log="${TMPDIR:-/tmp}/loop-$test-$run.log"
    if "${programs[run % 2]}" --quiet --test-threads=2 "$@" </dev/null >"$log" 2>&1; then
        rm -f "$log"
    else
        failed=1
        echo "$test, run $run, failed: $log"
    fi
    if ((run % 4 == 3)); then stop_burners; fi
done
echo "$test: $times times"
exit $failed
