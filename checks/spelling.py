#!/usr/bin/env python3
"""Checks the words of the project: no machine paths, no registry hosts, no refused words.

Looks at every text file that is tracked or about to be:
- no path of a machine, no host of a package registry (lock files are left out: package managers write them);
- no word of `refused_words.toml` in an identifier of Rust or Python code or in a name that a shell script defines, no
  phrase of it in a comment, message or page.
Misspelt words are found by `typos`.

    spelling.py               checks this tree
    spelling.py --self-test   fails unless every kind of finding is found in a sample
    spelling.py --count       prints how often each refused word occurs, and does not fail
"""

import collections
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = "checks/refused_words.toml"

LOCK_FILES = {"Cargo.lock", "package-lock.json", "uv.lock"}

# The patterns are written so that they do not match themselves.
FORBIDDEN = {
    "a path of a machine": re.compile(r"(?<![\w.-])/(work|root|farm)/"),
    "a registry's host": re.compile(
        r"\b(crates\.io|pypi\.org|pythonhosted\.org|npmjs\.(org|com)|static\.rust-lang\.org)\b"
        r"|https?://[^/\s]*\b(pypi|npm|devpi|artifactory|nexus|mirror)\b"
    ),
    "a package source": re.compile(r"^--(extra-)?(index-url|find-links)\b", re.MULTILINE),
}

# Pages and scripts whose whole text is prose or nearly so. In Rust code, comments and string literals are prose.
PROSE = {".md", ".toml", ".sh", ".py"}
# The glossary and the list name refused words on purpose; the rest is text of others or data of tests.
NOT_PROSE = re.compile(
    r"^(checks/refused_words\.toml|checks/spelling\.py|docs/dev/glossary\.md|LICENSE"
    r"|crates/catalogue/data/|checks/catalogue/.*\.(jsonl|txt|md)$|fuzz/.*corpus)"
)

# Literals before comments, so that `//` in a string does not begin one.
RUST_TOKEN = re.compile(
    r"""(?P<string>b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*")"""
    r"""|(?P<comment>//[^\n]*|/\*.*?\*/)"""
    r"""|(?P<char>b?'(?:\\.[^']*|[^'\\])')"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)""",
    re.DOTALL,
)
# A variable or function that a shell script defines.
SHELL_NAME = re.compile(r"(?<![\w-])([A-Za-z_]\w*)(?==|\(\))")
NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


class RefusedWords:
    """The two lists, ready to search."""

    def __init__(self, text: str):
        lists = tomllib.loads(text)
        self.identifiers = set(lists["identifiers"])
        self.prefixes = tuple(lists["constant_prefixes"])
        # A sentence may begin with a phrase; otherwise case counts, so that `is None` is not "is none".
        begun = [f"[{phrase[0].upper()}{phrase[0]}]{re.escape(phrase[1:])}" for phrase in lists["phrases"]]
        words = "|".join(phrase.replace(r"\ ", r"\s+(?:///?!?\s*)?") for phrase in begun)
        self.phrases = re.compile(rf"(?<![\w-])(?:{words})(?![\w-])")

    def in_name(self, name: str) -> str | None:
        if name.startswith(self.prefixes):
            return name
        return next((part for part in NAME_PART.findall(name) if part.lower() in self.identifiers), None)


def rust_findings(text: str, refused: RefusedWords):
    """Yields (offset, what, words) of Rust code."""
    for token in RUST_TOKEN.finditer(text):
        if token["name"]:
            if part := refused.in_name(token["name"]):
                yield token.start(), "a refused word in a name", f"{part}` in `{token['name']}"
        elif token["string"] or token["comment"]:
            for hit in refused.phrases.finditer(token[0]):
                yield token.start() + hit.start(), "a refused phrase", hit[0]


