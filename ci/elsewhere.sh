#!/usr/bin/env bash
# Runs tests on this machine as they run elsewhere. KIND is one of:
#   musl      with musl in the place of glibc (x86_64-unknown-linux-musl), linked statically
#   i686      with addresses of 32 bits (i686-unknown-linux-gnu)
#   portable  with `--cfg portable`: the code that macOS and the BSDs run in place of Linux's own calls
#   kqueue    the same over a model of kqueue (`--cfg kqueue_model`, netpoll/src/sys/kqueue_model.rs): what they report
# Prints the tests that are left out, and why (`ignore` in their source). Needs cargo-nextest. If a target cannot be had, the script
# fails; with CROSS_MISSING=skip it says so and ends well.
# Usage: ci/elsewhere.sh KIND [--all]   (a sample; --all: the whole suite, in ci/nightly.sh)
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-} all=${2:-}
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/elsewhere
export CARGO_TARGET_DIR

missing() {
    echo "ci/elsewhere.sh: $kind cannot be had here: $*${CROSS_MISSING:+; NOT RUN}" >&2
    [ "${CROSS_MISSING:-}" = skip ] && exit 0
    exit 1
}

target=()
case $kind in
    musl) target=(--target x86_64-unknown-linux-musl) sample=(misuse) ;;
    i686)
        target=(--target i686-unknown-linux-gnu) sample=()
        export CARGO_TARGET_I686_UNKNOWN_LINUX_GNU_LINKER=$PWD/ci/i686-cc.sh TESTS_CC=$PWD/ci/i686-cc.sh
        echo 'int main(void) { return 0; }' | ci/i686-cc.sh -x c - -o /dev/null || missing "ci/i686-cc.sh does not link, ci/setup.sh installs gcc-multilib"
        ;;
    portable)
        export RUSTFLAGS="${RUSTFLAGS:-} --cfg portable"
        # `kqueue` has the same code, and runs a sample of the tests of `tests`.
        CARGO_TARGET_DIR+=/portable sample=()
        ;;
    kqueue)
        export RUSTFLAGS="${RUSTFLAGS:-} --cfg portable --cfg kqueue_model"
        CARGO_TARGET_DIR+=/kqueue sample=(net system)
        ;;
    *) sed -n '2,/^# Usage/s/^# \{0,1\}//p' "$0" >&2; exit 1 ;;
esac
[ ${#target[@]} = 0 ] || rustup --quiet target add "${target[1]}" || missing "rustup target add ${target[1]}"

# names_left_out SELECTION ..: prints each test that is left out, and the reason. libtest prints the reason when it is asked for the test.
names_left_out() {
    local program names
    cargo nextest list --locked "${target[@]}" "$@" --list-type binaries-only --message-format json 2>/dev/null |
        grep -o '"binary-path":"[^"]*"' | cut -d'"' -f4 | while read -r program; do
        mapfile -t names < <("$program" --list --ignored 2>/dev/null | sed -n 's/: test$//p')
        [ ${#names[@]} = 0 ] || "$program" --exact "${names[@]}" | sed -n 's/^test \(.*\) \.\.\. ignored\(, \|$\)/left out: \1: /p'
    done
}

# run ARGUMENT ..: runs the tests of packages and programs. Most tests sleep or wait.
run() {
    echo "+ $kind, tests: $*"
    cargo nextest run --locked "${target[@]}" --test-threads $((3 * $(nproc))) "$@"
}

# Where there are no hooks for libc's names, the line `interpose!` does not compile, and the compiler prints where it does.
refuses_interpose() {
    local log
    cargo build --quiet --locked "${target[@]}" -p monochrome --features interpose
    if log=$(echo 'runtime::interpose!(); fn main() {}' | rustc --edition 2024 "${target[@]}" --extern "runtime=$CARGO_TARGET_DIR/${target[1]}/debug/libruntime.rlib" \
        -L "dependency=$CARGO_TARGET_DIR/${target[1]}/debug/deps" -L "dependency=$CARGO_TARGET_DIR/debug/deps" --crate-name line -o "$CARGO_TARGET_DIR/line" - 2>&1); then
        echo "ci/elsewhere.sh: $kind: a program with the line interpose! compiles" >&2
        exit 1
    fi
    grep -q '`interpose!` needs Linux with glibc' <<<"$log" || { echo "$log" >&2; exit 1; }
    echo "$kind: interpose! is refused, and the compiler prints where it works"
}

# Runs most examples to their end.
runs_examples() {
    # Left out: timers and tour, which need more stacks than 32 bits can address; hyper, tls and websocket: their crates test
    # nothing about addresses; inside and spans, which need features.
    local example examples=(raft $(cd examples && ls ./*.rs | sed -e 's,^\./,,' -e 's,\.rs$,,' | grep -vxE 'hyper|inside|spans|timers|tls|tour|websocket'))
    # Optimised a little: the build takes longer than the runs.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=0 cargo build --quiet --locked --release "${target[@]}" "${examples[@]/#/--example=}"
    for example in "${examples[@]}"; do
        echo "+ $kind, example $example"
        "$CARGO_TARGET_DIR/${target[1]}/release/examples/$example"
    done
}

members=(-p monochrome-netpoll -p monochrome-sched -p monochrome-waits -p monochrome-sysmon)
# The pollers of these kinds are others, so the tests of netpoll with sockets belong to them.
[ ${#target[@]} != 0 ] || run -p monochrome-netpoll --tests
if [ "$all" = --all ]; then
    run "${members[@]}" -p monochrome-timers -p monochrome -p monochrome-inspect --lib
    run -p tests --no-fail-fast
    names_left_out "${members[@]}" -p monochrome-timers -p monochrome -p monochrome-inspect --lib
    names_left_out -p tests
    [ ${#target[@]} = 0 ] || refuses_interpose
    [ $kind != i686 ] || runs_examples
else
    run "${members[@]}" --lib
    [ ${#sample[@]} = 0 ] || run -p tests "${sample[@]/#/--test=}"
fi
# No wait may believe an event: the attempt decides.
[ $kind != kqueue ] || KQUEUE_MODEL_SPURIOUS=1 run -p tests --test net
