#!/usr/bin/env bash
# Checks the format, and runs clippy with warnings denied, on all targets, with all optional features. For the peers' programs the script
# checks only the format. Usage: ci/lint.sh [--each]
#   --each  runs clippy without optional features, with each feature alone, and on the packages in tests/crates instead
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = --each ]; then
    cargo clippy --workspace --all-targets -- -D warnings
    for feature in $(ci/features-of-docs.sh | tr , ' '); do
        echo "+ clippy with the feature $feature"
        cargo clippy --quiet -p monochrome --features "$feature" -- -D warnings
    done
    cd tests/crates
    cargo clippy --locked -p crates -p interpose -p locals -p programs -p threads --all-targets -- -D warnings
    exit
fi

cargo fmt --all --check
for peer in tokio may epoll; do
    cargo fmt --manifest-path "benches/peers/$peer/Cargo.toml" --check
done
cargo fmt --manifest-path examples/fuzz/Cargo.toml --check
cargo fmt --manifest-path ci/layout/Cargo.toml --check
cargo fmt --manifest-path tests/crates/Cargo.toml --all --check
cargo fmt --manifest-path tests/builds/Cargo.toml --check
# The features that ci/features.sh builds, together.
features=$(ci/features-of-docs.sh | sed 's,[^,]*,monochrome/&,g')
features+=,$(sed -n 's/^of_[a-z]*=//p' ci/features.sh | paste -sd,)
cargo clippy --workspace --all-targets --features "$features" -- -D warnings
