#!/usr/bin/env bash
# Our program of every workload of the comparison, in small: the results are right. The peers' programs are not built here.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo run --release -p benches --bin compare -- --quick --rounds 1 --only ours --out "$out/quick"
