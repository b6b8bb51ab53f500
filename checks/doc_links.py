#!/usr/bin/env python3
"""Checks that the Markdown pages refer only to what exists.

For each tracked page:
- the target of a relative link is a file or folder of the tree;
- the anchor of a link to a page is a heading of that page;
- a path in backticks that begins with one of `FOLDERS` exists. `*` and `{a,b}` are expanded;
- a Rust file in backticks, with or without some of its folders, exists somewhere in the tree;
- a table with the columns `file` and `function` names functions that one of the files in the same row defines;
- the list of files that a call passes is not longer than `MAX_PATH_FILES`.

    doc_links.py               checks this tree
    doc_links.py --self-test   fails unless every kind of finding is found in a sample
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Not `tools` itself, because `tools/list` is a method.
FOLDERS = ("bench", "checks", "crates", "docs", "examples", "fuzz", "tools/indexer")
RUST_FOLDERS = ("bench", "crates", "fuzz", "tools/indexer")

# The list of files that a call passes, and how long it may be.
PATH_HEADING = "### The files that a call passes"
MAX_PATH_FILES = 20

FENCE = re.compile(r"^(```+|~~~+).*?^\1\s*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r"<img\b[^>]*\bsrc=\"([^\"]+)\"")
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
TREE_PATH = re.compile(rf"(?:{'|'.join(FOLDERS)})/[\w./*{{}},@-]+")
RUST_FILE = re.compile(r"[\w-]+(?:/[\w-]+)*\.rs")
# A link with a scheme leads out of the tree.
EXTERNAL = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
FUNCTION = re.compile(r"[a-z_]\w*")
BRACES = re.compile(r"\{([^{}]*)\}")


def blank(match: re.Match) -> str:
    """Replace a match by its line breaks, so that line numbers stay correct."""
    return "\n" * match[0].count("\n")


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings of a page, as GitHub makes them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub(blank, text)):
        plain = LINK.sub(lambda link: link[0][1 : link[0].index("]")], heading).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def expand(path: str) -> list[str]:
    """Expand the first `{a,b}` of a path, and then the others."""
    braces = BRACES.search(path)
    if not braces:
        return [path]
    start, end = path[: braces.start()], path[braces.end() :]
    return [whole for part in braces[1].split(",") for whole in expand(start + part + end)]


def exists(root: Path, path: str) -> bool:
    return any(root.glob(path)) if "*" in path else (root / path).exists()


def has_rust_file(root: Path, name: str) -> bool:
    return any(next((root / folder).glob(f"**/{name}"), None) for folder in RUST_FOLDERS if (root / folder).is_dir())


def link_error(root: Path, page: Path, target: str) -> str | None:
    if EXTERNAL.match(target):
        return None
    path, _, anchor = target.partition("#")
    linked = (page.parent / path) if path else page
    if not linked.resolve().is_relative_to(root.resolve()) or not linked.exists():
        return f"links to the missing file `{target}`"
    if anchor and linked.suffix == ".md" and anchor not in anchors(linked.read_text()):
        return f"links to the missing heading `{target}`"
    return None


def rust_files(root: Path, name: str) -> list[Path]:
    """Return the files that a name may mean: a path from the root, or the end of one."""
    if (root / name).is_file():
        return [root / name]
    return [file for folder in RUST_FOLDERS if (root / folder).is_dir() for file in (root / folder).glob(f"**/{name}")]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table_findings(root: Path, text: str) -> list[tuple[int, str]]:
    """Return the findings in tables of files and functions, each with its position."""
    found, position, columns, path_rows = [], 0, None, None
    for line in text.splitlines(keepends=True):
        if line.startswith("#"):
            path_rows = 0 if line.strip() == PATH_HEADING else None
        if not line.startswith("|"):
            columns = None
        elif columns is None:
            header = cells(line)
            columns = (header.index("file"), header.index("function")) if {"file", "function"} <= set(header) else ()
        elif columns and not line.startswith("|-"):
            row = cells(line)
            sources = [file.read_text() for name in CODE.findall(row[columns[0]]) for file in rust_files(root, name)]
            for name in CODE.findall(row[columns[1]]):
                if FUNCTION.fullmatch(name) and not any(re.search(rf"\bfn {name}\b", source) for source in sources):
                    found.append((position, f"names the function `{name}`, which is in none of the files of the row"))
            if path_rows is not None:
                path_rows += 1
                if path_rows == MAX_PATH_FILES + 1:
                    found.append((position, f"a call passes more than {MAX_PATH_FILES} files"))
        position += len(line)
    return found


def findings_in(root: Path, page: Path) -> list[str]:
    """Return the findings of a page, each with its location."""
    text = FENCE.sub(blank, page.read_text())
    found = []
    for code in CODE.finditer(text):
        if TREE_PATH.fullmatch(code[1]):
            missing = [path for path in expand(code[1].rstrip("/")) if not exists(root, path)]
            found += [(code.start(), f"names the missing path `{path}`") for path in missing]
        elif RUST_FILE.fullmatch(code[1]) and not has_rust_file(root, code[1]):
            found.append((code.start(), f"names the missing Rust file `{code[1]}`"))
    found += table_findings(root, text)
    # Not in code: `[a](b)` there is an example.
    prose = CODE.sub(lambda code: " " * len(code[0]) if "](" in code[0] else code[0], text)
    for link in [*LINK.finditer(prose), *IMAGE.finditer(prose)]:
        if error := link_error(root, page, link[1]):
            found.append((link.start(), error))
    return [f"{page.relative_to(root)}:{text.count(chr(10), 0, start) + 1}: {what}" for start, what in sorted(found)]


def self_test() -> None:
    good = (
        "# A page\n\n[other](b.md#two-words) [own](#a-page) [web](https://example.org/x)\n"
        "`checks/{x,y}.py` `checks/*.py` `[text](target)` `docs/b.md` `checks/` `other/missing.py`\n"
        "```\n[example](missing.md) `checks/missing.py`\n```\n"
        "`tools/list` `z.rs` `src/z.rs`\n"
        "| step | file | function |\n|---|---|---|\n| 1 | `src/z.rs` | `run`, `Z` |\n"
    )
    bad = {
        "[a](missing.md)": "missing file",
        "[a](../outside.md)": "missing file",
        "[`a`](missing.md#x)": "missing file",
        '<img src="missing.svg">': "missing file",
        "[a](b.md#three)": "missing heading",
        "[a](#three)": "missing heading",
        "`crates/missing.rs`": "missing path",
        "`checks/{x,missing}.py`": "missing path",
        "`checks/*.rs`": "missing path",
        "`missing.rs`": "missing Rust file",
        "`other/z.rs`": "missing Rust file",
        "| file | function |\n|---|---|\n| `z.rs` | `walk` |": "names the function `walk`",
        PATH_HEADING + "\n| file | function |\n|---|---|\n" + "| `z.rs` | `run` |\n" * 21: "more than 20 files",
    }
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        (root / "docs").mkdir(parents=True)
        (root / "checks").mkdir()
        for name in ("x.py", "y.py"):
            (root / "checks" / name).touch()
        (root / "crates/a/src").mkdir(parents=True)
        (root / "crates/a/src/z.rs").write_text("fn run() {}\n")
        (root / "docs/b.md").write_text("# Two `words`\n")
        page = root / "docs/a.md"
        page.write_text(good)
        problems += [f"found in a correct page: {finding}" for finding in findings_in(root, page)]
        for text, expected in bad.items():
            page.write_text(f"# A page\n\n{text}\n")
            found = findings_in(root, page)
            if len(found) != 1 or expected not in found[0] or not found[0].startswith("docs/a.md:"):
                problems.append(f"expected `{expected}` in `{text}`, found {found}")
    if problems:
        sys.exit("\n".join(problems))
    print("doc_links: all samples found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    pages = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    findings = [finding for page in pages for finding in findings_in(ROOT, page)]
    if findings:
        sys.exit("\n".join(findings) + f"\n{len(findings)} findings")
    print(f"doc_links: {len(pages)} pages checked")


main()
