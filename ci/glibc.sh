#!/usr/bin/env bash
# Runs the tests of green threads with thread-locals of their own on other versions of glibc than this system's: those of Debian's
# releases, unpacked into a folder. Each program is linked for its glibc. Needs the network and dpkg-deb; not part of .ci/run.
# Usage: ci/glibc.sh [RELEASE ..]   (default: bullseye trixie sid, with glibc 2.31, 2.41 and a later one)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- bullseye trixie sid
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
    [ -d "$folder/$release" ] || unpack "$release" libc6 libc6-dev linux-libc-dev libcrypt1 libcrypt-dev libgcc-s1
    root=$folder/$release
    loader=$(find "$root" -name 'ld-linux-x86-64.so.2' | head -n 1)
    libraries=$(find "$root" -type d -name x86_64-linux-gnu | grep -v include | paste -sd:)
    program=$(cargo rustc --quiet -p tests --test thread --message-format=json -- -C "link-arg=--sysroot=$root" \
        -C "link-arg=-Wl,--dynamic-linker=$loader,-rpath=$libraries,--disable-new-dtags" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    echo "+ $release: $("$loader" --version | head -n 1)"
    "$program" own_locals::
done
