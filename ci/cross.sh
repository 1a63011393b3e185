#!/usr/bin/env bash
# The runtime compiles, without warnings, for systems on which it was not run. A target whose std cannot be had here is named
# and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/cross"
export RUSTFLAGS="-D warnings"
for target in x86_64-pc-windows-gnu x86_64-apple-darwin x86_64-unknown-freebsd aarch64-unknown-linux-gnu; do
    if ! rustup --quiet target add "$target"; then
        echo "$target: its std cannot be had; not checked"
        continue
    fi
    cargo check --quiet -p gmp-runtime --target "$target"
    echo "$target: compiles"
done
