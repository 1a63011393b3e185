#!/usr/bin/env bash
# Makes long explorations: the mended programs of the simulations' tests and the example raft with many seeds. Then runs the same planted
# bugs under shuttle, madsim and turmoil (benches/peers/sim).
# Usage: ci/simulations.sh [SEEDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-100000}
SIM_SEEDS=$seeds cargo test --release -p tests --features sim --test sim -- bugs::
RAFT_SEEDS=$((seeds / 50)) cargo test --release -p examples --features sim --test raft_sim
cd benches/peers/sim
cargo build --locked --release
for tool in steps ours shuttle madsim turmoil; do
    "${CARGO_TARGET_DIR:-target}/release/$tool" 2>/dev/null
done
