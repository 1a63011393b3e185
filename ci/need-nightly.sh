#!/usr/bin/env bash
# Installs the components of the nightly toolchain that SCRIPT needs. Usage: ci/need-nightly.sh SCRIPT [COMPONENT ..]
# Exits with 0 if the toolchain has the components. If they cannot be installed, exits with 3, which tells the caller to leave SCRIPT out.
# With CI=true the script then exits with 1, which is an error.
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
echo "$script was NOT run: the nightly toolchain${*:+, or one of its components ($*),} cannot be installed" >&2
[ "${CI:-}" = true ] && exit 1
exit 3
