#!/usr/bin/env bash
# Sees to it that the nightly toolchain has these components. Usage: ci/need-nightly.sh SCRIPT COMPONENT ..
# Exits with 0 if it has them, with 3 if they cannot be had and SCRIPT is to be left out. With CI=true that is an error.
set -euo pipefail
script=$1
shift
if log=$(cargo +nightly --version 2>&1 && rustup component add --toolchain nightly "$@" 2>&1); then
    exit 0
fi
echo "$log" >&2
echo "$script was NOT run: the nightly toolchain, or one of its components ($*), cannot be had" >&2
[ "${CI:-}" = true ] && exit 1
exit 3
