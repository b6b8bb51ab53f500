#!/usr/bin/env python3
"""Chooses what weights are learned from: labelled tools of packages that are not held out, and like none that is.

    training.py LABELS DEFINITIONS… [--read READ…] > train.jsonl

LABELS is the folder that `collect.py` or `joined.py` filled: all of its `dev.jsonl` is taken. READ are labels by reading, lines
with `key` (PACKAGE#TOOL, of any version), `category` and, where it is known, `drawn`: they stand above what authors say,
and their tools are marked with `read`, which says how they were drawn. DEFINITIONS are what
`gatelodge-indexer crawl --definitions` wrote. Of these, packages of the development half are taken that

- are not in LABELS already,
- do not look like a held-out server under another name: half of the tools' names, and at least three, are its own,
- have a label,
- and of their tools those that no other has word for word.
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
TOLD = 200  # so many letters of a description tell two tools apart


def words_of(tool: Json) -> tuple[str, str]:
    """A tool, as far as it can be told from another."""
    return tool["name"].lower(), " ".join((tool.get("description") or "").lower().split())[:TOLD]


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
    """The held-out servers, by the names of their tools."""

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
        """Whether one of them could be this under another name."""
        shared = Counter(owner for name in names for owner in self.owners.get(name, ()))
        return any(
            count >= LEAST_SHARED and 2 * count >= min(len(names), len(self.names[owner]))
            for owner, count in shared.items()
        )


def mark(tools: list[Json], paths: list[Path]) -> int:
    """Put labels by reading over those of authors; of one tool that is told twice, the first has it."""
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
    """Write the lines, and tell how many."""
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
    labelled = [tool for tool in chosen if tool.get("category")]
    packages = {tool["package"] for tool in labelled}
    told = f"{len(chosen)} tools, {len(labelled)} of {len(packages)} packages have a label, {read} by reading"
    print(told, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
