#!/usr/bin/env bash
# Checks `panic = "abort"`. Without the feature `panic-abort` the runtime must not compile, and the compiler must print the reason. With
# that feature the runtime must compile, and an unwind must end the process with a message. With `panic = "unwind"` the same programs
# must succeed.
set -euo pipefail
cd "$(dirname "$0")/.."
cases=(nothing-unwinds cancel timeout scope drop-runtime)
target=${CARGO_TARGET_DIR:-target}
abort=(--config 'profile.dev.panic="abort"' --target-dir "$target/panic-abort")
log=$(mktemp)
trap 'rm -f "$log"' EXIT

fail() {
    echo "ci/panic-abort.sh: $*" >&2
    cat "$log" >&2
    exit 1
}

if cargo check --quiet -p monochrome "${abort[@]}" >"$log" 2>&1; then fail 'the runtime compiles with panic = "abort"'; fi
grep -q 'this crate needs unwinding' "$log" || fail "the compiler does not print the reason"
echo 'panic = "abort": refused by the compiler'

cargo build --quiet -p tests --bin unwinding
cargo build --quiet -p tests --bin unwinding --features panic-abort "${abort[@]}"
for case in "${cases[@]}"; do
    "$target/debug/unwinding" "$case" >"$log" 2>&1 || fail "$case fails with panic = \"unwind\""
    # The subshell discards bash's message about the signal.
    status=$({ ulimit -c 0; timeout 60 "$target/panic-abort/debug/unwinding" "$case" >"$log" 2>&1 || echo $?; } 2>/dev/null)
    status=${status:-0}
    if [ "$case" = nothing-unwinds ]; then
        [ $status = 0 ] || fail "$case, feature panic-abort: status $status"
    else
        # Status 134 is SIGABRT.
        [ $status = 134 ] && grep -q 'cannot unwind, so the process ends' "$log" || fail "$case, feature panic-abort: status $status"
    fi
    echo "feature panic-abort, $case: as documented"
done
