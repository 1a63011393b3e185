#!/usr/bin/env bash
# Compiles and links C for 64-bit Arm; rustc links by it, too (ci/aarch64.sh). It is clang, because Debian's gcc for this processor and
# gcc-multilib (ci/cross.sh) cannot be installed at the same time.
exec clang --target=aarch64-linux-gnu "$@"
