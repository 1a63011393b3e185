#!/usr/bin/env bash
# Fuzzes the parsers of the examples with libFuzzer, each for SECONDS (default 60). Needs a nightly toolchain, and installs cargo-fuzz.
# An input that breaks a property is kept in examples/fuzz/artifacts. Usage: ci/fuzz.sh [SECONDS [TARGET ..]]
set -euo pipefail
cd "$(dirname "$0")/.."
ci/need-nightly.sh ci/fuzz.sh || exit $(($? == 3 ? 0 : 1))
seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(http resp line websocket)
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
tools=$(ci/tool.sh cargo-fuzz 0.13.2)
export PATH="$tools:$PATH" CARGO_TARGET_DIR="$target_dir/fuzz"
for name in "${targets[@]}"; do
    echo "+ fuzz $name for $seconds s"
    corpus="$target_dir/fuzz/corpus/$name"
    mkdir -p "$corpus"
    # The first folder gets the inputs that reach new code; the second has the seeds.
    cargo +nightly fuzz run --fuzz-dir examples/fuzz "$name" "$corpus" "examples/fuzz/seeds/$name" -- \
        -max_total_time="$seconds" -max_len=4096 -malloc_limit_mb=64 -verbosity=0 -print_funcs=0
done
