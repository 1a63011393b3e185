#!/usr/bin/env bash
# Boots older Linux kernels of Debian and Ubuntu in qemu, and runs examples and tests on each. The kernels, and qemu where the system has none, come as
# packages by apt, and are only unpacked into a folder. What cannot be had is named as NOT RUN; the script fails if nothing can be had, or
# with KERNELS_MISSING=fail. It uses KVM where a kernel boots with it, else qemu's emulation. Needs Debian's apt-get and the network; part of
# ci/nightly.sh, not of .ci/run.
# Usage: ci/kernels.sh [--all] [RELEASE ..]   (default: Ubuntu's focal and jammy with Linux 5.4 and 5.15, Debian's bullseye, bookworm and
#        trixie with 5.10, 6.1 and 6.12; --all: whole test programs, four minutes for each kernel under emulation)
# The kernel of the last release boots once more for 1,500 processors, of which it finds two.
set -euo pipefail
cd "$(dirname "$0")/.."
all=""
[ "${1:-}" != --all ] || { all=yes; shift; }
[ $# -gt 0 ] || set -- focal bullseye jammy bookworm trixie
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$target/kernels
seconds=1800
mkdir -p "$folder"

# of_ubuntu RELEASE: true if the release is one of Ubuntu's.
of_ubuntu() { [[ $1 = focal || $1 = jammy ]]; }
ubuntus_keys=/usr/share/keyrings/ubuntu-archive-keyring.gpg

# has_ubuntus_keys: true if the keys of Ubuntu's archive are there, after fetching them: Debian 12 has no package of them.
has_ubuntus_keys() {
    local at=$folder/ubuntu file=ubuntu-keyring_2021.03.26_all.deb
    [ ! -e "$at$ubuntus_keys" ] || return 0
    mkdir -p "$at"
    /usr/lib/apt/apt-helper download-file "http://archive.ubuntu.com/ubuntu/pool/main/u/ubuntu-keyring/$file" "$at/$file" \
        SHA256:0d0e7ed6b112f5d03eabf3c7eb01ebdacf9c57714b279e90495cfc58c8c4520f && dpkg-deb -x "$at/$file" "$at"
}

# of_release RELEASE COMMAND ..: runs a command of apt with the packages of that release alone. The system's own lists stay as they are.
of_release() {
    local release=$1 at=$folder/apt/$1 line
    shift
    mkdir -p "$at/lists/partial" "$at/cache/archives/partial"
    if of_ubuntu "$release"; then
        line="deb [arch=amd64 signed-by=$folder/ubuntu$ubuntus_keys] http://archive.ubuntu.com/ubuntu"
        printf '%s\n' "$line $release main" "$line $release-updates main" >"$at/sources.list"
    else
        line="deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org"
        printf '%s\n' "$line/debian $release main" "$line/debian-security $release-security main" >"$at/sources.list"
    fi
    printf '%s "%s";\n' Dir::Etc::SourceList "$at/sources.list" Dir::Etc::SourceParts - Dir::State::Lists "$at/lists" \
        Dir::Cache "$at/cache" APT::Sandbox::User root >"$at/apt.conf"
    APT_CONFIG=$at/apt.conf "$@"
}

# has_kernel RELEASE: true if the kernel of that release lies in the folder, after fetching it.
has_kernel() {
    local at=$folder/$1 package meta=linux-image-cloud-amd64
    [ ! -e "$at/vmlinuz" ] || return 0
    mkdir -p "$at"
    if of_ubuntu "$1"; then
        meta=linux-image-virtual
        has_ubuntus_keys >"$at/log" 2>&1 || return 1
    fi
    of_release "$1" apt-get -q update >"$at/log" 2>&1 &&
        package=$(of_release "$1" apt-cache depends $meta 2>>"$at/log" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1) &&
        [ -n "$package" ] && (cd "$at" && of_release "$1" apt-get -q download "$package" >>log 2>&1) &&
        dpkg-deb --fsys-tarfile "$at/$package"_*.deb | tar -xO --wildcards './boot/vmlinuz-*' >"$at/kernel" && mv "$at/kernel" "$at/vmlinuz" && rm "$at"/*.deb
}

# has_tools: true if qemu, a static busybox and cpio are there, after fetching what the system has not.
has_tools() {
    local root=$folder/tools package
    PATH=$root/usr/bin:$root/bin:$PATH
    options=(-L "$root/usr/share/qemu" -L "$root/usr/share/seabios")
    if command -v qemu-system-x86_64 cpio >/dev/null && [ -x "$root/bin/busybox" ]; then return 0; fi
    mkdir -p "$root"
    local packages=(busybox-static cpio)
    # With all libraries that the system has not.
    command -v qemu-system-x86_64 >/dev/null ||
        mapfile -t -O 2 packages < <(apt-get -s --no-install-recommends install qemu-system-x86 | sed -n 's/^Inst \([^ ]*\).*/\1/p')
    (cd "$root" && apt-get -q -o APT::Sandbox::User=root download "${packages[@]}" >log 2>&1) || return 1
    for package in "$root"/*.deb; do dpkg-deb -x "$package" "$root"; done
    rm "$root"/*.deb
    command -v qemu-system-x86_64 cpio >/dev/null && [ -x "$root/bin/busybox" ]
}

# qemu KERNEL INITRD ACCELERATION ..: boots the kernel until its first process ends it. `words` are more for it.
words=""
qemu() {
    local libraries=$folder/tools/usr/lib/x86_64-linux-gnu:$folder/tools/lib/x86_64-linux-gnu
    LD_LIBRARY_PATH=$libraries timeout "$seconds" qemu-system-x86_64 "${options[@]}" "${@:3}" -smp 2 -m 3072 -nodefaults -no-reboot \
        -display none -serial stdio -kernel "$1" -initrd "$2" -append "console=ttyS0 quiet panic=-1 $words" </dev/null | tr -d '\r'
}

# packs FOLDER FILE: makes the file with which a kernel begins.
packs() { (cd "$1" && find . | cpio -o -H newc --quiet | gzip -1) >"$2"; }

# executable NAME ARGUMENT ..: builds a program, and prints where it is.
executable() {
    cargo "${@:2}" --quiet --locked --release --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | grep -E "/$1(-[0-9a-f]+)?\$"
}

# install FOLDER NAME PROGRAM: puts a program and its libraries there.
install() {
    local library
    strip -o "$1/programs/$2" "$3"
    for library in $(ldd "$3" | grep -o '/[^ ]*'); do
        [ -e "$1$library" ] || { mkdir -p "$1$(dirname "$library")" && cp -L "$library" "$1$library"; }
    done
}

# What the first process does: it runs each line of /steps, or of the file that a word of the kernel names. It
# prints how that has ended.
first_process() {
    cat <<'END'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin TESTS_HANG_SECS=240 HOME=/tmp
mkdir -p /proc /sys /dev /tmp /root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mount -t tmpfs tmp /tmp
mkdir -p /dev/shm /dev/pts; mount -t tmpfs shm /dev/shm; mount -t devpts pts /dev/pts
ip link set lo up
# An emulated processor falls behind, and the kernel drops what has come for it: also datagrams, for which tests wait.
echo 1000000 >/proc/sys/net/core/netdev_max_backlog
# Tests open files of the folder in which they run.
cp /words/Cargo.toml /tmp
cd /tmp
ulimit -n 30000
steps=$(sed -n 's/.*steps=\([^ ]*\).*/\1/p' /proc/cmdline)
echo "kernel: $(uname -r), $(cat /proc/sys/vm/max_map_count) mappings"
while read -r line; do
    echo "+ $line"
    (set -o pipefail; eval "$line") </dev/null >/tmp/out 2>&1
    code=$?
    # What names the test: a dump of one that hangs is longer than the tail.
    [ $code = 0 ] || grep -A 1 -E "panicked at|^test .* (FAILED|has been running)" /tmp/out | head -n 60
    tail -n 60 /tmp/out
    echo "ended with $code: $line"
done <"${steps:-/steps}"
echo "all steps have ended"
reboot -f
END
}

has_tools || { echo "ci/kernels.sh: NOT RUN: qemu, cpio or busybox cannot be had" >&2; [ "${KERNELS_MISSING:-}" = skip ] && exit 0; exit 1; }
export CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_OPT_LEVEL=1
root=$folder/root
rm -rf "$root"
mkdir -p "$root/bin" "$root/etc" "$root/programs" "$root/words"
cp "$folder/tools/bin/busybox" "$root/bin/"
cp examples/*.rs "$root/words/"
cp tests/Cargo.toml "$root/words/"
printf '127.0.0.1 localhost\n::1 localhost\n' >"$root/etc/hosts"
for example in hello sieve tour timers echo process; do install "$root" "$example" "$(executable "$example" build --example "$example")"; done
# What these print is the same everywhere, but for one figure and the order of the lines.
same="sed 's/ in [^ ]*;/;/' | sort"
for example in hello sieve; do "$root/programs/$example" | eval "$same" >"$root/words/$example.expected"; done
for program in system net thread sync load runtimes; do install "$root" "$program" "$(executable "$program" test -p tests --no-run --test "$program")"; done
# Tests start this one by the path at which it was built.
mkdir -p "$root$target/release"
install "$root" child "$target/release/child"
ln -s /programs/child "$root$target/release/child"
first_process >"$root/init"
chmod +x "$root/init"

# The steps. Each is to end with 0. 28,000 stacks with two mappings each fit the default of vm.max_map_count, and
# 40,000 do not. The rest wait for stacks, but what is spawned after the kernel has refused one is refused, with the
# reason; who is first is chance. The tests of `refused` run a program of all the basics. There is no compiler for
# `own_locals_libraries`, and programs without names of functions have no reports for `panic_report`.
if [ "$all" ]; then
    tests=("net --test-threads 4" "system --test-threads 4" "thread --test-threads 4 --skip own_locals_libraries --skip panic_report"
        "sync --test-threads 4" "load --test-threads 2 threads:: limits:: trim::")
else
    tests=("system --test-threads 2 refused::newer_waits process:: signals_ stdin::" "net --test-threads 2 tcp:: udp:: unix:: descriptors:: poll::"
        "load --test-threads 2 mappings os_threads_of_a_burst")
fi
{
    for example in hello sieve; do echo "/programs/$example | $same | cmp - /words/$example.expected"; done
    echo "/programs/tour /words --sleepers 28000"
    echo "/programs/tour /words --sleepers 40000 || grep -q 'cannot spawn a green thread: .* raise vm.max_map_count' /tmp/out"
    printf '/programs/%s\n' "timers 10000 --rounds 1" "echo --clients 50 --secs 2" process
    printf '/programs/%s\n' "${tests[@]}"
    echo "TESTS_HOT_PLUG=1 /programs/runtimes --test-threads 1 processors::the_default_number_follows_"
} >"$root/steps"
# A kernel that could have more than 1,024 processors answers no question for fewer.
printf '/programs/%s\n' hello "runtimes --test-threads 1 processors::the_default_number_follows_the_set" >"$root/steps-many"
packs "$root" "$folder/root.gz"

# KVM may be there and not work, as in some virtual machines. So one kernel is tried with it, to its first process.
emulated=(-accel tcg,thread=multi -cpu max) acceleration=()
choose_acceleration() {
    acceleration=("${emulated[@]}")
    [ -w /dev/kvm ] || return 0
    mkdir -p "$folder/trial/bin" "$folder/trial/proc"
    cp "$folder/tools/bin/busybox" "$folder/trial/bin/"
    printf '%s\n' '#!/bin/busybox sh' '/bin/busybox echo "KVM works"' '/bin/busybox reboot -f' >"$folder/trial/init"
    chmod +x "$folder/trial/init"
    packs "$folder/trial" "$folder/trial.gz"
    if seconds=20 qemu "$1" "$folder/trial.gz" -accel kvm -cpu host 2>/dev/null | grep -q 'KVM works'; then
        acceleration=(-accel kvm -cpu host)
    fi
    echo "ci/kernels.sh: qemu with ${acceleration[*]}"
}
table=$(printf '%-14s %-28s %8s  %s' release kernel seconds result) ran=0 failed=0
# runs RELEASE NAME: boots the kernel of that release, and adds a line of that name to the table.
runs() {
    local start=$SECONDS version=- result log
    if ! has_kernel "$1"; then
        result="NOT RUN: cannot be had"
        [ "${KERNELS_MISSING:-}" != fail ] || failed=1
        cat "$folder/$1/log" >&2
    else
        log=$folder/$2.log
        [ ${#acceleration[@]} != 0 ] || choose_acceleration "$folder/$1/vmlinuz"
        echo "+ $2"
        qemu "$folder/$1/vmlinuz" "$folder/root.gz" "${acceleration[@]}" | tee "$log" || true
        version=$(sed -n 's/^kernel: \([^,]*\),.*/\1/p' "$log")
        ran=1 result=passed
        grep -q '^all steps have ended' "$log" && ! grep -q '^ended with [1-9]' "$log" || { result=FAILED failed=1; }
    fi
    table+=$(printf '\n%-14s %-28s %8s  %s' "$2" "$version" $((SECONDS - start)) "$result")
}
for release in "$@"; do
    runs "$release" "$release"
done
words="possible_cpus=1500 steps=/steps-many" runs "$release" "$release-many"
echo "$table"
# Without any kernel nothing was checked.
[ $ran = 1 ] || [ "${KERNELS_MISSING:-}" = skip ] || failed=1
exit $failed
