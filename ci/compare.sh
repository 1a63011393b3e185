#!/usr/bin/env bash
# Runs this project's program on every workload of the comparison, in small sizes, and checks the results. The script does not build the
# peers' programs.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cargo run --release --bin compare -- --quick --rounds 1 --only ours --out "$out/quick"
