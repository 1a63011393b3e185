#!/usr/bin/env bash
# Breaks each marked protocol step on purpose, and checks that a loom model then fails. A model that cannot fail proves nothing.
# Usage: ci/models-broken.sh [--sample | NAME ..]   (default: every broken!("NAME") in the sources; --sample: those of the files whose code
# has changed since the commit of ci/base.sh, and a tenth of the others, the next tenth after the next commit)
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/models"
export RUSTFLAGS="--cfg loom" CARGO_PROFILE_RELEASE_DEBUG=0

# Builds the models of package monochrome-$1, and prints the path of their program.
models() {
    cargo test --quiet --release --lib -p "monochrome-$1" --no-run --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1
}

# Runs a program of models with its arguments until a model fails. Returns 0 if a model fails, and 1 if none fails.
notices() {
    local log status=1
    log=$(mktemp)
    "$@" >"$log" 2>&1 &
    local pid=$! ends=$((SECONDS + 300))
    while :; do
        if grep -q FAILED "$log"; then status=0; break; fi
        if ! kill -0 $pid 2>/dev/null; then
            # The program has ended. An end by a signal counts as a failed model.
            wait $pid 2>/dev/null || status=0
            break
        fi
        if [ $SECONDS -ge $ends ]; then echo "$BROKEN: timed out"; break; fi
        sleep 0.05
    done
    kill $pid 2>/dev/null || true
    wait $pid 2>/dev/null || true
    rm -f "$log"
    return $status
}

# check NAME FILE PROGRAM: breaks step NAME of FILE, and checks that a model of PROGRAM fails.
check() {
    export BROKEN=$1
    local module program=$3
    module=$(basename "${2%/models*}" .rs)
    # Runs the models of FILE first, then those of the module that begins the step's name: these are the most likely to fail. The long
    # models run last.
    local models start=$SECONDS
    for models in "$module::" "::${BROKEN%%_*}::" "--skip lease --skip closing" ""; do
        # shellcheck disable=SC2086  # Each word is an argument.
        if notices "$program" $models; then
            echo "$BROKEN: noticed by ${models:-all} in $((SECONDS - start)) s"
            return
        fi
    done
    echo "$BROKEN: NOT noticed by any model"
    return 1
}

if [ "${1:-}" = --check ]; then
    check "${@:2}" 2>/dev/null
    exit
fi

jobs=$(mktemp)
trap 'rm -f "$jobs"' EXIT
for package in timers netpoll sched runtime runtime/waits runtime/interpose; do
    # In the runtime itself only the channels have models. Those of `interpose` are a crate of their own, too.
    case $package in
        runtime) program=$(models runtime-models) ;;
        runtime/waits) program=$(models waits) ;;
        runtime/interpose) program=$(models interpose-models) ;;
        *) program=$(models "$package") ;;
    esac
    grep -roE 'broken!\("[a-z_]+"\)' --include='*.rs' "$package/src" | tr '"' ' ' | sed 's/:broken!(//; s/)$//' |
        while read -r file name; do echo "$name $file $program"; done
done | sort -u -k1,1 >"$jobs"
if [ "${1:-}" = --sample ]; then
    changed=$(mktemp)
    # A file in which only comments, imports or its place have changed has the protocol that it had.
    { echo -; git diff -M -U0 "$(ci/base.sh)" -- "*.rs" | awk '
        /^\+\+\+ / { file = substr($2, 3); next }
        /^--- / || /^[+-][ \t]*(\/\/|$)/ || /^[+-][ \t]*(pub(\([a-z]+\))? )?use / { next }
        /^[+-]/ { print file }
    ' | sort -u; } >"$changed"
    # A model in a folder belongs to the file beside that folder, and the other way round: both are one protocol.
    awk -v rest=$(($(git rev-list --count HEAD) % 10)) '
        function protocol(file) { sub(/(\/models)?\.rs$/, "", file); return file }
        FNR == NR { changed[protocol($1)]; next }
        protocol($2) in changed || FNR % 10 == rest
    ' "$changed" "$jobs" >"$jobs.chosen"
    rm -f "$changed"
    mv "$jobs.chosen" "$jobs"
elif [ $# -gt 0 ]; then
    grep -E "^($(IFS='|'; echo "$*")) " "$jobs" >"$jobs.chosen" || { echo "no such transition: $*" >&2; exit 1; }
    mv "$jobs.chosen" "$jobs"
fi
xargs -P "$(nproc)" -L 1 "$PWD/ci/models-broken.sh" --check <"$jobs"
echo "$(wc -l <"$jobs") transitions, each noticed"
