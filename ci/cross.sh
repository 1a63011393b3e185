#!/usr/bin/env bash
# Compiles the runtime, without warnings, without its default features, and for systems on which the runtime was not run. If a target
# cannot be installed here, the script fails. With CROSS_MISSING=skip the script prints the name of that target and leaves it out.
# With --all also with all features, and for processors and systems that are rarer; it links the tests and
# examples for macOS and FreeBSD (ci/zig.sh), and checks the message for a system that is refused.
# ci/elsewhere.sh runs tests with musl and with 32 bits.
# Usage: ci/cross.sh [--all]
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/cross
export CARGO_TARGET_DIR
export RUSTFLAGS="-D warnings"

# can_be_had TARGET COMMAND ..: true if COMMAND succeeds, which installs or checks a requirement of TARGET.
can_be_had() {
    local target=$1
    shift
    if "$@"; then return 0; fi
    if [ "${CROSS_MISSING:-}" = skip ]; then
        echo "$target: cannot be installed here ($*); NOT CHECKED"
        return 1
    fi
    echo "$target: cannot be installed here ($*); CROSS_MISSING=skip leaves this target out" >&2
    exit 1
}

cargo check --quiet -p monochrome --no-default-features

targets=()
for target in x86_64-pc-windows-gnu x86_64-apple-darwin x86_64-unknown-freebsd aarch64-unknown-linux-gnu; do
    can_be_had "$target" rustup --quiet target add "$target" && targets+=(--target "$target")
done
all=${1:-}
# is_had TARGET: true if TARGET is installed.
is_had() { [[ "${targets[*]}" = *$1* ]]; }

# The hooks of libc have code for this processor.
if is_had aarch64-unknown-linux-gnu; then
    cargo check --quiet -p monochrome --features interpose --target aarch64-unknown-linux-gnu
    echo "aarch64-unknown-linux-gnu: compiles with the feature interpose"
fi
# The tests too, without warnings, where the system has what they use. Left out: examples and benches, of which dependencies need a C compiler
# for these systems. FreeBSD's tests have little that macOS's have not.
systems=(x86_64-pc-windows-gnu x86_64-apple-darwin)
if [ "$all" = --all ]; then
    systems+=(x86_64-unknown-freebsd)
elif is_had x86_64-unknown-freebsd; then
    cargo check --quiet -p monochrome --target x86_64-unknown-freebsd
    echo "x86_64-unknown-freebsd: compiles"
fi
others=()
for target in "${systems[@]}"; do
    ! is_had "$target" || others+=(--target "$target")
done
if [ ${#others[@]} != 0 ]; then
    cargo check --quiet --all-targets "${others[@]}" -p tests -p monochrome-sched -p monochrome-waits -p monochrome-netpoll -p monochrome-sysmon -p monochrome-timers
    echo "${others[*]}: the tests compile"
fi

[ "$all" = --all ] || exit 0
# One call, so that the targets compile at the same time.
cargo check --quiet -p monochrome "${targets[@]}"
echo "${targets[*]}: compile"
# Where a feature has no effect, it compiles all the same. `panic-abort` is for other settings of cargo.
features=$(sed -n '/^\[features\]/,/^\[lints\]/s/^\([a-z-]*\) = .*/\1/p' runtime/Cargo.toml | grep -vxE 'default|panic-abort' | paste -sd,)
cargo check --quiet -p monochrome --features "$features" "${targets[@]}"
echo "${targets[*]}: compile with $features"
rarer=()
for target in riscv64gc-unknown-linux-gnu aarch64-linux-android aarch64-apple-darwin; do
    can_be_had "$target" rustup --quiet target add "$target" && rarer+=(--target "$target")
done
if [ ${#rarer[@]} != 0 ]; then
    cargo check --quiet -p monochrome "${rarer[@]}"
    echo "${rarer[*]}: compile"
fi
# macOS's linker wants its SDK, and rustc warns that there is none. zig has the names that are needed of it.
for target in x86_64-apple-darwin aarch64-apple-darwin x86_64-unknown-freebsd; do
    is_had "$target" || [[ "${rarer[*]}" = *$target* ]] || continue
    RUSTFLAGS="" CARGO_PROFILE_DEV_DEBUG=0 ci/zig.sh --quiet --locked --target "$target" -p tests --bins --tests -p examples --examples
    echo "$target: the tests and examples are linked; they were never run"
    rm -rf "$CARGO_TARGET_DIR/$target"
done
refused=aarch64-pc-windows-gnullvm
if can_be_had "$refused" rustup --quiet target add "$refused"; then
    said=$(cargo check --quiet -p monochrome --target "$refused" 2>&1) && { echo "$refused: compiles, but was to be refused" >&2; exit 1; }
    grep -q 'no code to switch stacks on Windows on this processor' <<<"$said" || { echo "$said" >&2; exit 1; }
    echo "$refused: refused with the reason"
fi
