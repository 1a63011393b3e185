#!/usr/bin/env bash
# Runs the checks that take too long for .ci/run. All steps run, even after a step has failed. At the end the script prints the time of
# each step, and the disk space that was left after it. Usage: ci/nightly.sh [--short]   (--short: minutes instead of hours, to try the
# script itself)
set -euo pipefail
cd "$(dirname "$0")/.."
ci/setup.sh
export CARGO_INCREMENTAL=0

if [ "${1:-}" = --short ]; then
    models=(--sample) seeds=4 soak=60 fuzz=5 simulations=1000 load=2 interpose=60 stress=1
else
    models=() seeds=32 soak=1200 fuzz=60 simulations=100000 load=10 interpose=3600 stress=20
fi

failed=()
times=()
# step FOLDER COMMAND ..: runs a step, and removes the folder that it has built in.
step() {
    local start=$SECONDS folder=$1 line
    shift
    printf '\n=== %s\n' "$*"
    "$@" || failed+=("$*")
    line=$(printf '%5d s  %6s MB free  %s' $((SECONDS - start)) "$(df -Pm . | awk 'NR == 2 { print $4 }')" "$*")
    echo "=== $line"
    times+=("$line")
    rm -rf "$folder"
}

step target/debug ci/test.sh --plain
step target/models ci/models-broken.sh "${models[@]}"
step target/nightly ci/miri.sh $seeds
step target/tsan ci/tsan.sh $((soak / 4))
step target/asan ci/asan.sh
step target/fuzz ci/fuzz.sh $fuzz
step target/debug ci/lint.sh --each
step target/features ci/features.sh --optimised
# What the pages call sound, where the compiler inlines most.
step target/lto env CARGO_TARGET_DIR=target/lto CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
    cargo nextest run --release -p tests --test thread -E 'test(/^own_locals::/)'
step target/lto env CARGO_TARGET_DIR=target/lto CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
    cargo test --locked --release --manifest-path tests/crates/locals/Cargo.toml
step target/glibc ci/glibc.sh
step target/stress ci/stress.sh $stress
step target/soak ci/soak.sh $soak
step target/tools/deny ci/deny.sh --advisories
step target/tools/semver ci/semver.sh
step target/guide ci/guide.sh --book
# Longer loads than the one second each of .ci/run, and an hour of the soak of `interpose`.
export LOAD_SECONDS=$load SOAK_SECONDS=$interpose
step target/crates ci/crates.sh --build
step tests/crates/target ci/crates.sh
step benches/peers/sim/target ci/simulations.sh $simulations
printf '\n%s\n' "${times[@]}"
if [ ${#failed[@]} -gt 0 ]; then
    printf 'failed: %s\n' "${failed[@]}"
    exit 1
fi
echo "all steps passed in $SECONDS s"
