#!/usr/bin/env bash
# Fails if the files of a crate depend on each other more than its bounds allow, if the core has too many events for its watchers, or if
# comments have too many vague words or long lines.
# Usage: ci/layout.sh [--arrows]   (--arrows also prints each dependency)
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
cargo test --quiet --locked --manifest-path ci/layout/Cargo.toml
cargo run --quiet --locked --manifest-path ci/layout/Cargo.toml -- . "$@"

# at_most BOUND NAME COMMAND ..: counts the lines that the command prints.
at_most() {
    local bound=$1 name=$2 count
    shift 2
    count=$("$@" | wc -l)
    echo "$name: $count (at most $bound)"
    [ "$count" -le "$bound" ] || over="${over:+$over, }$name"
}
words() { git grep -Iiwo -E "$1" -- '*.rs' '*.md' '*.sh' '*.toml' ':!ci/layout.sh'; }
events() { git grep -hoE 'fn on_[a-z_]+' -- sched/src/notes; }
long_comments() { git grep -h -E '^ *//.{109}' -- '*.rs' | awk 'length($0) > 110'; }

over=""
at_most 17 "events of the core" events
at_most 2 "whoever, somebody, nobody, likewise" words 'whoever|somebody|nobody|likewise'
at_most 338 "told, tells, tell" words 'told|tells?'
at_most 121 "whose" words whose
at_most 56 "meanwhile" words meanwhile
at_most 29 "those that" words 'those that'
at_most 216 "lines of comments beyond 110 columns" long_comments
if [ -n "$over" ]; then
    echo "ci/layout.sh: over the bound: $over" >&2
    exit 1
fi
