#!/usr/bin/env bash
# Runs the loom models of every protocol.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/models"
RUSTFLAGS="--cfg loom" cargo test --release --lib -p gmp-timers -p gmp-netpoll -p gmp-sched -p gmp-runtime-models
