#!/usr/bin/env bash
# Runs tests and examples that are built for 64-bit Arm, under qemu-user, an emulator. It prints which tests it leaves out, and why. An
# emulator on x86-64 keeps the order of memory accesses of x86-64, so the script finds no mistake in an ordering. Needs cargo-nextest, and
# qemu-user with a compiler (ci/aarch64-cc.sh), which ci/setup.sh installs.
# Usage: ci/aarch64.sh [--musl] [--all]   (a sample; --all: also the other test programs and examples, in ci/nightly.sh;
#        --musl: with musl in the place of glibc, linked statically)
set -euo pipefail
cd "$(dirname "$0")/.."
libc=gnu
[ "${1:-}" != --musl ] || { libc=musl; shift; }
target=aarch64-unknown-linux-$libc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$PWD/ci/aarch64-cc.sh
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
# Rust brings musl itself, and its own code for unwinding. The compiler of C serves `ring`, which calls nothing of libc that differs.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER=$PWD/ci/aarch64-cc.sh
export CC_aarch64_unknown_linux_gnu=$PWD/ci/aarch64-cc.sh CC_aarch64_unknown_linux_musl=$PWD/ci/aarch64-cc.sh
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER=qemu-aarch64
# For the children of tests, and the libraries that tests compile (tests/src/child.rs).
export TESTS_CC=$PWD/ci/aarch64-cc.sh
if [ $libc = gnu ]; then TESTS_RUNNER=$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER; else TESTS_RUNNER=qemu-aarch64; fi
export TESTS_RUNNER

for program in qemu-aarch64 clang aarch64-linux-gnu-ld; do
    command -v "$program" >/dev/null || { echo "ci/aarch64.sh: $program is missing, ci/setup.sh installs it" >&2; exit 1; }
done
# An emulated test takes several times as long.
export TESTS_HANG_SECS=240
rustup --quiet target add "$target"

# Tests that fail because of the emulator: their names and the reason.
left_out=(
    "a_child_of_fork_goes_on: a forked child of qemu with several threads cannot start another one"
    "a_fork_before_the_first_runtime: the same"
    "a_child_that_returns_from_its_green_thread: the same"
    "blocks_end_with_their_runtime: the memory of the process is that of qemu, which keeps some for each OS thread"
    "memory_is_not_kept_by_each_green_thread: the same"
    "os_threads_have_ended_when_the_drop_returns: the OS threads are those of qemu, which end later"
    "cold_stacks_have_no_pages_and_keep_their_guards: qemu has no mincore for memory without access"
    "scarce_address_space_gives_smaller_slabs_and_then_an_error: qemu does not limit address space"
    "lost_descriptors_are_reported_and_none_is_leaked: probably qemu needs descriptors of its own"
    "a_peer_that_comes_back_in_time_misses_nothing: qemu has no SO_DETACH_FILTER"
    "a_setuid_program_does_not_read_the_environment: qemu does not change the user"
    "a_wait_returns_the_exit_status: where a program is missing, qemu starts a child that ends"
    "an_unusual_signal_without_receivers_has_its_default_effect: probably qemu keeps some signals for itself"
    "every_signal_of_the_system_can_be_received: the same"
    "a_thousand_runtimes_leave_nothing_behind: the memory and the OS threads are those of qemu"
    "a_deadlock_fails_its_test: a thread of qemu's own looks like one of the program, which could wake the others"
    "a_deadlock_of_main_is_reported: the same"
    "dumps_while_futures_wait_and_go_on: they probably go on before the emulator has copied their stacks"
    "those_that_are_ready_show_where_they_go_on: the same"
    "those_that_wait_behind_a_hog_show_where_they_go_on: the same"
    "debuggers_say_which_stacks_a_core_file_lacks: a debugger sees qemu, not the program"
)
filter="all()"
for line in "${left_out[@]}"; do
    name=${line%%:*}
    grep -rqE "fn $name\(" --include='*.rs' sched runtime tests || { echo "ci/aarch64.sh: no such test: $name" >&2; exit 1; }
    echo "left out: $line"
    filter+=" - test(/(^|::)$name\$/)"
done

# run ARGUMENT ..: runs the tests of packages and programs.
run() {
    echo "+ tests: $*"
    cargo nextest run --locked --target "$target" -E "$filter" "$@"
}

# example NAME [ARGUMENT ..]: runs an example to its end.
example() {
    echo "+ example $*"
    # shellcheck disable=SC2086
    $TESTS_RUNNER "${CARGO_TARGET_DIR:-target}/$target/debug/examples/$1" "${@:2}"
}

run -p monochrome-netpoll -p monochrome-sched -p monochrome-waits -p monochrome-sysmon --lib
run -p tests --test thread own_locals pin:: park:: spawn::
cargo build --quiet --locked --target "$target" --example hello --example timers
example hello
# Thread-locals of each green thread need glibc.
[ $libc = musl ] || RUNTIME_THREAD_LOCALS=green example hello
example timers 1000 --rounds 1
[ "${1:-}" = --all ] || exit 0

run -p monochrome-timers -p monochrome -p monochrome-inspect --lib
# Left out: `load`, because the memory, the limits and the OS threads are those of the emulator. Of `inspect` the tests of stacks are run:
# no deadlock is reported, because a thread of the emulator's own could end it. Debuggers see the emulator.
programs=(thread channel sync time misuse runtimes net system)
run -p tests "${programs[@]/#/--test=}"
if [ $libc = gnu ]; then
    echo "+ the features with code for this processor"
    run -p tests --features dump-stacks,interpose,sim --test inspect stacks::
    run -p tests --features dump-stacks,interpose,sim --test sim basics:: clocks:: faults:: fs:: net:: waits::
    run -p monochrome-interpose -p monochrome-sim --features monochrome-interpose/catch,monochrome-sim/simulate --lib
    echo "+ thread-locals of green threads as the setting of all tests of green threads"
    RUNTIME_THREAD_LOCALS=green run -p tests --test thread
fi
# Those of features, and those whose crates test nothing about this processor, are left out. timers and tour get small sizes.
examples=(raft $(cd examples && ls ./*.rs | sed -e 's,^\./,,' -e 's,\.rs$,,' | grep -vxE 'hyper|inside|spans|timers|tls|tour|websocket'))
cargo build --quiet --locked --target "$target" --example tour "${examples[@]/#/--example=}"
for name in "${examples[@]}"; do
    example "$name"
done
example tour sched --sleepers 2000
