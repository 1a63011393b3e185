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

# The crates with items that `monochrome` re-exports, each with the features of its documentation. The program looks into one crate at a
# time, so a type that moves from one to the other is reported as missing there.
packages() {
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, os, sys
meta = json.load(sys.stdin)
for package in meta["packages"]:
    if package["name"] in ("monochrome", "monochrome-inspect", "monochrome-sim"):
        manifest = os.path.relpath(package["manifest_path"], meta["workspace_root"])
        print(package["name"], manifest, ",".join(package["metadata"]["docs"]["rs"]["features"]))
'
}
ci/features-of-docs.sh >/dev/null
failed=""
while read -r package manifest features; do
    if ! git cat-file -e "$baseline:$manifest" 2>/dev/null; then
        echo "+ $package: the baseline has no such crate"
        continue
    fi
    echo "+ $package"
    cargo semver-checks --package "$package" --only-explicit-features --features "$features" --baseline-rev "$baseline" ||
        failed="$failed $package"
done < <(packages)
if [ -n "$failed" ]; then
    echo "ci/semver.sh: not only grown:$failed" >&2
    exit 1
fi
