#!/usr/bin/env python3
"""Checks Cargo.lock against the RustSec advisory database.

The database changes independently of the project, so this is not part of the quick or the full set.
The checkout in GATELODGE_ADVISORY_DB is used unchanged; otherwise the database is cloned to
.tools/advisory-db, or updated there. Notices that a crate is unmaintained are printed;
everything else fails.

    advisories.py               checks this workspace
    advisories.py --self-test   tests how versions are parsed and compared
"""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATABASE = "https://github.com/rustsec/advisory-db"

# Advisories that do not affect us: id and reason.
ACCEPTED: dict[str, str] = {}

# Larger than any part of a version.
BEYOND = 1 << 64


def version_key(text: str, missing: int = 0) -> tuple:
    """Return a sort key of a semantic version. Absent parts count as `missing`."""
    written = re.fullmatch(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+.*)?", text)
    if not written:
        raise ValueError(f"cannot read version `{text}`")
    numbers = tuple(missing if part is None else int(part) for part in written.groups()[:3])
    # A pre-release sorts before its release; in it, numbers sort before words.
    before = [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in (written[4] or "").split(".") if p]
    return numbers, not before, before


def holds(comparator: str, version: str) -> bool:
    """Return whether `version` satisfies one comparator, such as `>= 1.2.3`."""
    operator, bound = re.fullmatch(r"\s*([<>=^~]*)\s*(\S+)\s*", comparator).groups()
    this = version_key(version)
    low, high = version_key(bound), version_key(bound, BEYOND)
    match operator:
        case ">=":
            return this >= low
        case "<":
            return this < low
        case ">":
            return this > high
        case "<=":
            return this <= high
        case "=":
            return low <= this <= high
        case "^" | "":
            # The leftmost part that is not zero stays the same.
            major, minor, patch = low[0]
            keep = 1 if major else 2 if minor else 3
            return this >= low and this[0][:keep] == (major, minor, patch)[:keep]
        case "~":
            return this >= low and this[0][:2] == low[0][:2]
    raise ValueError(f"cannot read comparator `{comparator}`")


def is_affected(version: str, versions: dict) -> bool:
    safe = versions.get("patched", []) + versions.get("unaffected", [])
    return not any(all(holds(part, version) for part in range_.split(",")) for range_ in safe)


def database() -> Path:
    if named := os.environ.get("GATELODGE_ADVISORY_DB"):
        return Path(named)
    clone = ROOT / ".tools/advisory-db"
    command = ["git", "clone", "--quiet", "--depth=1", DATABASE, str(clone)]
    if clone.exists():
        command = ["git", "-C", str(clone), "pull", "--quiet", "--depth=1", "--rebase"]
    # Never prompt, and time out if there is no answer.
    quiet = os.environ | {"GIT_TERMINAL_PROMPT": "0"}
    try:
        subprocess.run(command, check=True, env=quiet, timeout=300)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        sys.exit(f"error: cannot get the advisory database: {error}\n"
                 "help: set GATELODGE_ADVISORY_DB to a checkout of it")
    return clone


def read_advisories(folder: Path) -> list[dict]:
    advisories = []
    for file in sorted(folder.glob("crates/*/*.md")):
        front = re.match(r"```toml\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)
        if not front:
            sys.exit(f"error: cannot read {file}")
        advisories.append(tomllib.loads(front[1]))
    if not advisories:
        sys.exit(f"error: no advisories in {folder}")
    return advisories


def check(advisories: list[dict], locked: list[dict]) -> tuple[list[str], list[str]]:
    """Return errors and warnings."""
    failures, notices = [], []
    for entry in advisories:
        advisory = entry["advisory"]
        if "withdrawn" in advisory or advisory["id"] in ACCEPTED:
            continue
        kind = advisory.get("informational", "vulnerability").strip()
        for crate in locked:
            if crate["name"] == advisory["package"] and is_affected(crate["version"], entry["versions"]):
                line = f"{advisory['id']}: `{crate['name']}` {crate['version']}: {kind}"
                (notices if kind in ("unmaintained", "notice") else failures).append(line)
    return failures, notices


def self_test() -> None:
    faults = []
    ascending = ["0.9.9", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-rc.2",
                 "1.0.0-rc.11", "1.0.0", "1.0.10+build"]
    if sorted(reversed(ascending), key=version_key) != ascending:
        faults.append("versions are not sorted correctly")
    expected = [
        (">= 1.2", "1.2.0", True), ("> 1.2", "1.2.9", False), ("<= 1.2", "1.2.9", True),
        ("< 2.0.0", "2.0.0", False), ("=1.2.3", "1.2.3", True), ("=1.2.3", "1.2.4", False),
        ("^1.2.3", "1.9.0", True), ("^1.2.3", "2.0.0", False), ("^ 0.2.3", "0.3.0", False),
        ("^0.2.3", "0.2.4", True), ("~1.2.3", "1.3.0", False), ("1.2.3", "1.4.0", True),
    ]
    for comparator, version, answer in expected:
        if holds(comparator, version) is not answer:
            faults.append(f"`{version}` against `{comparator}` should be {answer}")
    hole = {"advisory": {"id": "A", "package": "a"},
            "versions": {"patched": [">= 1.1.3, < 1.2.0", ">= 1.2.1"], "unaffected": ["< 1.0.0"]}}
    for version, affected in {"0.9.0": 0, "1.0.0": 1, "1.1.3": 0, "1.2.0": 1, "1.3.0": 0}.items():
        if len(check([hole], [{"name": "a", "version": version}])[0]) != affected:
            faults.append(f"version {version} should have {affected} findings")
    if faults:
        sys.exit("\n".join(faults))
    print("advisories: versions are compared correctly")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    locked = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    advisories = read_advisories(database())
    failures, notices = check(advisories, locked)
    for line in notices:
        print(f"note: {line}")
    if failures:
        sys.exit("\n".join(failures))
    print(f"advisories: {len(locked)} crates, {len(advisories)} advisories, none applies")


main()
