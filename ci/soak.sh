#!/usr/bin/env bash
# Performs random operations of the whole API, on 1, 2 and 8 Ps. A third of the time each goes to release, to release without sysmon, and
# to debug. sysmon would hide a lost wake-up. Each run prints its seed.
# Usage: ci/soak.sh [SECONDS] [SETTING ..]  (SECONDS in all, default 60; the settings are options of the soak)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$((${1:-60} / 3))
shift || true
# `--workspace` takes the build of the other steps.
cargo build --release --workspace --bin soak
cargo build --workspace --bin soak
built=${CARGO_TARGET_DIR:-target}
"$built/release/soak" --secs $seconds "$@"
"$built/release/soak" --secs $seconds --sysmon off "$@"
"$built/debug/soak" --secs $seconds "$@"
