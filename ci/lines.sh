#!/usr/bin/env bash
# Counts the cache lines that move between OS threads in each operation of benches/lines/operations.rs, with 64 Ps, and compares the counts
# with benches/lines.txt. The script fails if in each of five runs an operation moves more lines, or writes lines that all Ps share more
# often. With --write the script writes the greatest counts of ten runs to that file instead; those of a loaded machine, which has more in
# `steal` and `rescue`, are added by hand. benches/README.md reads the table. Needs a nightly toolchain.
# Usage: ci/lines.sh [--write | OPTION ..]   (OPTION: of the program, such as `--procs 256`, `--places spawn`; then nothing is compared)
#
# The program is built with `-Zsanitizer=thread`, and linked with a model of caches (benches/lines/hooks) in the place of ThreadSanitizer.
# So the code of the crates is that of every build, and each access of memory in it calls the model.
#
# To see the script fail: in `spawn_alone` (sched/src/api/spawn.rs) add
#     static SPAWNS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
#     SPAWNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
# Then `spawn` moves one more line, and the script names the place.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-gnu
if [[ $(rustc -vV) != *"host: $target"* ]]; then
    echo "ci/lines.sh was NOT run: the model of caches is for $target" >&2
    exit 0
fi
ci/need-nightly.sh ci/lines.sh || exit $(($? == 3 ? 0 : 1))
folder=$(realpath -m "${CARGO_TARGET_DIR:-target}/lines")
mkdir -p "$folder"
# The model itself is not instrumented, so no flag of the program may reach it.
rustc +nightly --edition 2024 --crate-type cdylib --crate-name lines_hooks -O -C panic=abort -o "$folder/liblines_hooks.so" benches/lines/hooks/lib.rs
flags=(-Zsanitizer=thread -Zexternal-clangrt -Cunsafe-allow-abi-mismatch=sanitizer)
# Fixed addresses, and lines of all crates, for addr2line.
flags+=(-Crelocation-model=static -Cdebuginfo=line-tables-only)
flags+=("-Clink-arg=$folder/liblines_hooks.so" "-Clink-arg=-Wl,-rpath,$folder")
# With `--target` the flags do not reach build scripts and macros.
CARGO_TARGET_DIR=$folder CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f'; echo "${flags[*]}") \
    cargo +nightly build --quiet --release --target $target -p benches --bin lines
# By default glibc's malloc has few arenas on a small machine, so that values of two threads share a line.
export MALLOC_ARENA_MAX=4096
case "${1:-}" in
    "") set -- --check benches/lines.txt ;;
    --write) set -- --write benches/lines.txt --runs 10 ;;
esac
"$folder/$target/release/lines" "$@"
