#!/usr/bin/env bash
# Runs a program of std's threads in turns, with green threads on 1, 2 and 4 Ps and with OS threads, from seed to seed, and compares what it
# prints (`tests/crates/threads/src/bin/soak.rs`). Stops at the first difference, failure or hang, and says with which seed.
# Usage: ci/threads-soak.sh [SECONDS] [FIRST SEED]   (default: 10 seconds, a seed by the clock)
set -euo pipefail
cd "$(dirname "$0")/../tests/crates"
seconds=${1:-10} seed=${2:-$(date +%s)}
cargo build --locked -p threads --bin threads-soak
program=${CARGO_TARGET_DIR:-target}/debug/threads-soak
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# run MODE PS: leaves what the program prints in a file of the folder.
run() {
    RUNTIME_THREADS=$1 RUNTIME_PROCS=$2 timeout -s ABRT 100 "$program" "$seed" 60 >"$folder/$1" 2>"$folder/errors" && return
    echo "ci/threads-soak.sh: seed $seed fails with RUNTIME_THREADS=$1 RUNTIME_PROCS=$2:"
    cat "$folder/errors"
    exit 1
}

runs=0
until [ "$SECONDS" -ge "$seconds" ] && [ $runs -gt 0 ]; do
    run os 1
    for procs in 1 2 4; do
        run green $procs
        diff "$folder/os" "$folder/green" || { echo "ci/threads-soak.sh: seed $seed, $procs Ps: other results"; exit 1; }
    done
    runs=$((runs + 1)) seed=$((seed + 1))
done
echo "ci/threads-soak.sh: $runs seeds, each with 60 operations on 1, 2 and 4 Ps and on OS threads: the same results (the last seed is $((seed - 1)))"
