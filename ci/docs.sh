#!/usr/bin/env bash
# Builds the documentation with warnings denied, with all features for users. Crates below `runtime` cannot name its items in their
# documentation, so they give addresses of pages; rustdoc does not check these, and this script does. ci/test.sh runs the doc tests.
set -euo pipefail
cd "$(dirname "$0")/.."
features=$(ci/features-of-docs.sh | sed 's,[^,]*,monochrome/&,g')
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --features "$features"
python3 - "${CARGO_TARGET_DIR:-target}/doc" <<'END'
import re, sys
from pathlib import Path

doc, wrong, checked = Path(sys.argv[1]).resolve(), set(), 0
for page in sorted(doc.glob("runtime/**/*.html")):
    # rustdoc's own links do not go up to the folder of all crates to come back.
    for path, part in re.findall(r'href="((?:\.\./)+runtime/[^"#]+)(?:#([^"]*))?"', page.read_text()):
        checked += 1
        target = page.parent / path
        if not target.is_file() or (part and f'id="{part}"' not in target.read_text()):
            wrong.add(f"{page.relative_to(doc)}: {path}#{part}")
print("\n".join(f"ci/docs.sh: leads nowhere: {each}" for each in sorted(wrong)), end="\n" if wrong else "")
print(f"ci/docs.sh: {checked} addresses of pages, {len(wrong)} lead nowhere")
sys.exit(bool(wrong) or not checked)
END
