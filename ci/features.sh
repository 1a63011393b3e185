#!/usr/bin/env bash
# Checks and tests the optional features: streams for async crates, tokio, hyper, interpose, stream, tracing, stacks in dumps, debug, sim; and
# the runtime without the feature `macros`. examples/tests/clients.rs tests the example hyper with real clients.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy -p tests -p monochrome --features tests/async-io,tests/stream,tests/tracing,tests/dump-stacks,tests/debug,tests/perfetto,tests/sim,monochrome/tokio,monochrome/interpose --all-targets -- -D warnings
cargo clippy -p examples --features hyper --all-targets -- -D warnings
cargo check -p monochrome --no-default-features
for feature in futures-io tokio-io tokio hyper interpose stream tracing dump-stacks dump-json dump-pprof perfetto debug sim; do
    cargo clippy -p monochrome --features "$feature" -- -D warnings
done
# All that can be together: `tokio` and `interpose` change what happens in the others.
cargo test -p monochrome --features futures-io,tokio-io,hyper,stream,tracing,dump-stacks,dump-json,dump-pprof,debug,perfetto,sim \
    --doc -- hyper stream tracing dump debug profile trace sim
cargo test -p monochrome --features tokio --doc tokio
cargo test -p monochrome-netpoll --features foreign --test foreign
cargo test -p monochrome --features interpose --lib interpose
cargo test -p monochrome --features interpose --doc interpose
cargo test -p tests --features async-io --test net_poll --test net_tcp --test net_async
cargo test -p tests --features stream --test streams
cargo test -p tests --features tracing --test tracing --test tracing_global
cargo test -p monochrome --features dump-stacks,dump-json,dump-pprof --lib dump
cargo test -p tests --features dump-stacks --test dump --test dump_on --test dump_stacks --test spawn_stacks --test await_stacks --test hog_reports --test dump_snapshot --test deadlock --test deadlock_of_channels --test deadlock_of_some
cargo test -p monochrome --features debug --lib debug
cargo test -p monochrome --features debug --lib profile
cargo test -p tests --features debug --test debug_page --test debug_browser --test profile
# gdb walks the stacks of an optimised program, too; ci/test.sh does that for a debug build.
cargo test --release -p tests --test debuggers
cargo test -p tests --features perfetto --test trace_perfetto
cargo test -p monochrome-sched --features sim --lib simulation
cargo test -p monochrome --features sim --lib sim
cargo test -p tests --features sim --test sim --test sim_net --test sim_faults --test sim_fs --test sim_unix --test sim_attribute --test sim_deadlocks --test sim_waits --test sim_memory
cargo test --release -p tests --features sim --test sim_bugs --test sim_net_bugs --test sim_fs_bugs --test sim_primitives
cargo clippy -p examples --features sim --all-targets -- -D warnings
cargo test --release -p examples --features sim --test raft_sim
(cd benches/peers/sim && cargo check --locked --quiet)
cargo run --quiet --release -p examples --features hyper --example hyper
cargo run --quiet --release -p examples --features tracing --example spans
cargo run --quiet --release -p examples --features debug --example inside
cargo test --release -p examples --features debug --test inside
# The types of all features.
cargo test -p tests --features sim,tracing,async-io,debug --test public_types
