#!/usr/bin/env bash
# Runs the tests of green threads with thread-locals of their own on later versions of glibc than this system's: those of Debian's
# releases, unpacked into a folder. Then the same for 64-bit Arm, under qemu-user, and the tests of threads and sockets on glibc 2.31, for
# which zig links. Needs the network, dpkg-deb, python3 with venv, and what ci/aarch64.sh needs; not part of .ci/run.
# Usage: ci/glibc.sh [RELEASE ..]   (default: trixie sid, with glibc 2.41 and a later one)
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- trixie sid
folder=${CARGO_TARGET_DIR:-$PWD/target}/glibc
archive=http://deb.debian.org/debian

# unpack RELEASE ARCHITECTURE FOLDER: unpacks glibc of that release.
unpack() {
    local release=$1 architecture=$2 into=$3 package path
    mkdir -p "$into"
    curl -fsS "$archive/dists/$release/main/binary-$architecture/Packages.xz" | xz -d >"$into.list"
    for package in libc6 libgcc-s1; do
        path=$(awk -v RS= -v name="$package" '$2 == name { print }' "$into.list" | sed -n 's/^Filename: //p')
        curl -fsS -o "$folder/package.deb" "$archive/$path"
        dpkg-deb -x "$folder/package.deb" "$into"
    done
}

# version LIBC: prints the version of that glibc.
version() {
    strings "$1" | grep -m 1 '^GNU C Library'
}

for release in "$@"; do
    [ -d "$folder/$release" ] || unpack "$release" amd64 "$folder/$release"
    root=$folder/$release
    libraries=$root/usr/lib/x86_64-linux-gnu
    # Only the test program itself is linked anew: it has its loader and the folder of its libraries.
    program=$(cargo rustc --quiet -p tests --test thread --message-format=json -- \
        -C "link-arg=-Wl,--dynamic-linker=$libraries/ld-linux-x86-64.so.2,-rpath=$libraries,--disable-new-dtags" |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    echo "+ $release: $(version "$libraries/libc.so.6")"
    "$program" own_locals
done

# The emulator takes the loader and the libraries from a folder, so the program is linked as always. Three tests fail under it: ci/aarch64.sh
# says why.
target=aarch64-unknown-linux-gnu
program=$(CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$PWD/ci/aarch64-cc.sh cargo test --quiet --no-run --target "$target" -p tests \
    --test thread --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
for release in "$@"; do
    root=$folder/$release-arm64
    [ -d "$root" ] || unpack "$release" arm64 "$root"
    ln -sfn usr/lib "$root/lib"
    echo "+ $release, 64-bit Arm: $(version "$root/usr/lib/aarch64-linux-gnu/libc.so.6")"
    TESTS_RUNNER="qemu-aarch64 -L $root" TESTS_CC=$PWD/ci/aarch64-cc.sh qemu-aarch64 -L "$root" "$program" own_locals \
        --skip a_child_of_fork_goes_on --skip blocks_end_with_their_runtime --skip memory_is_not_kept_by_each_green_thread
done

# A program that this system's compiler links needs a later glibc than 2.31. There is no function for the size of thread-locals there, so
# green threads with thread-locals of their own are refused. Without names of functions there are no reports for `panic_report`. The C library
# opens others by the path in the environment, to resolve names.
root=$folder/bullseye
[ -d "$root" ] || unpack bullseye amd64 "$root"
libraries=$root/lib/x86_64-linux-gnu
echo "+ bullseye: $(version "$libraries/libc.so.6")"
for test in thread net; do
    program=$(RUSTFLAGS="-C link-arg=-Wl,--dynamic-linker=$libraries/ld-2.31.so,-rpath=$libraries" CARGO_PROFILE_DEV_DEBUG=0 \
        ci/zig.sh --quiet --target x86_64-unknown-linux-gnu.2.31 -p tests --test $test --message-format=json |
        sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -n 1)
    (cd tests && env LD_LIBRARY_PATH="$libraries" "$program" --test-threads 4 --skip own_locals --skip pin_and_polls:: --skip panic_report::)
done

# Where the functions that make a block cannot be looked up, the program says so.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --quiet --target x86_64-unknown-linux-gnu --example hello
program=${CARGO_TARGET_DIR:-target}/x86_64-unknown-linux-gnu/debug/examples/hello
said=$(RUNTIME_THREAD_LOCALS=green "$program" 2>&1) && { echo "ci/glibc.sh: a static program is not refused" >&2; exit 1; }
grep -q "a green thread cannot have thread-locals of its own here" <<<"$said" || { echo "$said" >&2; exit 1; }
echo "+ static: refused"
