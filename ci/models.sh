#!/usr/bin/env bash
# Runs the loom models of every protocol.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/models"
RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_DEBUG=0 cargo test --release --lib -p monochrome-timers -p monochrome-netpoll -p monochrome-sched -p monochrome-waits -p monochrome-runtime-models \
    -p monochrome-interpose-models
