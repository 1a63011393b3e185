#!/usr/bin/env bash
# Checks and tests the optional features: streams for async crates, tokio, hyper, interpose, stream, tracing, stacks in dumps, debug, sim; and
# the runtime without the feature `macros`. examples/tests/clients.rs tests the example hyper with real clients.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy -p tests -p gmp-runtime --features tests/async-io --all-targets -- -D warnings
cargo clippy -p examples --features hyper --all-targets -- -D warnings
cargo check -p gmp-runtime --no-default-features
for feature in futures-io tokio-io tokio hyper interpose stream tracing dump-stacks dump-json dump-pprof perfetto debug sim; do
    cargo check -p gmp-runtime --features "$feature"
done
cargo test -p gmp-runtime --features futures-io,tokio-io,hyper --doc hyper
cargo clippy -p gmp-runtime --features tokio --all-targets -- -D warnings
cargo test -p gmp-runtime --features tokio --doc tokio
cargo clippy -p gmp-runtime --features interpose --all-targets -- -D warnings
cargo test -p gmp-runtime --features interpose --lib interpose
cargo test -p gmp-runtime --features interpose --doc interpose
cargo test -p tests --features async-io --test net_poll --test net_tcp --test net_async
cargo clippy -p tests -p gmp-runtime --features tests/stream --all-targets -- -D warnings
cargo test -p gmp-runtime --features stream --doc stream
cargo test -p tests --features stream --test streams
cargo clippy -p tests -p gmp-runtime --features tests/tracing --all-targets -- -D warnings
cargo test -p gmp-runtime --features tracing --doc tracing
cargo test -p tests --features tracing --test tracing --test tracing_global
cargo clippy -p tests -p gmp-runtime --features tests/dump-stacks --all-targets -- -D warnings
cargo clippy -p gmp-runtime --features dump-stacks,dump-json,dump-pprof --all-targets -- -D warnings
cargo test -p gmp-runtime --features dump-stacks,dump-json,dump-pprof --lib dump
cargo test -p gmp-runtime --features dump-stacks,dump-json,dump-pprof --doc dump
cargo test -p tests --features dump-stacks --test dump --test dump_on --test dump_stacks --test hog_reports --test dump_snapshot --test deadlock --test deadlock_of_some
cargo clippy -p tests -p gmp-runtime --features tests/debug --all-targets -- -D warnings
cargo test -p gmp-runtime --features debug --lib debug
cargo test -p gmp-runtime --features debug --lib profile
cargo test -p gmp-runtime --features debug --doc debug
cargo test -p gmp-runtime --features debug --doc profile
cargo test -p tests --features debug --test debug_page --test debug_browser --test profile
# gdb walks the stacks of an optimised program, too; ci/test.sh does that for a debug build.
cargo test --release -p tests --test debuggers
cargo clippy -p tests -p gmp-runtime --features tests/perfetto --all-targets -- -D warnings
cargo test -p gmp-runtime --features perfetto --doc trace
cargo test -p tests --features perfetto --test trace_perfetto
cargo clippy -p tests -p gmp-runtime --features tests/sim --all-targets -- -D warnings
cargo test -p gmp-runtime --features sim --lib sim
cargo test -p gmp-runtime --features sim --doc sim
cargo test -p tests --features sim --test sim --test public_types
cargo test --release -p tests --features sim --test sim_bugs
cargo run --quiet --release -p examples --features hyper --example hyper
cargo run --quiet --release -p examples --features tracing --example spans
cargo run --quiet --release -p examples --features debug --example inside
cargo test --release -p examples --features debug --test inside
