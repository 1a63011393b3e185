#!/usr/bin/env bash
# Compiles the runtime, without warnings, without its default features, and for systems on which the runtime was not run. If a target
# cannot be installed here, the script fails. With CROSS_MISSING=skip the script prints the name of that target and leaves it out.
# ci/elsewhere.sh runs tests with musl and with 32 bits.
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
# One call, so that the targets compile at the same time.
cargo check --quiet -p monochrome "${targets[@]}"
echo "${targets[*]}: compile"
# The hooks of libc have code for this processor.
if [[ "${targets[*]}" = *aarch64-unknown-linux-gnu* ]]; then
    cargo check --quiet -p monochrome --features interpose --target aarch64-unknown-linux-gnu
    echo "aarch64-unknown-linux-gnu: compiles with the feature interpose"
fi
# The tests too, without warnings, where the system has what they use. Left out: examples and benches, of which dependencies need a C compiler
# for these systems; Windows, where tests use what the runtime does not have there.
others=()
for target in x86_64-apple-darwin x86_64-unknown-freebsd; do
    [[ "${targets[*]}" != *$target* ]] || others+=(--target "$target")
done
if [ ${#others[@]} != 0 ]; then
    cargo check --quiet --all-targets "${others[@]}" -p tests -p monochrome-sched -p monochrome-netpoll -p monochrome-sysmon -p monochrome-timers
    echo "${others[*]}: the tests compile"
fi
