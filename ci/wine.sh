#!/usr/bin/env bash
# Runs test programs for Windows under wine: those of which all tests pass there.
# Needs wine64 and gcc-mingw-w64-x86-64-posix, which the script installs if it is root; ci/setup.sh leaves them out because only this script
# needs them. What passes under wine is no proof for Windows: wine's timers, sockets and threads are those of Linux.
# Usage: ci/wine.sh [PROGRAM ..]   (default: sync time inspect load net misuse runtimes system thread channel)
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-pc-windows-gnu compiler=x86_64-w64-mingw32-gcc-posix
if ! command -v wine >/dev/null || ! command -v $compiler >/dev/null; then
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends wine wine64 gcc-mingw-w64-x86-64-posix
fi
rustup --quiet target add $target

[ $# != 0 ] || set -- sync time inspect load net misuse runtimes system thread channel

CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/wine
export CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=$compiler
export WINEPREFIX=$CARGO_TARGET_DIR/prefix WINEDEBUG=-all CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER="timeout 900 wine"
# wine's server takes part in many waits, so on a busy machine some tests take longer than a minute.
export TESTS_HANG_SECS=300
mkdir -p "$CARGO_TARGET_DIR"
wine cmd /c ver

# wine 8 does not have this library of Windows, of which std uses one function.
cat >"$CARGO_TARGET_DIR/random.c" <<'END'
#include <stddef.h>
unsigned char __stdcall SystemFunction036(void *, unsigned long);
__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *to, size_t n) { return SystemFunction036(to, n); }
END
system=$WINEPREFIX/drive_c/windows/system32
[ -e "$system/bcryptprimitives.dll" ] || $compiler -shared -O -o "$system/bcryptprimitives.dll" "$CARGO_TARGET_DIR/random.c" -ladvapi32

# These are left out. They are taken for differences between wine and Windows:
skipped=(
    # std's `File::try_lock` and `unlock` fail: for a lock that is there already, or not, wine returns another error than Windows.
    a_time_out_ends_the_wait_for_a_lock a_dropped_wait_for_a_lock_leaves_none locks_exclude_each_other
    # After a reset a read of std's returns 0 in the place of an error, also one that blocks. A receive of std's waits in vain, too.
    a_reset_ends_waits_with_an_error a_connected_socket_reports_an_absent_receiver options_stay_with_the_socket
    # The reset is not reported to a reader that waits.
    an_error_ends_both_directions
    # On a busy machine a listener accepts for a moment after its end, if another thread polls it: 10 of 300 connections with std and mio
    # alone. The reset that then comes is not reported.
    connect_timeout_ends_at_an_address_that_does_not_answer a_server_that_ends_under_load_breaks_no_reply
    # A read into more than 1,024 buffers, which are too many for Linux, returns an error.
    a_read_into_many_buffers_leaves_bytes_for_the_next_read
    # It has 10 s for some polls of 128 calls each. A datagram there and back takes std alone 0.8 ms, and 9 ms on a busy machine.
    sockets_that_are_ready_do_not_keep_their_task_from_a_time_out
    # wine ends the OS thread alone, also that of a program of std alone.
    an_overflow_of_a_plain_thread_keeps_the_report_of_std
    # It passes in about 60 s, which is its limit; wine's server computes all the time.
    a_thousand_connections_wait_to_be_accepted
)

tests=()
for program in "$@"; do tests+=(--test "$program"); done
cargo test --no-fail-fast --target $target -p tests "${tests[@]}" -- --test-threads=4 "${skipped[@]/#/--skip=}"
