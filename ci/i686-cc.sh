#!/usr/bin/env bash
# Compiles and links C for 32-bit x86 (ci/elsewhere.sh). Debian's package gcc-multilib has what it needs.
exec cc -m32 "$@"
