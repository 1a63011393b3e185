#!/usr/bin/env bash
# The examples run to their end, the main job as README.md gives it.
set -euo pipefail
cd "$(dirname "$0")/.."
command=$(grep -m1 -E '^cargo run' README.md | sed 's/ *#.*//') || { echo "README.md gives no main job" >&2; exit 1; }
echo "+ $command"
bash -c "$command"
# hyper needs a feature: ci/features.sh runs it.
for example in $(cd examples && ls ./*.rs | sed -e 's,^\./,,' -e 's,\.rs$,,' | grep -vx hyper); do
    echo "+ cargo run --release --example $example"
    cargo run --quiet --release --example "$example"
done
