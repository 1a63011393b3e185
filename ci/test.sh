#!/usr/bin/env bash
# Runs the first `cargo test` command of README.md: all tests without optional features, many in one process.
# ci/without-sysmon.sh and ci/features.sh run tests with nextest, each in a process of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
command=$(grep -m1 -E '^cargo test' README.md) || { echo "README.md has no line that begins with 'cargo test'" >&2; exit 1; }
echo "+ $command"
exec bash -c "$command"
