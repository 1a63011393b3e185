#!/usr/bin/env bash
# Integration tests on runtimes without sysmon: a wake-up that is lost hangs there, where sysmon would make good for it within
# 10 ms. Each runtime must end without a rescue (tests/src/lib.rs, `with_built`). Usage: ci/without-sysmon.sh [TEST ..]
set -euo pipefail
cd "$(dirname "$0")/.."

# Left out: hogs has green threads that compute or block. context, futures, futures_third_party, misuse_arguments, misuse_fork,
# misuse_shutdown and resize hang, and must be sorted. idle, limits, threads and trim are about what sysmon does. deadlock, main_thread,
# memory and soak start runtimes of their own. The rest has not been tried.
usual=(
    cancel channel_basics channel_cancel channel_drops channel_fairness channel_futures channel_go channel_locals
    channel_misuse channel_ready channel_select channel_select_macro channel_select_stress channel_stress
    channel_timed channel_waiting dump fairness locals misuse_cancelled misuse_exit misuse_unwinding net net_async
    net_poll net_udp overflow park scope
)

if [ $# -gt 0 ]; then usual=("$@"); fi
tests=()
for test in "${usual[@]}"; do tests+=(--test "$test"); done
TESTS_SYSMON=off cargo test -p tests --no-fail-fast "${tests[@]}"
