#!/usr/bin/env bash
# Makes long explorations: the mended programs of the simulations' tests and the example raft with many seeds.
# Usage: ci/simulations.sh [SEEDS]
set -euo pipefail
cd "$(dirname "$0")/.."
seeds=${1:-100000}
SIM_SEEDS=$seeds cargo test --release -p tests --features sim --test sim -- bugs::
RAFT_SEEDS=$((seeds / 50)) cargo test --release -p examples --features sim --test raft_sim
