#!/usr/bin/env bash
# Runs the first `cargo test` command of README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
command=$(grep -m1 -E '^cargo test' README.md) || { echo "README.md has no line that begins with 'cargo test'" >&2; exit 1; }
echo "+ $command"
exec bash -c "$command"
