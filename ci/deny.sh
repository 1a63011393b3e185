#!/usr/bin/env bash
# Checks the licences, the sources and the versions of all dependencies against deny.toml, and with --advisories also whether a known
# weakness is reported for a version in Cargo.lock, which needs the network. Installs cargo-deny. With
# --if-changed the script does nothing unless the dependencies have changed since the commit of ci/base.sh; ci/nightly.sh always checks.
# Usage: ci/deny.sh [--advisories | --if-changed]
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --if-changed ] && git diff --quiet "$(ci/base.sh)" -- deny.toml Cargo.lock; then
    echo "ci/deny.sh: no dependency has changed"
    exit
fi
checks=(licenses bans sources)
[ "${1:-}" = --advisories ] && checks+=(advisories)
tools=$(ci/tool.sh cargo-deny 0.20.2)
"$tools/cargo-deny" check "${checks[@]}"
