#!/usr/bin/env python3
"""Selects the training set: labeled tools of packages that are not held out and not similar to held-out ones.

    training.py LABELS DEFINITIONS… [--read READ…] > train.jsonl

LABELS is the output folder of `collect.py` or `joined.py`: all of its `dev.jsonl` is used. READ are labels by reading, lines
with `key` (PACKAGE#TOOL, of any version), `category` and, if known, `drawn`: they override annotations, and their tools
get the member `read`, which says how they were drawn. DEFINITIONS are files of `gatelodge-indexer crawl --definitions`.
Of these, packages of the development set are used that

- are not in LABELS already,
- are not similar to a held-out server: sharing half of the tool names, and at least three,
- have a label,
- and of their tools those that are not identical to another one.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from pathlib import Path

from joined import key_of, read_key
from label import read_lines
from package import Json, Package

LEAST_SHARED = 3
COMPARED_CHARS = 200  # characters of a description that are compared


def words_of(tool: Json) -> tuple[str, str]:
    """Return the compared parts of a tool."""
    return tool["name"].lower(), " ".join((tool.get("description") or "").lower().split())[:COMPARED_CHARS]


def names_of(tools: list[Json]) -> set[str]:
    return {tool["name"].lower() for tool in tools}


def by_package(paths: list[Path]) -> dict[str, list[Json]]:
    """All tools, by their package without its version."""
    packages: dict[str, list[Json]] = {}
    for path in paths:
        for tool in read_lines(path):
            packages.setdefault(Package.parse(tool["package"]).key, []).append(tool)
    return packages


class Held:
    """The held-out servers by tool names."""

    def __init__(self, path: Path) -> None:
        """Read them."""
        packages = by_package([path])
        self.words = {words_of(tool) for tools in packages.values() for tool in tools}
        self.names = {package: names_of(tools) for package, tools in packages.items()}
        self.owners: dict[str, set[str]] = defaultdict(set)
        for package, names in self.names.items():
            for name in names:
                self.owners[name].add(package)

    def has_like(self, names: set[str]) -> bool:
        """Return whether a held-out server is similar."""
        shared = Counter(owner for name in names for owner in self.owners.get(name, ()))
        return any(
            count >= LEAST_SHARED and 2 * count >= min(len(names), len(self.names[owner]))
            for owner, count in shared.items()
        )


def mark(tools: list[Json], paths: list[Path]) -> int:
    """Override annotations with labels by reading. The first of several labels applies."""
    read = {read_key(label): label for path in paths for label in read_lines(path)}
    count = len(read)
    for tool in tools:
        label = read.pop(key_of(tool), None)
        if label:
            tool["category"] = label["category"]
            tool["read"] = label.get("drawn", "servers")
            tool["sure"] = label.get("sure", True)
    return count - len(read)


def main() -> int:
    """Write the lines and print their number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("definitions", type=Path, nargs="*")
    parser.add_argument("--read", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    labels = given.labels
    held = Held(labels / "held.jsonl")
    own = by_package([labels / "dev.jsonl"])
    more = by_package(given.definitions)
    chosen = [tool for tools in own.values() for tool in tools]
    seen = held.words | {words_of(tool) for tool in chosen}
    for package, tools in sorted(more.items()):
        if package in own or Package.parse(package).split != "dev" or held.has_like(names_of(tools)):
            continue
        for tool in tools:
            if words_of(tool) not in seen:
                seen.add(words_of(tool))
                chosen.append(tool)
    read = mark(chosen, given.read)
    known = {tool["package"] for tool in chosen if tool.get("category")}
    chosen = [tool for tool in chosen if tool["package"] in known]
    for tool in chosen:
        print(json.dumps(tool, ensure_ascii=False))
    labeled = [tool for tool in chosen if tool.get("category")]
    packages = {tool["package"] for tool in labeled}
    summary = f"{len(chosen)} tools, {len(labeled)} of {len(packages)} packages have a label, {read} by reading"
    print(summary, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
