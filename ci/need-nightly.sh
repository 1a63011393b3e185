#!/usr/bin/env bash
# Installs components of the nightly toolchain that SCRIPT needs. Usage: ci/need-nightly.sh SCRIPT [COMPONENT ..]
# Exits with 0 if the toolchain has them, and with 3 if they cannot be had and SCRIPT is to be left out. With CI=true that is an error.
set -euo pipefail
script=$1
shift
have_all() {
    cargo +nightly --version && if [ $# -gt 0 ]; then rustup component add --toolchain nightly "$@"; fi
}
if log=$(have_all "$@" 2>&1); then
    exit 0
fi
echo "$log" >&2
echo "$script was NOT run: the nightly toolchain${*:+, or one of its components ($*),} cannot be had" >&2
[ "${CI:-}" = true ] && exit 1
exit 3
