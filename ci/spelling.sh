#!/usr/bin/env bash
# Checks the spelling of all texts in the repository. Needs codespell; .codespellrc has the words that it does not know.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v codespell >/dev/null; then
    echo "ci/spelling.sh was NOT run: codespell is not installed (Debian: apt-get install codespell)" >&2
    [ "${CI:-}" = true ] && exit 1
    exit 0
fi
# Not pictures, raw figures, lists that tools write, and inputs of parsers.
git grep -lI '' -- ':!*.svg' ':!*.jsonl' ':!*.lock' ':!examples/fuzz/seeds' ':!ci/api.txt' ':!benches/instructions.txt' ':!benches/lines.txt' | xargs -d '\n' codespell --config .codespellrc
echo "ci/spelling.sh: no mistake found"
