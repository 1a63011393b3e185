#!/usr/bin/env bash
# Compiles the runtime, without warnings, without its default features, and for systems on which the runtime was not run. With musl the
# tests compile, too. On 32-bit x86 the script runs most examples to their end. If a target cannot be installed here, the script fails. With
# CROSS_MISSING=skip the script prints the name of that target and leaves it out.
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

# True if the C compiler links 32-bit programs, for which Debian's gcc-multilib is needed.
links_32_bits() {
    echo 'int main(void) { return 0; }' | cc -m32 -x c - -o /dev/null
}

cargo check --quiet -p monochrome --no-default-features

targets=()
for target in x86_64-pc-windows-gnu x86_64-apple-darwin x86_64-unknown-freebsd aarch64-unknown-linux-gnu; do
    can_be_had "$target" rustup --quiet target add "$target" && targets+=(--target "$target")
done
# One call, so that the targets compile at the same time.
cargo check --quiet -p monochrome "${targets[@]}"
echo "${targets[*]}: compile"
# The hooks of libc have code for this processor.
if [[ "${targets[*]}" = *aarch64-unknown-linux-gnu* ]]; then
    cargo check --quiet -p monochrome --features interpose --target aarch64-unknown-linux-gnu
    echo "aarch64-unknown-linux-gnu: compiles with the feature interpose"
fi

target=x86_64-unknown-linux-musl
if can_be_had "$target" rustup --quiet target add "$target"; then
    cargo check --quiet -p monochrome -p tests --all-targets --target "$target"
    echo "$target: compiles, with its tests"
fi

target=i686-unknown-linux-gnu
if can_be_had "$target" rustup --quiet target add "$target" && can_be_had "$target" links_32_bits; then
    # The loop leaves out timers and tour, which need more stacks than 32 bits can address. The loop leaves out hyper, tls and
    # websocket, too: their crates test nothing about addresses. It leaves out inside and spans, which need features.
    examples=(raft $(cd examples && ls ./*.rs | sed -e 's,^\./,,' -e 's,\.rs$,,' | grep -vxE 'hyper|inside|spans|timers|tls|tour|websocket'))
    # Optimised a little: the build takes longer than the runs.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0 cargo build --quiet --release --target "$target" "${examples[@]/#/--example=}"
    for example in "${examples[@]}"; do
        echo "+ $target: $example"
        "$CARGO_TARGET_DIR/$target/release/examples/$example"
    done
    echo "$target: most examples run"
fi
