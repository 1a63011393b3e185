#!/usr/bin/env bash
# Tests the optional features, all in one build, because a feature alone changes no result of a program. Needs cargo-nextest. Usage: ci/features.sh [--optimised]
#   --optimised  runs long explorations of simulations instead, and the debuggers on an optimised program with 100,000 green threads
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --optimised ]; then
    DEBUGGERS_MANY=100000 cargo nextest run --release -p tests --features tests/sim --test sim --test inspect \
        -E '(binary(sim) and test(/^(bugs|fs_bugs|net_bugs|primitives)::/)) or test(/^debuggers::/)'
    exit
fi

of_tests=tests/async-io,tests/stream,tests/tracing,tests/dump-stacks,tests/debug,tests/perfetto,tests/sim
of_runtime=monochrome/futures-io,monochrome/tokio-io,monochrome/hyper,monochrome/dump-json,monochrome/dump-pprof,monochrome/tokio,monochrome/interpose
of_examples=examples/hyper,examples/debug,examples/sim,examples/tracing

# The tests of each feature, the tests of what features change, and the examples that need some. The explorations of simulations are
# short here.
packages=(-p tests -p monochrome -p monochrome-inspect -p monochrome-interpose -p monochrome-sim -p monochrome-netpoll -p monochrome-sched -p monochrome-waits -p examples
    --features "$of_tests,$of_runtime,$of_examples")
examples=(hyper spans inside)
programs=(--lib --test inspect --test net --test channel --test runtimes --test sim --test inside --test raft_sim --test clients --test hostile --test shutdown --test foreign)
cargo build "${packages[@]}" "${examples[@]/#/--example=}"
modules='await_stacks|deadlock|deadlock_of_some|debug_browser|debug_page|dump|dump_on|dump_snapshot|dump_stacks|heap|hog_reports|profile|spawn_stacks|trace_perfetto|tracing|tracing_global'
modules+='|descriptors|poll|tcp|streams|public_types|sim_line'
EXAMPLES_BUILT=true SIM_SEEDS=30 RAFT_SEEDS=25 cargo nextest run "${packages[@]}" "${programs[@]}" --test-threads $((3 * $(nproc))) -E "
    (package(tests) and test(/^($modules)::/)) or binary(sim)
    or package(monochrome-inspect) or (package(monochrome-sched) and test(/simulation/)) or (package(monochrome-waits) and test(/futex/))
    or package(monochrome-interpose) or package(monochrome-sim) or binary(foreign) or binary(inside) or binary(raft_sim) or (package(examples) and test(/hyper/))"
for example in "${examples[@]}"; do
    echo "+ example $example"
    "${CARGO_TARGET_DIR:-target}/debug/examples/$example"
done
cargo test "${packages[@]}" --doc -- hyper stream tracing dump debug profile trace sim tokio interpose foreign
