#!/usr/bin/env bash
# Runs the loom models of every protocol, with at most PREEMPTIONS involuntary switches of threads in each run (default 2). With --all the
# models explore what they say, which takes minutes for some of them: part of ci/nightly.sh. After a change of a protocol run its models with --all.
# Usage: ci/models.sh [--all | PREEMPTIONS]
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/models"
[ "${1:-}" = --all ] || export LOOM_MAX_PREEMPTIONS=${1:-2}
RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_DEBUG=0 cargo test --release --lib -p monochrome-timers -p monochrome-netpoll -p monochrome-sched -p monochrome-waits -p monochrome-runtime-models \
    -p monochrome-interpose-models
