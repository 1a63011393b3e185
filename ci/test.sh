#!/usr/bin/env bash
# The test command of README.md, taken from there.
set -euo pipefail
cd "$(dirname "$0")/.."
command=$(grep -m1 -E '^cargo test' README.md) || { echo "README.md gives no test command" >&2; exit 1; }
echo "+ $command"
exec bash -c "$command"
