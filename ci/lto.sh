#!/usr/bin/env bash
# Runs the tests of green threads with thread-locals of their own where the compiler inlines most: in release, as one unit, linked by fat
# LTO. Only the programs of these tests are linked so. Usage: ci/lto.sh
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 CARGO_PROFILE_RELEASE_DEBUG=0
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# Without bitcode in the libraries there is nothing to link.
program=$(RUSTFLAGS="-C embed-bitcode=yes" CARGO_TARGET_DIR=$target_dir/lto cargo rustc --release -p tests --test thread \
    --message-format=json -- -C lto=fat -C codegen-units=1 | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
ci/own-base.sh "$program"
"$program" own_locals::
rm -rf "$target_dir/lto"
CARGO_PROFILE_RELEASE_LTO=fat CARGO_TARGET_DIR=$target_dir/lto cargo test --locked --release --manifest-path tests/crates/locals/Cargo.toml
