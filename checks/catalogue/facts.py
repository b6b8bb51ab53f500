"""Reduces collected tools to what may be committed: names, types, hints and labels, no text of the authors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from label import append, by_package, read_lines
from package import Json

MAX_TEXT_CHARS = 40  # of a fixed value or a server's name: longer ones are sentences
Kind = TypeVar("Kind", dict[str, Any], list[Any])


def property_facts(schema: Any) -> Json:
    """Return type, format and short fixed values of a parameter, without its description."""
    if not isinstance(schema, dict):
        return {}
    facts: Json = {}
    kind = schema.get("type")
    if isinstance(kind, str | list):
        facts["type"] = kind
    for union in ("anyOf", "oneOf"):
        kinds = [part.get("type") for part in schema.get(union) or [] if isinstance(part, dict)]
        if kinds and "type" not in facts:
            facts["type"] = [kind for kind in kinds if isinstance(kind, str)]
    if isinstance(schema.get("format"), str) and len(schema["format"]) <= MAX_TEXT_CHARS:
        facts["format"] = schema["format"]
    if isinstance(schema.get("items"), dict) and isinstance(schema["items"].get("type"), str):
        facts["items"] = {"type": schema["items"]["type"]}
    values = schema.get("enum")
    if isinstance(values, list):
        facts["enum"] = [v for v in values if not isinstance(v, str | list | dict) or short_text(v)]
    return facts


def short_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT_CHARS


def typed(value: Any, kind: type[Kind]) -> Kind:
    """Return the value if it has the expected type, else an empty one: the schema may be invalid."""
    return value if isinstance(value, kind) else kind()


def facts_of(line: Json) -> Json:
    """Return a line without text of the authors: names, types, hints, label."""
    schema = typed(line.get("inputSchema"), dict)
    properties = typed(schema.get("properties"), dict)
    required = typed(schema.get("required"), list)
    facts: Json = {"package": line["package"], "server": line["server"][:MAX_TEXT_CHARS], "name": line["name"]}
    known = {name: property_facts(part) for name, part in properties.items()}
    facts["inputSchema"] = {"properties": known, "required": [name for name in required if isinstance(name, str)]}
    annotations = line.get("annotations")
    if isinstance(annotations, dict):
        facts["annotations"] = {key: hint for key, hint in annotations.items() if isinstance(hint, bool)}
    return facts | ({"category": line["category"]} if "category" in line else {})


def write_facts(directory: Path, to: Path) -> None:
    """Write the committed forms of the two sets, and the list of servers with versions and counts."""
    rows = []
    for split in ("dev", "held"):
        groups = by_package(read_lines(directory / f"{split}.jsonl"))
        path = to / f"{split}-facts.jsonl"
        path.unlink(missing_ok=True)
        for package, lines in sorted(groups.items()):
            append(path, map(facts_of, lines))
            rows.append((package, split, len(lines), sum("category" in line for line in lines)))
    text = "".join(f"{package}\t{split}\t{tools}\t{labeled}\n" for package, split, tools, labeled in sorted(rows))
    (to / "servers.txt").write_text(text, encoding="utf-8")
