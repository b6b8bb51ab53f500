#!/usr/bin/env python3
"""Puts descriptions from a crawl beside the committed facts of servers that were run, where nobody has `labels`.

    joined.py DEFINITIONS… --out labels

`collect.py` keeps whole definitions, which may not be committed; `dev-facts.jsonl` and `held-facts.jsonl` have no
foreign sentences. DEFINITIONS are what `gatelodge-indexer crawl --definitions` wrote. A tool is found by its package,
whatever version, and its name. A description that three tools of a package share is none of theirs: it is left out, and
the tool counts as not found. Into the folder go, as `collect.py` writes them,

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
SHARED = 3  # so many tools of one package with the same description: it was read from where all are registered
Key = tuple[str, str]


def key_of(tool: Json) -> Key:
    """A tool of any version of its package."""
    return Package.parse(tool["package"]).key, tool["name"]


def read_key(label: Json) -> Key:
    """The same for a label by reading."""
    package, _, name = label["key"].partition("#")
    return Package.parse(package).key, name


def schema_of(own: Json, found: Json) -> Json:
    """The schema of the server that was run, with the sentences of the one that was read from its sources."""
    told = typed(typed(found.get("inputSchema"), dict).get("properties"), dict)
    known = typed(own.get("properties"), dict)
    properties = {name: typed(told.get(name), dict) | typed(part, dict) for name, part in known.items()}
    return own | {"properties": properties}


def join(facts: Iterable[Json], definitions: dict[Key, Json]) -> list[Json]:
    """All tools, those of which a definition was found with its sentences and marked with `found`."""
    tools = []
    for fact in facts:
        found = definitions.get(key_of(fact))
        if found:
            schema = schema_of(typed(fact.get("inputSchema"), dict), found)
            fact = fact | {"description": found.get("description"), "inputSchema": schema, "found": True}
        tools.append(fact)
    return tools


def labelled(tools: list[Json], categories: dict[Key, str] | None, only_found: bool) -> list[Json]:
    """The tools with these labels, or their own."""
    lines = []
    for tool in tools:
        category = tool.get("category") if categories is None else categories.get(key_of(tool))
        line = {name: value for name, value in tool.items() if name not in ("category", "found")}
        counts = category and (tool.get("found") or not only_found)
        lines.append(line | ({"category": category} if counts else {}))
    return lines


def main() -> int:
    """Write the files, and tell how much was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("definitions", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    facts = {split: list(read_lines(HERE / f"{split}-facts.jsonl")) for split in ("dev", "held")}
    wanted = {key_of(fact) for own in facts.values() for fact in own}
    definitions: dict[Key, Json] = {}
    for path in given.definitions:
        definitions |= {key_of(tool): tool for tool in read_lines(path) if key_of(tool) in wanted}
    told = Counter((package, tool.get("description")) for (package, _), tool in definitions.items())
    definitions = {key: own for key, own in definitions.items() if told[key[0], own.get("description")] < SHARED}
    given.out.mkdir(parents=True, exist_ok=True)
    read = {read_key(label): label["category"] for label in read_lines(HERE / "read-held.jsonl")}
    dev, held = (join(facts[split], definitions) for split in ("dev", "held"))
    for name, lines in {
        "dev": labelled(dev, None, False),
        "held": labelled(held, None, False),
        "held-found": labelled(held, None, True),
        "held-read": labelled(held, read, False),
        "held-read-found": labelled(held, read, True),
    }.items():
        path = given.out / f"{name}.jsonl"
        path.unlink(missing_ok=True)
        append(path, lines)
    for split, tools in (("dev", dev), ("held", held)):
        by_author = [tool for tool in tools if "category" in tool]
        counts = [sum("found" in tool for tool in own) for own in (tools, by_author)]
        told = f"{split}: {counts[0]} of {len(tools)} tools have a definition, {counts[1]} of {len(by_author)} annotated"
        print(told, file=sys.stderr)
    print(f"held: {sum(key_of(tool) in read and 'found' in tool for tool in held)} of {len(read)} read", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
