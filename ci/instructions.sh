#!/usr/bin/env bash
# Counts the instructions of small operations with callgrind, and compares the counts with benches/instructions.txt. The script fails
# if an operation needs over a tenth more instructions. With --write the script writes the counts to that file instead.
# Usage: ci/instructions.sh [--write]
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v valgrind >/dev/null; then
    echo "ci/instructions.sh: valgrind is not installed (Debian: apt-get install valgrind)" >&2
    exit 1
fi
baseline=benches/instructions.txt
cargo build --quiet --release --workspace --bin instructions
program="${CARGO_TARGET_DIR:-target}/release/instructions"
ci/own-base.sh "$program"

# Prints the instructions of a whole process that runs operation $1 $2 times. `NAME:green` is NAME with thread-locals of its own. There valgrind
# shows the way of a processor that has no instruction to set the base.
count() {
    local log locals=os
    [[ $1 = *:green ]] && locals=green
    log=$(RUNTIME_THREAD_LOCALS=$locals valgrind --tool=callgrind --callgrind-out-file=/dev/null "$program" "${1%:green}" "$2" 2>&1) || { echo "$log" >&2; return 1; }
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p' <<<"$log"
}

# Prints the instructions of one operation $1: the difference of two counts, divided by the difference of their operations. Takes the
# smallest of three results, because the start of the threads does not always cost the same.
each() {
    local least=
    for _ in 1 2 3; do
        local few many one
        few=$(count "$1" 2000)
        many=$(count "$1" 22000)
        one=$(((many - few) / 20000))
        if [ -z "$least" ] || [ "$one" -lt "$least" ]; then least=$one; fi
    done
    echo "$least"
}

[ "${1:-}" = --write ] && : >"$baseline"
failed=0
for operation in yield spawn park sleep rendezvous channel select lock timer-cancel timer-reset yield:green spawn:green park:green; do
    now=$(each "$operation")
    if [ "${1:-}" = --write ]; then
        echo "$operation $now" | tee -a "$baseline"
        continue
    fi
    before=$(awk -v name="$operation" '$1 == name { print $2 }' "$baseline")
    echo "$operation: $now instructions, $before in $baseline"
    if [ -z "$before" ] || [ $((now * 10)) -gt $((before * 11)) ]; then
        echo "$operation: needs over a tenth more instructions" >&2
        failed=1
    fi
done
exit $failed
