#!/usr/bin/env bash
# Random operations with conserved counters on 1, 2 and 8 Ps. Usage: ci/stress.sh [SECONDS]  (default 60, in all)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
STRESS_SECS=$((seconds / 2)) cargo test -p tests --test stress --release -- --nocapture
STRESS_SECS=$((seconds - seconds / 2)) cargo test -p tests --test stress -- --nocapture
