#!/usr/bin/env bash
# Runs all tests without optional features: each test in a process of its own, by nextest, and the doc tests. With --plain the script runs
# the `cargo test` command of README.md instead, which needs no tool, and runs many tests in one process (ci/nightly.sh).
# Usage: ci/test.sh [--plain]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --plain ]; then
    command=$(grep -m1 -E '^cargo test' README.md) || { echo "README.md has no line that begins with 'cargo test'" >&2; exit 1; }
    echo "+ $command"
    exec bash -c "$command"
fi
# Most tests sleep or wait.
cargo nextest run --workspace --test-threads $((3 * $(nproc)))
# What a green thread keeps, once more with thread-locals of its own. The nightly runs all tests so.
keeps='binary(thread) and test(/^(awaited|context_slots|context_slots_for_all|local_set|locals|polls|task_locals)::/)'
RUNTIME_THREAD_LOCALS=green cargo nextest run --workspace --test-threads $((3 * $(nproc))) -E "$keeps"
cargo test --workspace --doc
