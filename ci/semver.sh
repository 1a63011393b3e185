#!/usr/bin/env bash
# Checks with cargo-semver-checks that the public API only grows until the next breaking version. The baseline is a commit: the argument, or
# the tag of the newest version in CHANGELOG.md, or the commit that gave that version its heading there.
# Installs cargo-semver-checks. Not part of .ci/run. Usage: ci/semver.sh [COMMIT]
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -nE 's/^## ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p' CHANGELOG.md | head -1)
baseline=${1:-}
if [ -z "$baseline" ] && [ -n "$version" ]; then
    baseline=$(git rev-parse --quiet --verify "refs/tags/v$version^{commit}" ||
        git log --reverse --format=%H -S"## $version " -- CHANGELOG.md | head -1)
fi
if [ -z "$baseline" ]; then
    echo "ci/semver.sh: CHANGELOG.md has no version, and no commit is given: there is nothing to compare with" >&2
    exit 1
fi
tools=$(ci/tool.sh cargo-semver-checks 0.51.0)
export PATH="$tools:$PATH"
echo "the baseline is $(git log -1 --format='%h %s' "$baseline")"
cargo semver-checks --package monochrome --only-explicit-features --features "$(ci/features-of-docs.sh)" --baseline-rev "$baseline"
