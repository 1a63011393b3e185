#!/usr/bin/env bash
# Runs the own tests of std, of crates and of CPython, as unmodified programs: with OS threads, and by `monochrome run` with green threads.
# Then it runs tokio's own tests over this project's types: tests/crates/suites/by-path renames paths and methods, and has what is left out.
# Fails if a test passes with OS threads and not with green threads, or if a program with green threads hangs or crashes.
# std's tests are those of the nightly toolchain's component rust-src. tests/crates/suites/crates.txt lists the crates, whose packages have
# their tests; servers.sh beside it starts servers for some of these. CPython's tests are those of Debian's
# libpython3.11-testsuite. tests/crates/suites/left-out.txt lists what is left out, and why.
# Usage: ci/suites.sh [--times N] [--sample | --lock | SUITE ..]
#   --times N  runs each program N times with green threads, every other time beside processes that compute
#   --sample   std's tests of locks, threads, thread-locals and modules only, with the launcher of a debug build: part of .ci/run
#   --lock     writes tests/crates/suites/Cargo.lock anew, after a change of crates.txt
#   SUITE      `std`, `python`, `by-path`, or a crate of crates.txt
set -euo pipefail
cd "$(dirname "$0")/.."
given=$PWD/tests/crates/suites
std=$(rustc +nightly --print sysroot 2>/dev/null || true)/lib/rustlib/src/rust/library/std
target=$(realpath -m "${CARGO_TARGET_DIR:-tests/crates/target}")
work=$target/suites
export CARGO_INCREMENTAL=0 CARGO_TARGET_DIR=$target
times=1 profile=release failed=0 left_out=0 passed=0
mkdir -p "$work/logs"

# The longest that a program may take, in seconds.
readonly LIMIT=400

