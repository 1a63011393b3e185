#!/usr/bin/env bash
# Installs the Debian packages and the cargo-nextest that tests and CI need beside Rust. Needs root. chromium opens the debug page.
# codespell checks the spelling. valgrind counts instructions. gdb and lldb run the scripts of runtime/debug. graphviz draws the pictures of
# the guide. gcc-multilib links 32-bit programs. clang, binutils-aarch64-linux-gnu, the two packages of arm64-cross and qemu-user build and
# run programs for 64-bit Arm. mariadb-server, postgresql and redis-server are servers for tests/crates, openssl makes their certificates,
# and wrk and nghttp2-client send them requests. libcurl, libpq, libssl and libsqlite3 are linked in tests, with pkg-config. Other packages are clients
# and servers for examples/tests/clients.rs. memcached, pigz, ripgrep, stress-ng, xz-utils and zstd are programs with threads, for
# runtime/preload. libpython3.11-testsuite has CPython's tests, for ci/suites.sh. libjemalloc, libmimalloc and libtcmalloc are for
# ci/allocators.sh. iproute2 makes the networks of ci/suites.sh.
# The Python package `perfetto`, Perfetto's schema for tests/tests/inspect/trace_perfetto.rs,
# goes into a virtual environment in target/perfetto.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(binutils-aarch64-linux-gnu chromium clang codespell curl gcc-multilib gdb graphviz iproute2 libc6-dev-arm64-cross libgcc-12-dev-arm64-cross lldb libcurl4-openssl-dev libjemalloc2 libmimalloc2.0 libpq-dev libsqlite3-dev
    libpython3.11-testsuite libssl-dev libtcmalloc-minimal4 mariadb-server netcat-openbsd memcached nghttp2-client nghttp2-server openssl pigz pkg-config postgresql python3 python3-lldb python3-venv qemu-user redis-server redis-tools ripgrep stress-ng valgrind wrk xz-utils zstd)
missing=()
for package in "${packages[@]}"; do
    dpkg -s "$package" >/dev/null 2>&1 || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
    echo "ci/setup.sh: all installed: ${packages[*]}"
else
    apt-get update
    DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
fi
# A debug build: it is built in a third of the time.
command -v cargo-nextest >/dev/null || cargo install --quiet --locked --debug cargo-nextest
if ! target/perfetto/bin/python -c 'import perfetto.protos' 2>/dev/null; then
    python3 -m venv target/perfetto
    target/perfetto/bin/pip install --quiet perfetto protobuf
fi
