#!/usr/bin/env python3
"""Puts what the classifier says now into facts that a crawl wrote before, so that nothing has to be fetched again.

    reclassify.py --gatelodge PROGRAM FACTS DEFINITIONS > facts.jsonl

DEFINITIONS are what `gatelodge-indexer crawl --definitions` wrote beside FACTS. A package whose tools are not all
found in them keeps what its facts say, and is counted.
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

TOLD = ("category", "confidence", "flow")
PART = 32 << 20  # the program takes no more than twice as much at once


def by_package(path: Path) -> dict[str, list[str]]:
    """The lines of each package: the tools of one are judged together."""
    packages: dict[str, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            packages[Package.parse(json.loads(line)["package"]).key].append(line)
    return packages


def in_parts(packages: dict[str, list[str]]) -> Iterator[list[str]]:
    """Whole packages, as many as are taken at once."""
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


def judged(program: Path, definitions: Path) -> dict[str, dict[str, Json]]:
    """What is said now of each tool, by package without its version, and name."""
    told: dict[str, dict[str, Json]] = defaultdict(dict)
    for part in in_parts(by_package(definitions)):
        command = [program, "catalogue", "classify", "--json", "-"]
        said = subprocess.run(command, input="".join(part), capture_output=True, text=True, check=False)
        verdicts = said.stdout.splitlines()
        if len(verdicts) != len(part):
            sys.exit(f"{len(part)} tools were asked about, and {len(verdicts)} answers came: {said.stderr[:500]}")
        for line, verdict in zip(part, map(json.loads, verdicts), strict=True):
            tool = json.loads(line)
            if verdict["name"] != tool["name"]:
                sys.exit(f"an answer about {verdict['name']} stands where one about {tool['name']} should")
            told[Package.parse(tool["package"]).key][tool["name"]] = verdict
    return told


def main() -> int:
    """Write the facts anew, and tell how many tools are judged otherwise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("facts", type=Path)
    parser.add_argument("definitions", type=Path)
    parser.add_argument("--gatelodge", type=Path, required=True)
    given = parser.parse_args()
    told = judged(given.gatelodge, given.definitions)
    others = unknown = 0
    for package in read_lines(given.facts):
        now = told.get(Package.parse(f"{package['source']}:{package['package']}").key, {})
        if any(tool["name"] not in now for tool in package["tools"]):
            unknown += 1
            now = {}
        for tool in package["tools"]:
            verdict = now.get(tool["name"])
            if verdict:
                others += tool["category"] != verdict["category"]
                tool.update({name: verdict[name] for name in TOLD})
                tool["signals"] = list(dict.fromkeys(signal["signal"] for signal in verdict["signals"]))
        print(json.dumps(package, ensure_ascii=False, separators=(",", ":")))
    print(f"{others} tools are judged otherwise; {unknown} packages keep what was said", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
