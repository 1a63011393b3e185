#!/usr/bin/env bash
# Checks the licences, the sources and the versions of all dependencies against deny.toml, and with --advisories also whether a known
# weakness is reported for a version in Cargo.lock, which needs the network. Installs cargo-deny into the target directory.
# Usage: ci/deny.sh [--advisories]
set -euo pipefail
cd "$(dirname "$0")/.."
checks=(licenses bans sources)
[ "${1:-}" = --advisories ] && checks+=(advisories)
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# A debug build: it is built in a third of the time, and runs for a second.
cargo install --quiet --locked --debug --root "$target_dir/tools" --version 0.20.2 cargo-deny
"$target_dir/tools/bin/cargo-deny" check "${checks[@]}"