computing=()
stop_computing() {
    [ ${#computing[@]} -eq 0 ] || kill "${computing[@]}" 2>/dev/null || true
    computing=()
}

. "$given/servers.sh"
trap 'stop_computing; stop_server' EXIT

fail() {
    echo "FAILED: $*"
    failed=1
}

build_launcher() {
    local release=()
    [ "$profile" = debug ] || release=(--release)
    cargo build --quiet --locked "${release[@]}" --manifest-path tests/crates/Cargo.toml -p monochrome-preload
}

# left_out PROGRAM: prints the tests of a program that are left out.
left_out() { sed -n "s|^$1 \([^ ]*\): .*|\1|p" "$given/left-out.txt"; }

# run MODE LOG COMMAND ..: runs a program in $folder. A green program that hangs prints what its threads wait for, before it is killed.
run() {
    local mode=$1 log=$2 launcher=()
    shift 2
    [ "$mode" = os ] || launcher=(env RUNTIME_DUMP=QUIT "$target/$profile/monochrome" run)
    (cd "$folder" && exec "${network[@]}" timeout -k 10 -s QUIT $LIMIT "${launcher[@]}" "$@" >"$log" 2>&1 </dev/null)
}

# compare PROGRAM KIND COMMAND ..: runs a program in both modes. passed_KIND prints the tests that passed, by a log. only_KIND prints the
# arguments that choose the tests which it reads.
compare() {
    local program=$1 kind=$2 log code=0 round missing
    shift 2
    log=$work/logs/${program//\//.}
    run os "$log.os" "$@" || code=$?
    "passed_$kind" "$log.os" | sort >"$log.os.passed"
    # A test may fail in both modes. So what counts is the tests that pass, not the code.
    [ $code -lt 124 ] || echo "$program: with OS threads it ends with $code"
    for ((round = 0; round < times; round++)); do
        if ((round % 2 == 1)); then
            for _ in $(seq "$(nproc)"); do yes >/dev/null & computing+=($!); done
        fi
        green "$program, round $round" "$log" "$kind" "$@"
        stop_computing
        missing=$(comm -23 "$log.os.passed" "$log.green.passed")
        [ -z "$missing" ] || again "$program, round $round" "$log" "$kind" "$missing" "$@"
    done
    missing=$(comm -13 "$log.os.passed" "$log.green.passed")
    [ -z "$missing" ] || echo "$program: passes only with green threads:" $missing
    summary "$program" "$(wc -l <"$log.os.passed")"
}

# green NAME LOG KIND COMMAND ..: runs a program with green threads.
green() {
    local name=$1 log=$2 kind=$3 code=0
    shift 3
    run green "$log.green" "$@" || code=$?
    "passed_$kind" "$log.green" | sort >"$log.green.passed"
    [ $code -lt 124 ] || { cp "$log.green" "$log.green.ends"; fail "$name: ends with $code: $log.green.ends"; }
}

# again NAME LOG KIND TESTS COMMAND ..: tests that have not passed with green threads may try again, thrice, because some allow
# 50 ms for what takes a busy machine longer. The output names them in either case.
again() {
    local name=$1 log=$2 kind=$3 tests=$4 try chosen
    shift 4
    cp "$log.green" "$log.green.failed"
    mapfile -t chosen < <("only_$kind" <<<"$tests")
    for try in 1 2 3; do
        green "$name, try $try" "$log" "$kind" "$@" "${chosen[@]}"
        tests=$(comm -23 <(echo "$tests") "$log.green.passed")
        [ -n "$tests" ] || { echo "$name: passes at try $try:" "${chosen[@]}"; return 0; }
        mapfile -t chosen < <("only_$kind" <<<"$tests")
    done
    fail "$name: passes only with OS threads:" $tests "($log.green.failed)"
}

# summary PROGRAM COUNT
summary() {
    passed=$((passed + $2))
    left_out=$((left_out + $(left_out "$1" | wc -l)))
    [ "$2" = 0 ] || printf '%5d tests  %s\n' "$2" "$1"
}

only_libtest() { cat; }
passed_libtest() { sed -nE 's/^test (.*) \.\.\. ok$/\1/p' "$1" | sed 's/ - should panic$//'; }

# libtest SUITE BINARY: compares a test program of Rust's.
libtest() {
    local program skip=()
    program=$1/$(basename "${2%-*}")
    mapfile -t skip < <(left_out "$program" | sed 's/^/--skip\n/')
    compare "$program" libtest "$2" --exact "${skip[@]}"
}

# build LOG ARGUMENTS ..: builds tests, and prints the paths of the programs.
build() {
    local log=$1
    shift
    CARGO_TARGET_DIR=$work/build cargo "$@" --message-format=json 2>"$log" | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' ||
        { cat "$log" >&2; return 1; }
}

# suite_of_std [PROGRAM ..]
suite_of_std() {
    local code=0 programs binary selected=()
    ci/need-nightly.sh ci/suites.sh rust-src || code=$?
    [ $code != 3 ] || return 0
    [ $code = 0 ] || exit 1
    mkdir -p "$work/std/net/udp"
    for file in Cargo.toml Cargo.lock lib.rs units.rs; do sed "s|@STD@|$std|" "$given/std/$file" >"$work/std/$file"; done
    # The one line of std's tests that reaches into a private field.
    sed 's|udpsock\.0\.socket()\.as_raw()|std::os::fd::AsRawFd::as_raw_fd(\&udpsock)|' "$std/src/net/udp/tests.rs" >"$work/std/net/udp/udp.rs"
    for binary in "$@"; do selected+=(--test "$binary"); done
    programs=$(build "$work/logs/build.std" +nightly test --no-run --locked --manifest-path "$work/std/Cargo.toml" "${selected[@]}")
    folder=$work/std
    for binary in $programs; do libtest std "$binary"; done
}

# crates: prints the lines of crates.txt: name, version, arguments.
crates() { grep -v '^#' "$given/crates.txt"; }

# Makes a workspace of the crates' packages, as cargo has downloaded them. Each is the one that the others depend on.
make_workspace() {
    local name version rest missing=() registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    while read -r name version rest; do
        compgen -G "$registry/*/$name-$version" >/dev/null || missing+=("$name = { version = \"=$version\", default-features = false }")
    done < <(crates)
    if [ ${#missing[@]} -gt 0 ]; then
        mkdir -p "$work/fetch/src"
        touch "$work/fetch/src/lib.rs"
        printf '%s\n' '[package]' 'name = "fetch"' 'edition = "2024"' '[workspace]' '[dependencies]' "${missing[@]}" >"$work/fetch/Cargo.toml"
        cargo fetch --quiet --manifest-path "$work/fetch/Cargo.toml"
    fi
    rm -rf "$work/crates"
    mkdir -p "$work/crates"
    printf '%s\n' '[workspace]' 'members = ["*"]' 'resolver = "2"' '[profile.dev]' 'debug = "line-tables-only"' '[patch.crates-io]' >"$work/crates/Cargo.toml"
    while read -r name version rest; do
        # With the times of the files, so that cargo builds what has changed only.
        cp -a "$(compgen -G "$registry/*/$name-$version" | head -n 1)" "$work/crates/$name"
        rm -f "$work/crates/$name/Cargo.lock" "$work/crates/$name/.cargo-ok"
        echo "$name = { path = \"$name\" }" >>"$work/crates/Cargo.toml"
    done < <(crates)
    # What packages leave out: redis the helper of its tests, and mysql a key, which it uses with another server only.
    printf '%s\n' '[dev-dependencies.redis-test]' 'version = "1"' >>"$work/crates/redis/Cargo.toml"
    mkdir -p "$work/crates/mysql/tests/fixtures"
    touch -d @0 "$work/crates/mysql/tests/fixtures/server-public-key.pem"
    cp "$given/Cargo.lock" "$work/crates/" 2>/dev/null || true
}

# suite_of_crate NAME
suite_of_crate() {
    local arguments programs binary
    read -ra arguments < <(crates | sed -n "s/^$1 [^ ]*//p")
    [ ${#arguments[@]} -gt 0 ] || arguments=(--lib --tests)
    programs=$(build "$work/logs/build.$1" test --no-run --locked --manifest-path "$work/crates/Cargo.toml" -p "$1" "${arguments[@]}")
    folder=$work/crates/$1
    can_serve "$1" || return 0
    start_server "$1"
    for binary in $programs; do libtest "$1" "$binary"; done
    stop_server
}

# The modules of CPython's tests that are about threads.
modules=(test_thread test_threading test_threading_local test_threadedtempfile test_queue test_sched test_concurrent_futures)

# passed_python LOG: prints the tests that passed. A log begins before the last round's report has been removed.
passed_python() {
    [ -f "$folder/report.xml" ] || return 0
    sed 's|<testcase|\n&|g' "$folder/report.xml" | grep '^<testcase.*result="completed"' | grep -v '<failure\|<error' |
        sed 's|.* name="\([^"]*\)".*|\1|'
    rm "$folder/report.xml"
}

only_python() { sed 's/^/--match\n/'; }

suite_of_python() {
    local module ignored
    folder=$work/python
    mkdir -p "$folder"
    if ! /usr/bin/python3 -c 'import test.test_threading' 2>/dev/null; then
        [ "${CI:-}" != true ] || { echo "CPython's tests are missing: run ci/setup.sh" >&2; exit 1; }
        echo "CPython's tests were NOT run: ci/setup.sh installs them" >&2
        return 0
    fi
    for module in "${modules[@]}"; do
        mapfile -t ignored < <(left_out "python/$module" | sed 's/^/--ignore\n/')
        # The interpreters that the tests start have green threads, too.
        RUNTIME_CHILDREN=green compare "python/$module" python /usr/bin/python3 -m test --junit-xml "$folder/report.xml" "${ignored[@]}" "$module"
    done
}

# left_out_by_path FILE: prints the tests of a file of tokio's that are left out.
left_out_by_path() { sed -n "s|^$1 \([^ *]*\): .*|\1|p" "$given/by-path/left-out.txt"; }

# Writes the lock file of the tests by path anew, with the versions of the crates' lock file where both have a crate.
lock_by_path() {
    mkdir -p "$work/by-path/tests"
    for file in Cargo.toml lib.rs; do sed "s|@PROJECT@|$PWD|" "$given/by-path/$file" >"$work/by-path/$file"; done
    cp "$given/Cargo.lock" "$work/by-path/"
    cargo metadata --format-version 1 --manifest-path "$work/by-path/Cargo.toml" >/dev/null
    cp "$work/by-path/Cargo.lock" "$given/by-path/"
}

# write_by_path FILE: writes a file of tokio's tests with this project's names, without the tests that are left out.
write_by_path() {
    local scripts=(-f "$given/by-path/names/all.sed")
    [ ! -f "$given/by-path/names/$1.sed" ] || scripts+=(-f "$given/by-path/names/$1.sed")
    [[ $1 != time_* ]] || scripts+=(-f "$given/by-path/names/time.sed")
    [[ $1 != fs_* ]] || scripts+=(-f "$given/by-path/names/fs.sed")
    left_out_by_path "$1" | sed 's/.*/s|^ *\\(pub \\)\\?\\(async \\)\\?fn &\\b|#[cfg(any())] \&|/' >"$folder/left-out.sed"
    sed "${scripts[@]}" -f "$folder/left-out.sed" "$tests/$1.rs" >"$folder/tests/$1.rs.new"
    cmp -s "$folder/tests/$1.rs.new" "$folder/tests/$1.rs" || cp "$folder/tests/$1.rs.new" "$folder/tests/$1.rs"
    rm "$folder/tests/$1.rs.new"
}

# tokio's tests of the names that this project shares. There is no mode to compare with: each test that is not left out passes.
suite_of_by_path() {
    local tests=$work/crates/tokio/tests file files binary programs round log count sum=0 out
    folder=$work/by-path
    mkdir -p "$folder/tests"
    for file in Cargo.toml Cargo.lock lib.rs; do sed "s|@PROJECT@|$PWD|" "$given/by-path/$file" >"$folder/$file"; done
    mapfile -t files < <(grep -v '^#' "$given/by-path/files.txt")
    for file in "$tests"/*.rs; do
        file=$(basename "$file" .rs)
        grep -qx "$file" "$given/by-path/files.txt" || grep -q "^$file \*: " "$given/by-path/left-out.txt" ||
            fail "by-path: $file of tokio's tests is neither taken nor left out with a reason"
    done
    for file in "$folder"/tests/*.rs; do
        grep -qx "$(basename "$file" .rs)" "$given/by-path/files.txt" || rm -f "$file"
    done
    cp -r "$tests/support" "$folder/tests/"
    for file in "${files[@]}"; do write_by_path "$file"; done
    programs=$(build "$work/logs/build.by-path" test --no-run --locked --manifest-path "$folder/Cargo.toml")
    for binary in $programs; do
        file=$(basename "${binary%-*}")
        log=$work/logs/by-path.$file
        for ((round = 0; round < times; round++)); do
            if ((round % 2 == 1)); then
                for _ in $(seq "$(nproc)"); do yes >/dev/null & computing+=($!); done
            fi
            (cd "$folder" && exec timeout -k 10 $LIMIT "$binary" >"$log" 2>&1 </dev/null) || fail "by-path/$file, round $round: $log"
            stop_computing
        done
        count=$(passed_libtest "$log" | wc -l)
        sum=$((sum + count))
        out=$(left_out_by_path "$file" | wc -l)
        [ "$count" = 0 ] || printf '%5d tests  by-path/%s (%d left out)\n' "$count" "$file" "$out"
    done
    echo "by path: ${#files[@]} files of tokio's tests, $sum tests pass, $(grep -vc '^#\|\*' "$given/by-path/left-out.txt") of these files are left out"
}

suites=()
while [ $# -gt 0 ]; do
    case $1 in
        --times) times=$2; shift ;;
        --sample) profile=debug ;;
        --lock)
            make_workspace
            cargo generate-lockfile --manifest-path "$work/crates/Cargo.toml"
            cp "$work/crates/Cargo.lock" "$given/"
            lock_by_path
            exit
            ;;
        -*) echo "usage: ci/suites.sh [--times N] [--sample | --lock | SUITE ..]" >&2; exit 2 ;;
        *) suites+=("$1") ;;
    esac
    shift
done

build_launcher
if [ $profile = debug ]; then
    suite_of_std sync units thread thread_local
else
    [ ${#suites[@]} -gt 0 ] || mapfile -t suites < <(printf '%s\n' std python by-path; crates | cut -d' ' -f1)
    make_workspace
    for suite in "${suites[@]}"; do
        case $suite in
            std | python) "suite_of_$suite" ;;
            by-path) suite_of_by_path ;;
            *) suite_of_crate "$suite" ;;
        esac
    done
fi
echo "$passed tests passed in both modes, $left_out were left out (tests/crates/suites/left-out.txt)"
exit $failed
