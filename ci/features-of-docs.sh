#!/usr/bin/env bash
# Prints the features with which the documentation of `monochrome` is built, separated by commas: those that docs.rs takes from
# runtime/Cargo.toml. Fails if a feature for users is not among them.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo metadata --no-deps --format-version 1 | python3 -c '
import json, sys
package = next(p for p in json.load(sys.stdin)["packages"] if p["name"] == "monochrome")
shown = package["metadata"]["docs"]["rs"]["features"]
# The first changes how the code is built.
hidden = {"panic-abort", "default"}
wrong = (set(package["features"]) - hidden) ^ set(shown)
if wrong:
    sys.exit("runtime/Cargo.toml: [package.metadata.docs.rs] and [features] differ: " + ", ".join(sorted(wrong)))
print(",".join(shown))
'
