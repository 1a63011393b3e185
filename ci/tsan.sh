#!/usr/bin/env bash
# Plain OS threads, green threads and some soak under ThreadSanitizer, which is told of stack switches (`--cfg tsan`).
# Usage: ci/tsan.sh [SECONDS]   (of soak; default 20)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-20}
ci/need-nightly.sh ci/tsan.sh rust-src || exit $(($? == 3 ? 0 : 1))
target=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/tsan"
export RUSTFLAGS="-Zsanitizer=thread --cfg tsan"
export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/ci/tsan.supp ${TSAN_OPTIONS:-}"
# It is many times slower.
export TESTS_HANG_SECS="${TESTS_HANG_SECS:-300}"
build=(-Zbuild-std --target "$target")
cargo +nightly test "${build[@]}" -p gmp-runtime --test plain_threads
cargo +nightly test "${build[@]}" -p tests --test park --test channel_select_stress --test sync_mutex --test sync_condvar
cargo +nightly run "${build[@]}" -p tests --bin soak -- --secs "$seconds" --workers 4
