#!/usr/bin/env bash
# Runs the integration tests and half a minute of soak under AddressSanitizer. Needs a nightly toolchain.
# The script leaves out overflow and main_thread, because AddressSanitizer has its own handler of faults. The script leaves out
# memory, trim and idle, because AddressSanitizer costs memory and time. In debuggers gdb would read such a program. The test of the soak's own checks is left out, too.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/need-nightly.sh ci/asan.sh || exit $(($? == 3 ? 0 : 1))
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/asan"
export RUSTFLAGS="-Zsanitizer=address"
# Tests are a few times slower under AddressSanitizer.
export TESTS_HANG_SECS="${TESTS_HANG_SECS:-300}"
# corosensei never frees the fake stack of a finished coroutine.
export ASAN_OPTIONS="detect_stack_use_after_return=0:detect_leaks=0"
tests=$(ls tests/tests/*.rs | xargs -n1 basename | sed 's/\.rs$//' | grep -vxE 'soak|overflow|main_thread|memory|trim|idle|debug_browser|debug_page|deadlock_of_channels|debuggers|dump_stacks|profile|sim|sim_attribute|sim_bugs|sim_faults|sim_fs|sim_fs_bugs|sim_net|sim_net_bugs|sim_primitives|sim_unix|spawn_stacks|streams|tracing|tracing_global' | sed 's/^/--test /' | tr '\n' ' ')
# shellcheck disable=SC2086
cargo +nightly test -p tests --features sanitizer --target "$target" $tests "$@"
cargo +nightly run -p tests --features sanitizer --target "$target" --bin soak -- --secs 30
