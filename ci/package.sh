#!/usr/bin/env bash
# Packs the crates that are published, and builds a program outside of the workspace against the packed crates: the lines of README.md
# that add the runtime to a program, and README.md's first program. Checks what that program prints.
set -euo pipefail
cd "$(dirname "$0")/.."
target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Without a build of each package: the program below builds them.
allow_dirty=()
[ -n "${CI:-}" ] || allow_dirty=(--allow-dirty)
rm -rf "$target_dir/package"
# `publish` is an empty list in a package with `publish = false`.
published='import json, sys; print(*("-p" + p["name"] for p in json.load(sys.stdin)["packages"] if p["publish"] is None))'
read -ra published < <(cargo metadata --no-deps --format-version 1 | python3 -c "$published")
cargo package --quiet --no-verify "${allow_dirty[@]}" "${published[@]}"
# All that a publication does but the upload.
cargo publish --dry-run --quiet --no-verify "${allow_dirty[@]}" "${published[@]}"

packages=()
for crate in "$target_dir"/package/*.crate; do
    tar -xzf "$crate" -C "$folder"
    packages+=("$(basename "$crate" .crate)")
done
for package in "${packages[@]}"; do
    for file in LICENSE-APACHE LICENSE-MIT; do
        # A link that became a file holds only the name of its target.
        cmp -s "$file" "$folder/$package/$file" || { echo "ci/package.sh: $package has another $file than the repository" >&2; exit 1; }
    done
    [ -s "$folder/$package/README.md" ] || { echo "ci/package.sh: $package has no README.md" >&2; exit 1; }
    for field in description license keywords categories readme rust-version; do
        grep -q "^$field = " "$folder/$package/Cargo.toml" ||
            { echo "ci/package.sh: $package has no $field" >&2; exit 1; }
    done
done

# The scripts for debuggers, and nothing that Python has left beside them.
scripts=$(cd "$folder"/monochrome-[0-9]*/debug && ls -A)
[ "$scripts" = "$(cd runtime/debug && ls -A -- *.py)" ] ||
    { echo "ci/package.sh: monochrome has in its folder debug: ${scripts//$'\n'/ }" >&2; exit 1; }

program=$folder/program
cargo new --quiet --vcs none "$program"
# The block of README.md that begins with `[dependencies]`, instead of the empty section that `cargo new` has made.
sed -i '/^\[dependencies\]/d' "$program/Cargo.toml"
sed -n '/^```toml$/,/^```$/p' README.md | sed '1d;/^```$/,$d' >>"$program/Cargo.toml"
grep -q '^runtime = ' "$program/Cargo.toml" || { echo "ci/package.sh: README.md does not say how to add the runtime" >&2; exit 1; }
# Stands for a registry that has these versions.
printf '\n[patch.crates-io]\n' >>"$program/Cargo.toml"
for package in "${packages[@]}"; do
    printf '%s = { path = "%s" }\n' "${package%-*}" "$folder/$package" >>"$program/Cargo.toml"
done
sed -n '/^```rust$/,/^```$/p' README.md | sed '1d;/^```$/,$d' >"$program/src/main.rs"
printed=$(CARGO_TARGET_DIR="$target_dir/package-program" cargo run --quiet --manifest-path "$program/Cargo.toml")
[ "$printed" = 4999950000 ] || { echo "ci/package.sh: README.md's program has printed '$printed'" >&2; exit 1; }
echo "ci/package.sh: ${packages[*]} are packed, and README.md's program runs with them"
