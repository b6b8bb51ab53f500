"""Labels from annotations, and the files they are collected in."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from package import Json, Package
from session import Session

DUPLICATE_SHARE = 0.8  # share of equal (name, description) pairs from which a server is a duplicate


def truth(annotations: Any) -> str | None:
    """Return the label that the annotations give, or None. Only explicit annotations count."""
    if not isinstance(annotations, dict):
        return None
    read, destructive = annotations.get("readOnlyHint"), annotations.get("destructiveHint")
    if read is True:
        return "Read"
    if read is False and destructive is True:
        return "Destructive"
    if read is False and destructive is False:
        return "NotReadNotDestructive"
    return None


def line_of(package: Package, server: str, tool: Json) -> Json:
    """One tool as a line of the output."""
    line: Json = {"package": str(package), "server": server, "name": tool["name"]}
    line |= {key: tool.get(key) for key in ("description", "inputSchema", "annotations")}
    category = truth(tool.get("annotations"))
    return line | ({"category": category} if category else {})


def pairs(lines: Iterable[Json]) -> frozenset[tuple[str, str]]:
    """Return the (name, description) pairs that identify duplicates."""
    return frozenset((str(line["name"]), str(line["description"] or "").strip()) for line in lines)


class Collection:
    """The two output files and the log; appended to, so that a stopped run can continue."""

    def __init__(self, out: Path) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._paths = {split: out / f"{split}.jsonl" for split in ("dev", "held")}
        self._log = out / "log.jsonl"
        self.logged = {Package.parse(entry["package"]).key: entry for entry in read_lines(self._log)}
        self._kept: dict[str, frozenset[tuple[str, str]]] = {}
        for path in self._paths.values():
            for package, lines in by_package(read_lines(path)).items():
                self._kept[package] = pairs(lines)

    def find_duplicate(self, candidate: frozenset[tuple[str, str]]) -> str | None:
        """Return a kept package with the same tools. A subset counts as a duplicate, too."""
        for package, kept in self._kept.items():
            if len(candidate & kept) >= DUPLICATE_SHARE * min(len(candidate), len(kept)):
                return package
        return None

    def keep(self, package: Package, session: Session) -> tuple[str, Json]:
        """Store a server's tools if they have labels and are no duplicates. Return the outcome and its counts."""
        lines = [line_of(package, session.server, tool) for tool in session.tools or []]
        labeled = sum("category" in line for line in lines)
        numbers: Json = {"tools": len(lines), "labeled": labeled}
        if not lines:
            return "no tools", numbers
        if not labeled:
            return "no labeled tools", numbers
        with self._lock:
            duplicate = self.find_duplicate(pairs(lines))
            if duplicate:
                return "twin", numbers | {"of": duplicate}
            self._kept[str(package)] = pairs(lines)
            append(self._paths[package.split], lines)
        return "kept", numbers

    def log(self, package: Package, outcome: str, **more: Any) -> None:
        entry = {"package": str(package), "split": package.split, "outcome": outcome, **more}
        with self._lock:
            self.logged[package.key] = entry
            append(self._log, [entry])


def read_lines(path: Path) -> Iterator[Json]:
    """Yield the lines of a JSON lines file, if it exists."""
    if path.exists():
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def append(path: Path, lines: Iterable[Json]) -> None:
    """Append whole lines at once, so that a reader never sees half a server."""
    text = "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines)
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)


def by_package(lines: Iterable[Json]) -> dict[str, list[Json]]:
    """Group lines by their package."""
    groups: dict[str, list[Json]] = {}
    for line in lines:
        groups.setdefault(line["package"], []).append(line)
    return groups
