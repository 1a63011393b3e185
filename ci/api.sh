#!/usr/bin/env bash
# Compares the public API of the runtime, with the features of its documentation, with the list in ci/api.txt, so that no change of it goes
# unseen. Also checks that tests/tests/runtimes/public_types.rs names each public type, and builds the documentation as docs.rs does. Needs a nightly
# toolchain, and installs cargo-public-api. Usage: ci/api.sh [--renew]   (--renew writes the list anew)
set -euo pipefail
cd "$(dirname "$0")/.."
ci/need-nightly.sh ci/api.sh || exit $(($? == 3 ? 0 : 1))
tools=$(ci/tool.sh cargo-public-api 0.52.0)
export PATH="$tools:$PATH" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/nightly"

features=$(ci/features-of-docs.sh)
list=$(mktemp)
trap 'rm -f "$list" "$list".*' EXIT
# Without blanket implementations, which come from other crates, auto traits, which public_types.rs checks, and derived implementations.
cargo +nightly public-api -p monochrome --features "$features" --omit blanket-impls,auto-trait-impls,auto-derived-impls --color never >"$list" 2>"$list.log" ||
    { cat "$list.log" >&2; exit 1; }
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

RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo +nightly doc --quiet -p monochrome --no-deps --features "$features"
