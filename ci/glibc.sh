#!/usr/bin/env bash
# Runs the tests of green threads with thread-locals of their own on later versions of glibc than this system's: those of Debian's
# releases, unpacked into a folder. Needs the network and dpkg-deb; not part of .ci/run.
# Usage: ci/glibc.sh [RELEASE ..]   (default: trixie sid, with glibc 2.41 and a later one)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- trixie sid
folder=${CARGO_TARGET_DIR:-$PWD/target}/glibc
archive=http://deb.debian.org/debian

# unpack RELEASE PACKAGE ..: unpacks the packages of that release.
unpack() {
    local release=$1 package path
    shift
    mkdir -p "$folder/$release"
    curl -fsS "$archive/dists/$release/main/binary-amd64/Packages.xz" | xz -d >"$folder/$release.list"
    for package in "$@"; do
        path=$(awk -v RS= -v name="$package" '$2 == name { print }' "$folder/$release.list" | sed -n 's/^Filename: //p')
        curl -fsS -o "$folder/package.deb" "$archive/$path"
        dpkg-deb -x "$folder/package.deb" "$folder/$release"
    done
}

for release in "$@"; do
    [ -d "$folder/$release" ] || unpack "$release" libc6 libgcc-s1
    root=$folder/$release
    libraries=$root/usr/lib/x86_64-linux-gnu
    # Only the test program itself is linked anew: it has its loader and the folder of its libraries.
    program=$(cargo rustc --quiet -p tests --test thread --message-format=json -- \
        -C "link-arg=-Wl,--dynamic-linker=$libraries/ld-linux-x86-64.so.2,-rpath=$libraries,--disable-new-dtags" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    echo "+ $release: $(strings "$libraries/libc.so.6" | grep -m 1 '^GNU C Library')"
    "$program" own_locals
done

# Where the functions that make a block cannot be looked up, the program says so.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --target x86_64-unknown-linux-gnu --example hello
program=${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/debug/examples/hello
said=$(RUNTIME_THREAD_LOCALS=green "$program" 2>&1) && { echo "ci/glibc.sh: a static program is not refused" >&2; exit 1; }
grep -q "a green thread cannot have thread-locals of its own here" <<<"$said" || { echo "$said" >&2; exit 1; }
echo "+ static: refused"
