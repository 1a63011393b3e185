#!/usr/bin/env bash
# With `panic = "abort"` the runtime does not compile and says why. With its feature `panic-abort` it does, and what unwinds ends
# the process with a message. (Without either, the same programs end well.)
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

if cargo check --quiet -p gmp-runtime "${abort[@]}" >"$log" 2>&1; then fail 'it compiles with panic = "abort"'; fi
grep -q 'this crate needs unwinding' "$log" || fail "the reason is not said"
echo 'panic = "abort": refused by the compiler'

cargo build --quiet -p tests --bin unwinding
cargo build --quiet -p tests --bin unwinding --features panic-abort "${abort[@]}"
for case in "${cases[@]}"; do
    "$target/debug/unwinding" "$case" >"$log" 2>&1 || fail "$case does not end well where it can unwind"
    # In a shell of its own, so that what bash says of the signal goes nowhere.
    status=$({ ulimit -c 0; timeout 60 "$target/panic-abort/debug/unwinding" "$case" >"$log" 2>&1 || echo $?; } 2>/dev/null)
    status=${status:-0}
    if [ "$case" = nothing-unwinds ]; then
        [ $status = 0 ] || fail "$case, feature panic-abort: status $status"
    else
        # 134: SIGABRT.
        [ $status = 134 ] && grep -q 'cannot unwind, so the process ends' "$log" || fail "$case, feature panic-abort: status $status"
    fi
    echo "feature panic-abort, $case: as documented"
done
