#!/usr/bin/env bash
# Compares the public API of the runtime, with the features of its documentation, with the list in ci/api.txt, so that no change of it goes
# unseen: that of monochrome, and of monochrome-sim and monochrome-inspect below it. Also checks that tests/tests/runtimes/public_types.rs names each public type,
# and builds the documentation as docs.rs does. Needs a nightly toolchain, and installs cargo-public-api. Usage: ci/api.sh [--renew]   (--renew writes the list anew)
set -euo pipefail
cd "$(dirname "$0")/.."
ci/need-nightly.sh ci/api.sh || exit $(($? == 3 ? 0 : 1))
tools=$(ci/tool.sh cargo-public-api 0.52.0)
export PATH="$tools:$PATH" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/nightly"

features=$(ci/features-of-docs.sh)
list=$(mktemp)
trap 'rm -f "$list" "$list".*' EXIT
# Without blanket implementations, which come from other crates, auto traits, which public_types.rs checks, and derived implementations.
api() { # PACKAGE FEATURES
    cargo +nightly public-api -p "$1" --features "$2" --omit blanket-impls,auto-trait-impls,auto-derived-impls --color never 2>"$list.log" ||
        { cat "$list.log" >&2; exit 1; }
}
# `runtime` re-exports what these crates have: their items stand below its modules, by the paths that programs use. The list of monochrome
# has them by the modules in which they are defined.
paths='s/(^|[^:A-Za-z0-9_])sim(::|$)/\1runtime::sim\2/g; s/runtime::sim::(faults|report|strategy)::/runtime::sim::/g'
inspected='dump|metrics|profile|trace'
paths+="; s/(^|[^:A-Za-z0-9_])monochrome_inspect::($inspected|stacks)/\\1runtime::\\2/g"
paths+='; s/runtime::(dump::(snapshot|deadlock)|stacks::(frame|place))::/runtime::dump::/g'
paths+='; s/runtime::metrics::(hogs|places)::/runtime::metrics::/g; s/runtime::trace::(event|perfetto::stream)::/runtime::trace::/g'
api monochrome-sim simulate | sed -E "$paths" | sed 1d >"$list.sim"
api monochrome-inspect dump-stacks,dump-json,dump-pprof,perfetto,debug | sed -E "$paths; /^pub mod runtime::trace::perfetto/d" >"$list.inspect"
api monochrome "$features" | sed -E "$paths; /^pub use runtime::(sim|$inspected)::/d" >"$list"
sed -i "/^pub mod runtime::sim$/r $list.sim" "$list"
for module in ${inspected//|/ }; do
    # The lines between `pub mod` of this module and that of the next.
    sed -n "/^pub mod runtime::$module$/,/^pub mod /{/^pub mod /!p}" "$list.inspect" >"$list.$module"
    sed -i "/^pub mod runtime::$module$/r $list.$module" "$list"
done
[ "$(wc -l <"$list")" -gt 1000 ] || { echo "ci/api.sh: cargo-public-api has found almost nothing" >&2; exit 1; }

if [ "${1:-}" = --renew ]; then
    cp "$list" ci/api.txt
    echo "ci/api.txt: $(wc -l <ci/api.txt) lines"
elif ! diff -u --label "ci/api.txt" --label "the API now" ci/api.txt "$list"; then
    cat >&2 <<'END'
ci/api.sh: the public API has changed (see above: - is gone, + is new).
If that is intended: run `ci/api.sh --renew`, commit ci/api.txt with the change, and add a line to CHANGELOG.md.
A line with - breaks programs that use it.
END
    exit 1
fi

# The names of structs, enums and unions; then those that the test does not name.
sed -nE 's/^(#\[[^]]*\] )*pub (struct|enum|union) ([A-Za-z0-9_:]+::)?([A-Za-z0-9_]+).*/\4/p' "$list" | sort -u >"$list.types"
sed 's,//.*,,' tests/tests/runtimes/public_types.rs | grep -oE '[A-Za-z_][A-Za-z0-9_]*' | sort -u >"$list.named"
if comm -23 "$list.types" "$list.named" | grep .; then
    echo "ci/api.sh: tests/tests/runtimes/public_types.rs does not name these public types; add a line for each" >&2
    exit 1
fi
echo "ci/api.sh: $(wc -l <"$list") lines of API, $(wc -l <"$list.types") types"

RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo +nightly doc --quiet -p monochrome -p monochrome-inspect -p monochrome-sim --no-deps --features "$features"
