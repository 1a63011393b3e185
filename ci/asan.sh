#!/usr/bin/env bash
# Runs the integration tests and half a minute of soak under AddressSanitizer. Needs a nightly toolchain and cargo-nextest.
# The script leaves out the modules overflow and main_thread, because AddressSanitizer has its own handler of faults. The script leaves
# out memory, trim and idle, because AddressSanitizer costs memory and time. In debuggers gdb would read such a program. The test of
# the soak's own checks is left out, too.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/need-nightly.sh ci/asan.sh || exit $(($? == 3 ? 0 : 1))
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
# With `--cfg asan` the runtime tells AddressSanitizer of stack switches.
export RUSTFLAGS="-Zsanitizer=address --cfg asan"
# Tests are a few times slower under AddressSanitizer.
export TESTS_HANG_SECS="${TESTS_HANG_SECS:-300}"
# corosensei never frees the fake stack of a finished coroutine.
export ASAN_OPTIONS="detect_stack_use_after_return=0:detect_leaks=0"
left_out='soak|overflow|main_thread|memory|trim|idle|debuggers'
cargo +nightly nextest run -p tests --tests --target "$target" -E "not test(/^($left_out)::/)" "$@"
cargo +nightly run -p tests --target "$target" --bin soak -- --secs 30
