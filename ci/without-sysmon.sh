#!/usr/bin/env bash
# Runs integration tests on runtimes without sysmon. A lost wake-up hangs such a runtime; sysmon would hide the loss after at most
# 10 ms. Each runtime must end without a rescue (tests/src/lib.rs, `with_built`). Needs cargo-nextest.
# Usage: ci/without-sysmon.sh [FILTER ..]   (default: all except `left_out`; FILTER is a part of a test's name)
set -euo pipefail
cd "$(dirname "$0")/.."

left_out=(
    # These modules test sysmon.
    hogs hogs_signal hog_reports idle limits moves processors threads trim watchers
    # Programs that build their own runtimes, so a run here would only repeat ci/test.sh.
    attributes deadlock deadlock_of_some debuggers dump_on dump_snapshot main_thread memory settings soak trace_files
    # A green thread never parks, so that the forked child has a busy parent.
    fork
)

# Tests in which a green thread keeps its P by design. Other green threads then get a P only from sysmon.
keep_their_p=(
    # A green thread computes until another green thread has run.
    a_greedy_locker_starves_no_waiter
    a_loop_over_ready_cases_is_preempted
    a_hog_delays_only_polls_parked_on_its_os_thread
    a_hog_on_a_retired_p_runs_on
    a_pinned_green_thread_that_computes_lets_others_run
    a_timer_that_is_armed_without_a_p_is_recorded
    children_made_during_a_cancellation_are_cancelled
    hogs_delay_only_threads_bound_to_their_os_thread
    the_group_of_the_process_changes_while_green_threads_run
    a_waker_that_computes_delays_no_other_thread
    a_thread_that_outlives_a_shutdown_timeout
    # A green thread blocks its OS thread, in `blocking` or unannounced, until another green thread has run.
    a_future_is_not_polled_unless_woken
    calls_use_no_more_os_threads_than_allowed
    calls_wait_in_line_for_an_os_thread
    other_branches_go_on_while_a_call_blocks_or_parks_aside
    other_green_threads_run_while_a_call_blocks
    a_listener_converts_to_std_and_back
    a_oneshot_between_futures_green_and_plain_threads
    a_storm_of_signals_loses_nothing_and_ends_no_wait_early
    a_stream_converts_to_std_and_back
    each_asynchronous_call_in_each_executor
    hooks_may_call_any_function
    hand_offs_and_preemptions_are_recorded
    fewer_ps_while_no_further_os_thread_is_allowed
    a_thread_that_joins_itself
    a_waker_may_block_on_a_lock_of_a_parked_thread
    os_threads_with_bound_threads_take_turns
    a_panic_in_the_drop_of_a_closure_that_never_began
    branches_and_threads_meet_at_a_barrier
    branches_of_one_task_take_turns
    a_time_out_ends_the_wait_for_a_call
    other_branches_go_on_while_a_call_blocks
    the_output_of_a_child_is_awaited_beside_other_branches
    profiling_and_alarm_timers_may_interrupt_at_any_time
    # The test waits for OS threads that sysmon ends.
    an_os_thread_with_a_parked_poll_does_not_end
    # Waits for a lock of pthread.
    owners_of_all_kinds_that_wait_hear_of_the_end
)

for module in "${left_out[@]}"; do
    ls tests/tests/*/"$module.rs" >/dev/null || { echo "ci/without-sysmon.sh: no such module: $module" >&2; exit 1; }
done
for test in "${keep_their_p[@]}"; do
    grep -rqw "fn $test" tests/tests || { echo "ci/without-sysmon.sh: no such test: $test" >&2; exit 1; }
done
joined() { local IFS='|'; echo "$*"; }
filter="not test(/^($(joined "${left_out[@]}"))::/) and not test(/(^|::)($(joined "${keep_their_p[@]}"))\$/)"
# Several tests run at the same time, because most sleep. `--workspace` takes the build of ci/test.sh: `-p tests` would be another.
TESTS_SYSMON=off exec cargo nextest run --workspace --tests --test-threads $((3 * $(nproc))) -E "package(tests) and $filter" "$@"
# ci/soak.sh runs the soak with `--sysmon off`.
