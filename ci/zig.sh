#!/usr/bin/env bash
# Builds with zig as the compiler of C and the linker: for macOS and FreeBSD, and for older versions of glibc.
# Fetches zig and cargo-zigbuild from PyPI into a folder of its own.
# Usage: ci/zig.sh ARGUMENT ..   (those of `cargo zigbuild`)
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
folder=$(realpath -m "${ZIG_FOLDER:-$here/target/zig}")
if [ ! -x "$folder/bin/cargo-zigbuild" ]; then
    python3 -m venv "$folder"
    "$folder/bin/pip" --quiet --disable-pip-version-check install ziglang==0.17.1 cargo-zigbuild==0.24.1
fi
PATH=$folder/bin:$PATH exec cargo zigbuild "$@"
