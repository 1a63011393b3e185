#!/usr/bin/env bash
# Builds a program of all the basics (tests/builds) in many ways, runs each build, and prints a table. Part of ci/nightly.sh. A Rust that
# cannot be had fails; with BUILDS_MISSING=skip it is named and left out. Usage: ci/builds.sh [NAME ..]   (all names: ci/builds.sh --list)
set -uo pipefail
cd "$(dirname "$0")/../tests/builds"
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")/builds
export CARGO_TARGET_DIR CARGO_INCREMENTAL=0 CARGO_PROFILE_RELEASE_DEBUG=0
host=$(rustc -vV | sed -n 's/^host: //p')
# With --target, flags for the program are not those of build scripts.
out=$CARGO_TARGET_DIR/$host/release
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0

names=(as-it-is lto-fat opt-size opt-2 panic-abort cdylib no-pie static-pie jemalloc mimalloc snmalloc beta nightly)
[ "${1:-}" != --list ] || { printf '%s\n' "${names[@]}"; exit; }
[ $# = 0 ] || names=("$@")

build() { cargo ${toolchain:+"+$toolchain"} build --quiet --locked --release --target "$host" "$@"; }
# A minute is ten times what each takes.
run() { timeout 60 "$@" | tee -a "$log" | grep -q '^ok'; }
program() { build --bin basics "$@" && run "$out/basics" 300; }

# has RUST: true if that Rust can be had.
has() { rustc "+$1" --version 2>/dev/null || rustup --quiet toolchain install "$1" --profile minimal; }

# Two copies are two libraries, each with all of the runtime.
libraries() {
    build --lib --bin loader && cp "$out/libbuilds.so" "$out/libother.so" &&
        "${CC:-cc}" -O1 -Wall -Werror src/loader.c -o "$out/loader-c" -ldl -lpthread &&
        run "$out/loader" "$out/libbuilds.so" "$out/libother.so" && run "$out/loader-c" "$out/libbuilds.so" "$out/libother.so"
}

# kind_is WORDS: true if `file` says so of the program, which cargo might have built in another way.
kind_is() { readelf -hd "$out/basics" | grep -Eq "$1"; }

case_of() {
    case $1 in
        as-it-is) program ;;
        lto-fat) CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 program ;;
        opt-size) CARGO_PROFILE_RELEASE_OPT_LEVEL=s program ;;
        opt-2) CARGO_PROFILE_RELEASE_OPT_LEVEL=2 program ;;
        panic-abort) CARGO_PROFILE_RELEASE_PANIC=abort program --features panic-abort ;;
        cdylib) libraries ;;
        no-pie) RUSTFLAGS="-C relocation-model=static" program && kind_is 'Type: +EXEC' ;;
        static-pie) RUSTFLAGS="-C target-feature=+crt-static" program && kind_is 'Flags: PIE|FLAGS_1.*PIE' && ! kind_is NEEDED ;;
        jemalloc | mimalloc | snmalloc) build --bin basics --features "$1" && run "$out/basics" 3000 ;;
        beta | nightly) toolchain=$1 program ;;
        *) echo "no such build"; return 1 ;;
    esac
}

table=$(printf '%-12s %8s %10s  %s' build seconds bytes result)
for name in "${names[@]}"; do
    if [[ $name = beta || $name = nightly ]] && ! has "$name" >"$log" 2>&1; then
        if [ "${BUILDS_MISSING:-}" = skip ]; then result="NOT RUN: cannot be had"; else result=FAILED failed=1 && cat "$log"; fi
        table+=$(printf '\n%-12s %8s %10s  %s' "$name" - - "$result")
        continue
    fi
    rm -f "$out/basics"
    start=$SECONDS
    if case_of "$name" >"$log" 2>&1; then result=runs; else result=FAILED failed=1; cat "$log"; fi
    size=$(stat -c %s "$out/basics" 2>/dev/null || stat -c %s "$out/libbuilds.so" 2>/dev/null || echo -)
    table+=$(printf '\n%-12s %8s %10s  %s' "$name" $((SECONDS - start)) "$size" "$result")
    echo "ci/builds.sh: $name: $result"
done
echo "$table"
exit $failed
