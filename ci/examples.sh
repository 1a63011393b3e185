#!/usr/bin/env bash
# Runs the first `cargo run` command of README.md, then every example to its end.
set -euo pipefail
cd "$(dirname "$0")/.."
command=$(grep -m1 -E '^cargo run' README.md | sed 's/ *#.*//') || { echo "README.md has no line that begins with 'cargo run'" >&2; exit 1; }
echo "+ $command"
bash -c "$command"
# ci/features.sh runs the examples hyper, inside and spans, which need a feature.
examples=(raft $(cd examples && ls ./*.rs | sed -e 's,^\./,,' -e 's,\.rs$,,' | grep -vxE 'hyper|inside|spans'))
cargo build --quiet --release "${examples[@]/#/--example=}"
for example in "${examples[@]}"; do
    echo "+ example $example"
    "${CARGO_TARGET_DIR:-target}/release/examples/$example"
done
