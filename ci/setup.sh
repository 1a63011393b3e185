#!/usr/bin/env bash
# Installs what tests and CI need beside Rust (Debian, as root): valgrind counts instructions, gcc-multilib links for 32 bits, the rest are real clients of
# the examples' servers, and servers for their client (examples/tests/clients.rs).
set -euo pipefail
packages=(curl gcc-multilib netcat-openbsd nghttp2-client nghttp2-server openssl python3 redis-tools valgrind wrk)
missing=()
for package in "${packages[@]}"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "ci/setup.sh: all there: ${packages[*]}"
    exit 0
fi
apt-get update
DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
