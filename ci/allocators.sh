#!/usr/bin/env bash
# Runs the soak with another `malloc` in the place of glibc's, which Rust's default allocator calls: jemalloc, mimalloc, tcmalloc. A green
# thread may be interrupted, or move to another OS thread, at any call; these libraries keep stores for each OS thread. ci/builds.sh has
# allocators that the program itself names. Needs packages of ci/setup.sh; part of ci/nightly.sh.
# Usage: ci/allocators.sh [SECONDS] [SETTING ..]   (SECONDS in all, default 180; the settings are options of the soak)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=$((${1:-180} / 3))
shift || true
cargo build --release --workspace --bin soak
soak=${CARGO_TARGET_DIR:-target}/release/soak
for name in jemalloc.so.2 mimalloc.so.2 tcmalloc_minimal.so.4; do
    library=/usr/lib/x86_64-linux-gnu/lib$name
    [ -e "$library" ] || { echo "ci/allocators.sh: $library is missing; ci/setup.sh installs it" >&2; exit 1; }
    echo "+ soak, malloc of $library"
    # The program must have the library, or glibc's own `malloc` would be run once more.
    LD_PRELOAD=$library LD_TRACE_LOADED_OBJECTS=1 "$soak" | grep "$library"
    LD_PRELOAD=$library "$soak" --secs "$seconds" "$@"
done
