#!/usr/bin/env bash
# Installs a program of cargo's registry, once for all checkouts of this user, and prints the folder of its program.
# Usage: ci/tool.sh NAME VERSION
set -euo pipefail
folder=${XDG_CACHE_HOME:-$HOME/.cache}/monochrome/$1-$2
# A debug build: it is built in a third of the time, and runs for a second. Not in the target folder of this checkout. An install that was
# ended leaves a folder without the program.
[ -x "$folder/bin/$1" ] || env -u CARGO_TARGET_DIR -u RUSTFLAGS cargo install --quiet --locked --debug --root "$folder" --version "$2" "$1" >&2
echo "$folder/bin"
