#!/usr/bin/env bash
# Checks that `rust-version` is the oldest Rust that works: the newest version that a dependency of the published packages needs, because
# cargo refuses to compile that dependency with an older one. It must also be the Rust that runs this script: CI tests all with it.
# Only lock_api 0.5 and parking_lot 0.13 need more than Rust 1.88. With lock_api 0.4 the types of `sync` would lose what 0.5 has, and
# programs would get guards of another version of the crate.
set -euo pipefail
cd "$(dirname "$0")/.."
used=$(rustc --version | cut -d' ' -f2)
cargo metadata --locked --format-version 1 --all-features | python3 -c '
import json, sys

used, all = sys.argv[1], json.load(sys.stdin)
packages = {package["id"]: package for package in all["packages"]}
edges = {node["id"]: [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])] for node in all["resolve"]["nodes"]}
number = lambda version: tuple(map(int, (version or "0").split(".")[:2]))

ours = [package for package in packages.values() if package["name"] == "monochrome"]
seen, left = set(), [package["id"] for package in ours]
while left:
    id = left.pop()
    if id not in seen:
        seen.add(id)
        left += edges[id]
foreign = [packages[id] for id in seen if packages[id]["source"]]
newest = max(number(package["rust_version"]) for package in foreign)
setters = sorted(package["name"] for package in foreign if number(package["rust_version"]) == newest)
text = lambda version: ".".join(map(str, version))
declared = number(ours[0]["rust_version"])
print(f"rust-version {text(declared)}; the newest that {len(foreign)} dependencies need: {text(newest)} ({chr(44).join(setters)}); in use: {used}")
if declared != newest:
    sys.exit("ci/msrv.sh: rust-version is not the oldest Rust that works")
if number(used) != declared:
    sys.exit("ci/msrv.sh: this is not the Rust of rust-version: rustup default " + text(declared) + ".0")
' "$used"
