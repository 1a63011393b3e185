#!/usr/bin/env bash
# Each loom model fails when a transition of its protocol is broken on purpose: a model that cannot fail shows nothing.
# Usage: ci/models-broken.sh [NAME ..]   (default: every broken!("NAME") in the sources)
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/models"
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
    mapfile -t names < <(grep -rhoE 'broken!\("[a-z_]+"\)' --include='*.rs' timers netpoll sched | cut -d'"' -f2 | sort -u)
fi
passed=()
for name in "${names[@]}"; do
    package="gmp-$(case $name in timers_*) echo timers ;; netpoll_*) echo netpoll ;; *) echo sched ;; esac)"
    export BROKEN=$name RUSTFLAGS="--cfg loom"
    cargo build --quiet --release --lib --tests -p "$package"
    status=0
    timeout 120 cargo test --quiet --release --lib -p "$package" >/dev/null 2>&1 || status=$?
    case $status in
        0) passed+=("$name"); echo "$name: NOT noticed by any model" ;;
        124) echo "$name: timed out"; exit 1 ;;
        *) echo "$name: noticed" ;;
    esac
done
[ ${#passed[@]} -eq 0 ]