def python_names(text: str):
    """Yields (offset, name) of the identifiers in Python code."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            row, column = token.start
            yield starts[row - 1] + column, token.string


def script_findings(names, refused: RefusedWords):
    """Yields (offset, what, words) of the names in a script."""
    for start, name in names:
        if part := refused.in_name(name):
            yield start, "a refused word in a name", f"{part}` in `{name}"


def findings_in(name: str, text: str, refused: RefusedWords) -> list[tuple[str, str, str]]:
    """All findings of a text as (place, what, words)."""
    found = [(hit.start(), what, hit[0]) for what, pattern in FORBIDDEN.items() for hit in pattern.finditer(text)]
    if not NOT_PROSE.match(name):
        suffix = Path(name).suffix or (".sh" if text.startswith("#!") else "")
        if suffix == ".rs":
            found += rust_findings(text, refused)
        elif suffix in PROSE:
            found += [(hit.start(), "a refused phrase", hit[0]) for hit in refused.phrases.finditer(text)]
        if suffix == ".py":
            found += script_findings(python_names(text), refused)
        elif suffix == ".sh":
            found += script_findings(((hit.start(), hit[1]) for hit in SHELL_NAME.finditer(text)), refused)
    return [(f"{name}:{text.count(chr(10), 0, start) + 1}", what, " ".join(words.split())) for start, what, words in found]


def tree() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and path.name not in LOCK_FILES]


def self_test() -> None:
    refused = RefusedWords(
        'identifiers = ["clerk", "told", "tray"]\nconstant_prefixes = ["MOST_"]\n'
        'phrases = ["is told", "taken up", "stands alone"]'
    )
    samples = {
        "a path of a machine": [("a.md", "see /" + "work/notes"), ("a.md", "file:///" + "root/x")],
        "a registry's host": [("a.md", "from crates" + ".io"), ("a.md", "https://my-" + "mirror.example.org/simple")],
        "a package source": [("a.txt", "a==1\n--index" + "-url there")],
        "a refused word in a name": [
            ("a.rs", "struct Clerk;"),
            ("a.rs", "fn is_told_of() {}"),
            ("a.rs", "const MOST_ROWS: usize = 1;"),
            ("a.rs", 'let url = "http://x"; let tray = 1;'),
            ("a.py", "x = 1\ndef told(): pass"),
            ("a.py", "MOST_ROWS = 1"),
            ("run", "#!/bin/sh\ntray=1"),
            ("a.sh", "clerk() { :; }"),
        ],
        "a refused phrase": [
            ("a.rs", "/// The error is told."),
            ("a.rs", 'let m = "the change is taken up";'),
            ("a.md", "It stands\nalone."),
            ("a.py", "# The change is taken up."),
            ("run", "#!/bin/sh\n# The error is told."),
        ],
    }
    fine = [
        ("a.md", "crates/work/a ./root/b https://example.org/work/c `--index-url` mcp-registry"),
        ("a.rs", "// a tray is fine in a comment, and so is a planet\nlet generation = camera;"),
        ("a.py", "said = 'told'  # a tray is fine in a comment"),
        ("run", "#!/bin/sh\ncase $1 in tray) echo told ;; esac"),
        ("a.rs", "let quote = '\"'; let planet = 1; // it's"),
    ]
    problems = [f"found in a clean text: {found}" for name, text in fine for found in findings_in(name, text, refused)]
    for what, texts in samples.items():
        for name, text in texts:
            found = findings_in(name, text, refused)
            if [finding[1] for finding in found] != [what]:
                problems.append(f"expected `{what}` in `{text}`, found {found}")
    if problems:
        sys.exit("\n".join(problems))
    print("spelling: all samples found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    refused = RefusedWords((ROOT / LIST).read_text())
    findings, files = [], 0
    for path in tree():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        files += 1
        # Test data may be invalid UTF-8; the rest of it is checked.
        findings += findings_in(str(path.relative_to(ROOT)), content.decode(errors="replace"), refused)
    if sys.argv[1:] == ["--count"]:
        counts = collections.Counter((what, words.split("`")[0].lower()) for _, what, words in findings)
        for (what, words), count in counts.most_common():
            print(f"{count:5} {what}: {words}")
        return
    if findings:
        listed = "\n".join(f"{place}: {what}: `{words}`" for place, what, words in findings)
        sys.exit(f"{listed}\n{len(findings)} findings; docs/dev/glossary.md says what to write instead")
    print(f"spelling: {files} files checked")


main()
