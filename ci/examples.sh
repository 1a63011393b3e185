#!/usr/bin/env bash
# The examples run to their end, the main job as README.md gives it.
set -euo pipefail
cd "$(dirname "$0")/.."
command=$(grep -m1 -E '^cargo run' README.md | sed 's/ *#.*//') || { echo "README.md gives no main job" >&2; exit 1; }
echo "+ $command"
bash -c "$command"
for example in hello timers hog ticker futures echo; do
    echo "+ cargo run --release --example $example"
    cargo run --quiet --release --example "$example"
done
