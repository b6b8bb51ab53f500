#!/usr/bin/env python3
"""Updates the facts of an earlier crawl with the current classifier, so that nothing has to be fetched again.

    reclassify.py --gatelodge PROGRAM FACTS DEFINITIONS > facts.jsonl

DEFINITIONS is the file of `gatelodge-indexer crawl --definitions` that belongs to FACTS. A package is left unchanged, and
counted, if it does not contain all of its tools.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from label import read_lines
from package import Json, Package

CLASSIFICATION = ("category", "confidence", "flow")
PART = 32 << 20  # the program accepts at most twice as much


def by_package(path: Path) -> dict[str, list[str]]:
    """Return the lines of each package, whose tools are classified together."""
    packages: dict[str, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            packages[Package.parse(json.loads(line)["package"]).key].append(line)
    return packages


def in_parts(packages: dict[str, list[str]]) -> Iterator[list[str]]:
    """Yield batches of whole packages."""
    part: list[str] = []
    size = 0
    for lines in packages.values():
        own = sum(map(len, lines))
        if part and size + own > PART:
            yield part
            part, size = [], 0
        part.extend(lines)
        size += own
    yield part


def classified(program: Path, definitions: Path) -> dict[str, dict[str, Json]]:
    """Return the current classification of each tool, by package without version, and name."""
    results_by_package: dict[str, dict[str, Json]] = defaultdict(dict)
    for part in in_parts(by_package(definitions)):
        command = [program, "catalogue", "classify", "--json", "-"]
        said = subprocess.run(command, input="".join(part), capture_output=True, text=True, check=False)
        results = said.stdout.splitlines()
        if len(results) != len(part):
            sys.exit(f"{len(part)} tools were sent, but {len(results)} results received: {said.stderr[:500]}")
        for line, result in zip(part, map(json.loads, results), strict=True):
            tool = json.loads(line)
            if result["name"] != tool["name"]:
                sys.exit(f"got a result for {result['name']} instead of {tool['name']}")
            results_by_package[Package.parse(tool["package"]).key][tool["name"]] = result
    return results_by_package


def main() -> int:
    """Write the updated facts, and print how many tools changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("definitions", type=Path)
    parser.add_argument("--gatelodge", type=Path, required=True)
    given = parser.parse_args()
    results_by_package = classified(given.gatelodge, given.definitions)
    others = unknown = 0
    for package in read_lines(given.facts):
        now = results_by_package.get(Package.parse(f"{package['source']}:{package['package']}").key, {})
        if any(tool["name"] not in now for tool in package["tools"]):
            unknown += 1
            now = {}
        for tool in package["tools"]:
            result = now.get(tool["name"])
            if result:
                others += tool["category"] != result["category"]
                tool.update({name: result[name] for name in CLASSIFICATION})
                tool["signals"] = list(dict.fromkeys(signal["signal"] for signal in result["signals"]))
        print(json.dumps(package, ensure_ascii=False, separators=(",", ":")))
    print(f"{others} tools changed; {unknown} packages are unchanged for lack of definitions", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
