#!/usr/bin/env bash
# Checks the guide: each chapter is in guide/src/SUMMARY.md and in guide/lib.rs, links and drawings are current, and the code of all
# chapters runs as doc tests, with the features that some of them need. ci/test.sh runs it without features. Usage: ci/guide.sh [--book | --drawings]
#   --book      also builds the book into target/guide, with mdbook, which it installs
#   --drawings  only draws guide/drawings/*.dot anew; needs `dot` of Debian's graphviz
set -euo pipefail
cd "$(dirname "$0")/.."

# svg DOT: prints the drawing of a description. Its first line names the description and its checksum.
svg() {
    printf '<!-- guide/drawings/%s %s, drawn by ci/guide.sh -->\n' "$(basename "$1")" "$(sha256sum <"$1" | cut -c1-16)"
    dot -Tsvg "$1" | sed -e '1,/^<svg/{/^<svg/!d}' -e '/^<!--.*-->$/d' -e '/^$/d'
}

if [ "${1:-}" = --drawings ]; then
    for drawing in guide/drawings/*.dot; do
        svg "$drawing" >"guide/src/drawings/$(basename "$drawing" .dot).svg"
    done
    # The crate's own documentation has this drawing within its page, so that it needs no other file.
    { echo '<div style="max-width: 60em">'; cat guide/src/drawings/overview.svg; echo '</div>'; } >runtime/src/docs/overview.md
    exit
fi

python3 - <<'END'
import hashlib, pathlib, re, sys

src, wrong = pathlib.Path("guide/src"), []
summary = (src / "SUMMARY.md").read_text()
library = pathlib.Path("guide/lib.rs").read_text()
chapters = sorted(path.relative_to(src) for path in src.rglob("*.md") if path.name != "SUMMARY.md")
for chapter in chapters:
    if f"]({chapter})" not in summary:
        wrong.append(f"guide/src/{chapter} is not in SUMMARY.md")
    if f'"src/{chapter}"' not in library:
        wrong.append(f"guide/src/{chapter} is not in guide/lib.rs")

def anchors(text):
    heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.replace("`", "").lower()).replace(" ", "-") for head in heads}

links = 0
for page in [src / "SUMMARY.md", *(src / chapter for chapter in chapters)]:
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        links += 1
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.is_file():
            wrong.append(f"{page}: {link}: no such file")
        elif anchor and anchor not in anchors(target.read_text()):
            wrong.append(f"{page}: {link}: no such heading")

drawings = sorted(pathlib.Path("guide/drawings").glob("*.dot"))
for drawing in drawings:
    image = src / "drawings" / f"{drawing.stem}.svg"
    current = hashlib.sha256(drawing.read_bytes()).hexdigest()[:16]
    if not image.is_file() or f"{drawing.name} {current}," not in image.read_text():
        wrong.append(f"{image} is not that of {drawing}: run `ci/guide.sh --drawings` and commit it")
for image in (src / "drawings").glob("*.svg"):
    if not any(drawing.stem == image.stem for drawing in drawings):
        wrong.append(f"{image} has no description in guide/drawings")
overview = pathlib.Path("runtime/src/docs/overview.md")
if (src / "drawings/overview.svg").is_file() and (src / "drawings/overview.svg").read_text() not in overview.read_text():
    wrong.append(f"{overview} is not the drawing of guide/drawings/overview.dot: run `ci/guide.sh --drawings` and commit it")

for line in wrong:
    print(f"ci/guide.sh: {line}", file=sys.stderr)
print(f"ci/guide.sh: {len(chapters)} chapters, {links} links, {len(drawings)} drawings")
sys.exit(bool(wrong))
END

# Fonts differ between machines, and so do drawings. So only the words of the committed drawing are compared with those of a new one.
if command -v dot >/dev/null; then
    words() { grep -o '>[^<>]*</text>' | sort; }
    for drawing in guide/drawings/*.dot; do
        [ -e "$drawing" ] || continue
        cmp -s <(svg "$drawing" | words) <(words <"guide/src/drawings/$(basename "$drawing" .dot).svg") ||
            { echo "ci/guide.sh: $drawing draws other words than the committed drawing has: run ci/guide.sh --drawings" >&2; exit 1; }
    done
else
    echo "ci/guide.sh: dot (Debian: graphviz) is missing, so no drawing is drawn anew; the checksums are right"
fi

cargo test -p guide --doc --features debug,sim
# With tokio's reactor in the process no deadlock is reported, on which the first chapter relies.
cargo test -p guide --doc --features tokio async_crates

if [ "${1:-}" = --book ]; then
    tools=$(ci/tool.sh mdbook 0.5.4)
    target_dir=$(realpath -m "${CARGO_TARGET_DIR:-target}")
    "$tools/mdbook" build guide --dest-dir "$target_dir/guide"
    for chapter in $(sed -n 's/.*](\(.*\)\.md).*/\1/p' guide/src/SUMMARY.md); do
        [ -s "$target_dir/guide/$chapter.html" ] || { echo "ci/guide.sh: mdbook has made no $chapter.html" >&2; exit 1; }
    done
    echo "ci/guide.sh: the book is $target_dir/guide/index.html"
fi
