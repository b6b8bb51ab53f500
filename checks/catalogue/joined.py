#!/usr/bin/env python3
"""Adds descriptions from a crawl to the committed facts of servers that were run, if the folder `labels` is missing.

    joined.py DEFINITIONS… --out labels

`collect.py` keeps whole definitions, which may not be committed; `dev-facts.jsonl` and `held-facts.jsonl` have no
text of the authors. DEFINITIONS are files of `gatelodge-indexer crawl --definitions`. A tool is found by its package,
of any version, and its name. A description that three tools of a package share belongs to none of them: it is left out,
and the tool counts as not found. The folder gets, in the format of `collect.py`,

- `dev.jsonl` and `held.jsonl`: labels by annotations, all tools, with a description where one was found;
- `held-found.jsonl`: the same as `held.jsonl`, with labels only where a definition was found;
- `held-read.jsonl` and `held-read-found.jsonl`: the two with the labels of `read-held.jsonl` in their place.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from facts import typed
from label import append, read_lines
from package import Json, Package

HERE = Path(__file__).parent
SHARED = 3  # a description that this many tools of a package share was read from a common register function
Key = tuple[str, str]


def key_of(tool: Json) -> Key:
    """Return the key of a tool, independent of the version of its package."""
    return Package.parse(tool["package"]).key, tool["name"]


def read_key(label: Json) -> Key:
    """Return the key of a label by reading."""
    package, _, name = label["key"].partition("#")
    return Package.parse(package).key, name


def schema_of(own: Json, found: Json) -> Json:
    """Return the schema of the running server with the descriptions that were read from its sources."""
    summary = typed(typed(found.get("inputSchema"), dict).get("properties"), dict)
    known = typed(own.get("properties"), dict)
    properties = {name: typed(summary.get(name), dict) | typed(part, dict) for name, part in known.items()}
    return own | {"properties": properties}


def join(facts: Iterable[Json], definitions: dict[Key, Json]) -> list[Json]:
    """Return all tools. Those with a definition get its descriptions and the mark `found`."""
    tools = []
    for fact in facts:
        found = definitions.get(key_of(fact))
        if found:
            schema = schema_of(typed(fact.get("inputSchema"), dict), found)
            fact = fact | {"description": found.get("description"), "inputSchema": schema, "found": True}
        tools.append(fact)
    return tools


def labeled(tools: list[Json], categories: dict[Key, str] | None, only_found: bool) -> list[Json]:
    """The tools with these labels, or their own."""
    lines = []
    for tool in tools:
        category = tool.get("category") if categories is None else categories.get(key_of(tool))
        line = {name: value for name, value in tool.items() if name not in ("category", "found")}
        counts = category and (tool.get("found") or not only_found)
        lines.append(line | ({"category": category} if counts else {}))
    return lines


def main() -> int:
    """Write the files, and print how many definitions were found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("definitions", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    facts = {split: list(read_lines(HERE / f"{split}-facts.jsonl")) for split in ("dev", "held")}
    wanted = {key_of(fact) for own in facts.values() for fact in own}
    definitions: dict[Key, Json] = {}
    for path in given.definitions:
        definitions |= {key_of(tool): tool for tool in read_lines(path) if key_of(tool) in wanted}
    summary = Counter((package, tool.get("description")) for (package, _), tool in definitions.items())
    definitions = {key: own for key, own in definitions.items() if summary[key[0], own.get("description")] < SHARED}
    given.out.mkdir(parents=True, exist_ok=True)
    read = {read_key(label): label["category"] for label in read_lines(HERE / "read-held.jsonl")}
    dev, held = (join(facts[split], definitions) for split in ("dev", "held"))
    for name, lines in {
        "dev": labeled(dev, None, False),
        "held": labeled(held, None, False),
        "held-found": labeled(held, None, True),
        "held-read": labeled(held, read, False),
        "held-read-found": labeled(held, read, True),
    }.items():
        path = given.out / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        append(path, lines)
    for split, tools in (("dev", dev), ("held", held)):
        by_author = [tool for tool in tools if "category" in tool]
        counts = [sum("found" in tool for tool in own) for own in (tools, by_author)]
        summary = f"{split}: {counts[0]} of {len(tools)} tools have a definition, {counts[1]} of {len(by_author)} annotated"
        print(summary, file=sys.stderr)
    print(f"held: {sum(key_of(tool) in read and 'found' in tool for tool in held)} of {len(read)} read", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
