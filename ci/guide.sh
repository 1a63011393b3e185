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

# image_of DOT: prints the path of the drawing. The crate's own documentation has the overview, and the guide includes it from there.
image_of() {
    local name
    name=$(basename "$1" .dot)
    case $name in
        overview) echo "runtime/src/docs/$name.svg" ;;
        *) echo "guide/src/drawings/$name.svg" ;;
    esac
}

if [ "${1:-}" = --drawings ]; then
    for drawing in guide/drawings/*.dot; do
        svg "$drawing" >"$(image_of "$drawing")"
    done
    exit
fi

python3 - <<'END'
import hashlib, pathlib, re, sys

src, docs, wrong = pathlib.Path("guide/src"), pathlib.Path("runtime/src/docs"), []
summary = (src / "SUMMARY.md").read_text()
library = pathlib.Path("guide/lib.rs").read_text()
chapters = sorted(path.relative_to(src) for path in src.rglob("*.md") if path.name != "SUMMARY.md")
for chapter in chapters:
    if f"]({chapter})" not in summary:
        wrong.append(f"guide/src/{chapter} is not in SUMMARY.md")
    if f'"src/{chapter}"' not in library:
        wrong.append(f"guide/src/{chapter} is not in guide/lib.rs")

included_by_rustdoc = "".join(path.read_text() for path in [docs.parent / "lib.rs", *docs.glob("*.rs")])

# A text of both manuals is a file of the crate, because a package has no files from outside. Rustdoc runs its code, so the guide does not.
def included(page, path):
    target = (page.parent / path).resolve()
    if target.parent != docs.resolve() or not target.is_file():
        wrong.append(f"{page}: {path} is no file of {docs}")
        return ""
    if f'{target.name}")' not in included_by_rustdoc:
        wrong.append(f"{page}: {path} is included by no page of {docs}")
    return target.read_text()

# The prose of a page as mdbook shows it.
def prose(page):
    text = re.sub(r"\{\{#include ([^}\s]+)\}\}", lambda found: included(page, found[1]), page.read_text())
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)

def anchors(text):
    heads = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", head.replace("`", "").lower()).replace(" ", "-") for head in heads}

links = 0
for page in [src / "SUMMARY.md", *(src / chapter for chapter in chapters)]:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if re.match(r"https?:", link):
            continue
        links += 1
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if not target.is_file():
            wrong.append(f"{page}: {link}: no such file")
        elif anchor and anchor not in anchors(prose(target)):
            wrong.append(f"{page}: {link}: no such heading")

# The pages of the crate name chapters by their path.
for page in sorted(docs.parent.rglob("*.rs")):
    for name in re.findall(r"`(guide/src/[^`]+)`", page.read_text()):
        links += 1
        if not pathlib.Path(name).is_file():
            wrong.append(f"{page}: {name}: no such chapter")

drawings = sorted(pathlib.Path("guide/drawings").glob("*.dot"))
for drawing in drawings:
    folder = docs if drawing.stem == "overview" else src / "drawings"
    image = folder / f"{drawing.stem}.svg"
    current = hashlib.sha256(drawing.read_bytes()).hexdigest()[:16]
    if not image.is_file() or f"{drawing.name} {current}," not in image.read_text():
        wrong.append(f"{image} is not that of {drawing}: run `ci/guide.sh --drawings` and commit it")
for image in (src / "drawings").glob("*.svg"):
    if not any(drawing.stem == image.stem for drawing in drawings):
        wrong.append(f"{image} has no description in guide/drawings")

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
        cmp -s <(svg "$drawing" | words) <(words <"$(image_of "$drawing")") ||
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
