#!/usr/bin/env python3
"""Checks that no text of the project names a machine.

Looks at every text that is tracked or about to be: no path of somebody's machine, no host of a
package registry. Lock files are left out; what stands there is written by the package manager.
Spelling is the business of `typos`.

    words.py               checks this tree
    words.py --self-test   fails unless planted words are found
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

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


def check_text(name: str, text: str) -> list[str]:
    return [
        f"{name}:{text.count(chr(10), 0, hit.start()) + 1}: {what}: `{hit[0]}`"
        for what, pattern in FORBIDDEN.items()
        for hit in pattern.finditer(text)
    ]


def tree() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    paths = [ROOT / name for name in listed.split("\0") if name]
    return [path for path in paths if path.is_file() and path.name not in LOCK_FILES]


def self_test() -> None:
    planted = {
        "a path of a machine": ["see /" + "work/notes", "file:///" + "root/x", '"/' + 'farm/a"'],
        "a registry's host": ["from crates" + ".io", "https://my-" + "mirror.example.org/simple"],
        "a package source": ["a==1\n--index" + "-url there"],
    }
    fine = "crates/work/a ./root/b https://example.org/work/c `--index-url` mcp-registry"
    faults = [f"found in a clean text: {found}" for found in check_text("clean", fine)]
    for what, texts in planted.items():
        for text in texts:
            found = check_text("planted", text)
            if len(found) != 1 or what not in found[0]:
                faults.append(f"planted `{text}`, found {found}")
    if faults:
        sys.exit("\n".join(faults))
    print("words: planted words found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    findings, seen = [], 0
    for path in tree():
        content = path.read_bytes()
        if b"\0" in content:
            continue
        seen += 1
        # Test data may be deliberately broken text; what can be read of it counts.
        text = content.decode(errors="replace")
        findings += check_text(str(path.relative_to(ROOT)), text)
    if findings:
        sys.exit("\n".join(findings))
    print(f"words: {seen} texts in order")


main()
