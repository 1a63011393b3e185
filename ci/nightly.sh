#!/usr/bin/env bash
# Runs the checks that take too long for .ci/run, in two lanes side by side: one runs the tests, the soaks and the servers, the other
# builds, explores models and interprets, and so is the load beside which the tests of the first must pass. All steps run, even after a
# step has failed. At the end the script prints the time of each step, and the disk space that was left after it.
# Usage: ci/nightly.sh [--short]   (less than two hours on two processors; --short: half an hour, to try the script itself)
set -euo pipefail
cd "$(dirname "$0")/.."
ci/setup.sh
export CARGO_INCREMENTAL=0 CARGO_TERM_COLOR=never

if [ "${1:-}" = --short ]; then
    models=(--sample) seeds=1 soak=60 fuzz=5 simulations=1000 load=1 interpose=60 stress=1 suites=1
else
    models=() seeds=8 soak=600 fuzz=30 simulations=20000 load=5 interpose=600 stress=4 suites=4
fi

logs=$(mktemp -d)
trap 'kill "${computing:-}" 2>/dev/null || true; rm -rf "$logs"' EXIT

# step FOLDER COMMAND ..: runs a step of a lane, and removes the folder that it has built in.
step() {
    local start=$SECONDS folder=$1 failed="" line
    shift
    printf '\n=== %s\n' "$*"
    "$@" || failed=" FAILED"
    line=$(printf '%5d s  %6s MB free  %s' $((SECONDS - start)) "$(df -Pm . | awk 'NR == 2 { print $4 }')" "$*$failed")
    echo "=== $line"
    echo "$line" >>"$logs/times"
    rm -rf "$folder"
}

running() {
    step target/none ci/test.sh --plain
    step target/none ci/stress.sh $stress
    step target/none env RUNTIME_THREAD_LOCALS=green cargo nextest run -p tests --tests
    step target/debug ci/soak.sh $soak
    step target/none ci/allocators.sh $soak
    step target/release ci/simulations.sh $simulations
    # Longer loads than the one second each of .ci/run, and a long soak of `interpose`.
    export LOAD_SECONDS=$load SOAK_SECONDS=$interpose
    step target/none ci/crates.sh
    step target/none ci/threads-soak.sh $interpose
    step tests/crates/target ci/suites.sh --times $suites
}

computing() {
    export CARGO_TARGET_DIR=$PWD/target/computing
    step "$CARGO_TARGET_DIR/none" ci/models.sh --all
    step "$CARGO_TARGET_DIR" ci/models-broken.sh "${models[@]}"
    step "$CARGO_TARGET_DIR" ci/miri.sh $seeds
    step "$CARGO_TARGET_DIR" ci/tsan.sh $((soak / 4))
    step "$CARGO_TARGET_DIR" ci/asan.sh
    step "$CARGO_TARGET_DIR" ci/fuzz.sh $fuzz
    step "$CARGO_TARGET_DIR" ci/lint.sh --each
    step "$CARGO_TARGET_DIR" ci/features.sh --optimised
    step "$CARGO_TARGET_DIR" ci/lto.sh
    step "$CARGO_TARGET_DIR" ci/builds.sh
    step "$CARGO_TARGET_DIR" ci/aarch64.sh --all
    step "$CARGO_TARGET_DIR" ci/aarch64.sh --musl --all
    for kind in musl i686 portable kqueue; do
        step "$CARGO_TARGET_DIR" ci/elsewhere.sh $kind --all
    done
    step "$CARGO_TARGET_DIR" ci/cross.sh --all
    step "$CARGO_TARGET_DIR" ci/glibc.sh
    step "$CARGO_TARGET_DIR" ci/kernels.sh
    step "$CARGO_TARGET_DIR" ci/deny.sh --advisories
    step "$CARGO_TARGET_DIR" ci/semver.sh
    step "$CARGO_TARGET_DIR" ci/guide.sh --book
}

computing >"$logs/computing" 2>&1 &
computing=$!
running
wait $computing
printf '\n=== side by side\n'
cat "$logs/computing"
printf '\n'
cat "$logs/times"
if grep -q 'FAILED$' "$logs/times"; then
    echo "ci/nightly.sh: steps failed, see above"
    exit 1
fi
echo "all steps passed in $SECONDS s"
