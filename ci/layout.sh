#!/usr/bin/env bash
# Fails if the layout of sched/src or the language of the repository exceeds its bounds. Prints the rooms (files and folders at the top
# of sched/src), the pairs of rooms that import each other, the largest circle of imports, and the counts of four vague words.
# Needs python3. Usage: ci/layout.sh [--arrows]   (--arrows also prints each import between rooms, with its files and names)
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v python3 >/dev/null; then
    echo "ci/layout.sh: python3 is not installed (Debian: apt-get install python3)" >&2
    exit 1
fi
exec python3 - "$@" <<'END'
import os, re, subprocess, sys

ROOMS, PAIRS, CIRCLE, WORDS = 14, 4, 4, 40
VAGUE = re.compile(r"\b(whoever|somebody|nobody|likewise)\b", re.IGNORECASE)
SOURCES = "sched/src"


def split(text):
    """Returns the code and the comments of a Rust source. The code has an empty string in the place of each string literal."""
    code, comments, i = [], [], 0
    token = re.compile(r'//[^\n]*|/\*.*?\*/|r(#*)".*?"\1|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\\\'])\'', re.DOTALL)
    for found in token.finditer(text):
        code.append(text[i:found.start()])
        if found[0].startswith("/"):
            comments.append(found[0])
        else:
            code.append('""')
        i = found.end()
    code.append(text[i:])
    return "".join(code), "\n".join(comments)


def without_tests(code):
    """Returns the code without the items that only tests build: those under `#[cfg(test)]` or `#[cfg(all(test, ..))]`."""
    out, i = [], 0
    for found in re.finditer(r"#\[cfg\((?:test|all\(test[^\]]*\))\)\]", code):
        if found.start() < i:
            continue
        out.append(code[i:found.start()])
        i, depth = found.end(), 0
        while i < len(code):
            if code[i] == "{":
                depth += 1
            elif code[i] == "}":
                depth -= 1
            i += 1
            if depth == 0 and code[i - 1] in ";}":
                break
    out.append(code[i:])
    return "".join(out)


def leaves(tree, prefix=()):
    """Yields the paths of a `use` tree, each a tuple of names: `a::{b, c::d as e}` has (a, b) and (a, c, d)."""
    depth, start, parts = 0, 0, []
    for at, char in enumerate(tree + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(tree[start:at].strip())
            start = at + 1
    for part in filter(None, parts):
        head, brace, tail = part.partition("{")
        names = tuple(name for name in re.sub(r"\s+as\s+\w+$", "", head.strip()).split("::") if name)
        if brace:
            yield from leaves(tail.rstrip()[:-1], prefix + names)
        else:
            yield prefix + names


def module(path):
    """Returns the module of a file, as a tuple of names."""
    names = os.path.relpath(path, SOURCES)[: -len(".rs")].split(os.sep)
    if names[-1] in ("mod", "lib"):
        names.pop()
    return tuple(names)


tests = re.compile(r"(^|/)(models|modelled|tests|testing)(/|\.rs$)")
files = {}
for folder, _, names in os.walk(SOURCES):
    for name in names:
        path = os.path.join(folder, name)
        if name.endswith(".rs") and not tests.search(os.path.relpath(path, SOURCES)):
            files[module(path)] = path

arrows = {}
for own, path in sorted(files.items()):
    if not own:
        continue  # lib.rs re-exports names of all rooms.
    code = without_tests(split(open(path).read())[0])
    paths = set()
    for use in re.finditer(r"\buse\s+([^;]+);", code):
        paths.update(leaves(use[1]))
    paths.update(tuple(path.split("::")) for path in re.findall(r"\b((?:crate|super)(?:::\w+)+)", re.sub(r"\buse\s+[^;]+;", "", code)))
    for names in paths:
        if names[0] == "crate":
            names = names[1:]
        elif names[0] == "super":
            up = 0
            while names[up] == "super":
                up += 1
            names = own[: len(own) - up] + names[up:]
        elif names[0] == "self" or own + names[:1] in files:
            names = own + names[names[0] == "self":]
        else:
            continue
        # A path may end with an item. The longest prefix that is a file is the imported module.
        for end in range(len(names), 0, -1):
            if names[:end] in files:
                if names[:end] != own:
                    arrows.setdefault((own, names[:end]), set()).add("::".join(names[end:]) or names[end - 1])
                break

rooms = sorted({own[0] for own in files if own} | {"lib"})
for name in os.listdir(SOURCES):
    name = name.removesuffix(".rs")
    if name not in rooms:
        rooms.append(name)
between = {}
for (a, b), names in arrows.items():
    if a[0] != b[0]:
        between.setdefault((a[0], b[0]), []).append(("/".join(a), "/".join(b), sorted(names)))
pairs = sorted((a, b) for a, b in between if a < b and (b, a) in between)


def circles(nodes, edges):
    """Returns the sets of nodes that reach each other, the largest set first."""
    reach = {}
    after = {}
    for a, b in edges:
        after.setdefault(a, set()).add(b)
    for node in nodes:
        seen, todo = set(), [node]
        while todo:
            for other in after.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        reach[node] = seen
    found = {frozenset(b for b in reach[a] if a in reach[b]) for a in nodes}
    return sorted((c for c in found if len(c) > 1), key=lambda c: (-len(c), sorted(c)))


# A circle counts only if its files are in several rooms. A file and the folder beside that file may import each other.
of_files = [c for c in circles([own for own in files if own], arrows) if len({own[0] for own in c}) > 1]
of_rooms = circles(rooms, between)
largest = len(of_files[0]) if of_files else 0

if "--arrows" in sys.argv:
    for (a, b), uses in sorted(between.items()):
        print(f"{a} -> {b}" + ("   (two-way)" if (b, a) in between else ""))
        for source, target, names in uses:
            print(f"    {source} -> {target}: {', '.join(names)}")
print(f"rooms at the top of {SOURCES}: {len(rooms)} (at most {ROOMS}): {' '.join(rooms)}")
print(f"two-way pairs of rooms: {len(pairs)} (at most {PAIRS})" + "".join(f"\n    {a} <-> {b}" for a, b in pairs))
print(f"largest circle of rooms: {len(of_rooms[0]) if of_rooms else 0}" + (": " + " ".join(sorted(of_rooms[0])) if of_rooms else ""))
print(f"largest circle of files: {largest} (at most {CIRCLE})" + (": " + " ".join("/".join(f) for f in sorted(of_files[0])) if of_files else ""))

count = {}
for path in subprocess.run(["git", "ls-files", "*.rs", "*.md", "*.sh", "*.toml"], capture_output=True, text=True, check=True).stdout.split():
    if path == "ci/layout.sh" or not os.path.exists(path):
        continue
    text = open(path).read()
    if path.endswith(".rs"):
        text = split(text)[1]
    elif not path.endswith(".md"):
        text = "\n".join(line[line.index("#"):] for line in text.splitlines() if "#" in line)
    found = len(VAGUE.findall(text))
    if found:
        count[path] = found
words = sum(count.values())
print(f"whoever, somebody, nobody, likewise: {words} (at most {WORDS}), most in " + ", ".join(f"{p} {n}" for p, n in sorted(count.items(), key=lambda e: -e[1])[:5]))

over = [name for name, value, bound in (("rooms", len(rooms), ROOMS), ("two-way pairs", len(pairs), PAIRS), ("the circle", largest, CIRCLE), ("vague words", words, WORDS)) if value > bound]
if over:
    print("ci/layout.sh: over the bound: " + ", ".join(over), file=sys.stderr)
    sys.exit(1)
END
