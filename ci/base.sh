#!/usr/bin/env bash
# Prints the commit with which samples of checks compare, to choose what a change touches: BASE if it is set, else the newest tag, else the
# newest commit that is four hours older than HEAD, else the first commit.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -n "${BASE:-}" ]; then
    git rev-parse --verify "$BASE^{commit}"
elif tag=$(git describe --tags --abbrev=0 2>/dev/null); then
    git rev-parse --verify "$tag^{commit}"
else
    earlier=$(($(git log -1 --format=%ct) - 14400))
    commit=$(git rev-list -1 --before="$earlier" HEAD)
    echo "${commit:-$(git rev-list --max-parents=0 HEAD | tail -n 1)}"
fi
