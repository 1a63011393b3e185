#!/usr/bin/env bash
# Checks with cargo-semver-checks that the public API only grows, but for what CHANGELOG.md names as breaking. The baseline is a commit: the
# argument, or the tag of the newest version in CHANGELOG.md, or the commit that gave that version its heading there.
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

# The crates with items that `monochrome` re-exports, each with the features of its documentation.
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
# unnamed LOG: prints each failure of LOG that is a real break and that CHANGELOG.md does not name. An item that has moved to another crate is
# re-exported under its path: ci/api.txt has it. A break is named if an entry with **Breaking:** under "Unreleased" has its path in backquotes, or that of its
# module.
unnamed() {
    python3 - "$1" <<'END'
import re, sys

api = open("ci/api.txt").read()
unreleased = re.split(r"^## ", open("CHANGELOG.md").read(), flags=re.M)[1]
entries = re.split(r"^- ", unreleased, flags=re.M)
named = re.findall(r"`([\w:-]+)`", " ".join(e for e in entries if e.startswith("**Breaking:**")))

def moved(path):
    return re.search(r"^(#\[.*\] )?pub [a-z ]*\b" + re.escape(path) + r"(?![\w:])", api, re.M)

for part in open(sys.argv[1]).read().split("--- failure ")[1:]:
    for line in part.split("Failed in:\n", 1)[1].splitlines():
        if not line.startswith("  "):
            break
        found = re.match(r"  (?:enum|struct|trait|union|function|macro|mod|const|static|feature) ([\w:-]+)", line)
        name = found and found[1]
        path = (name or "").removeprefix("runtime::") + "::"
        if not (name and (moved(name) or any(path.startswith(of + "::") for of in named))):
            print(part.split(":", 1)[0] + ":" + line[1:])
END
}
ci/features-of-docs.sh >/dev/null
failed=""
log=$(mktemp)
trap 'rm -f "$log"' EXIT
while read -r package manifest features; do
    if ! git cat-file -e "$baseline:$manifest" 2>/dev/null; then
        echo "+ $package: the baseline has no such crate"
        continue
    fi
    echo "+ $package"
    if cargo semver-checks --color never --package "$package" --only-explicit-features --features "$features" --baseline-rev "$baseline" >"$log" 2>&1; then
        continue
    fi
    breaks=$(unnamed "$log")
    # A failure of the program itself reports no break.
    if [ -n "$breaks" ] || ! grep -q 'semver requires new' "$log"; then
        cat "$log"
        echo "not named in CHANGELOG.md:"
        echo "$breaks"
        failed="$failed $package"
    else
        grep '^ *Checked\|Summary' "$log"
        echo "each break is named in CHANGELOG.md"
    fi
done < <(packages)
if [ -n "$failed" ]; then
    echo "ci/semver.sh: breaks that CHANGELOG.md does not name:$failed" >&2
    exit 1
fi
