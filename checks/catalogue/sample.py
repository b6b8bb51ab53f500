#!/usr/bin/env python3
"""Compare crawled tools with the tools that servers list: a random sample of packages is installed and run.

    sample.py run FACTS… --pypi 50 --npm 50 --seed N --out results.jsonl --work DIR --not-in servers.txt
    sample.py score results.jsonl FACTS…

`run` draws random packages with tools from the facts of a crawl, without those that `--not-in` lists (the servers that
the extractors were developed with). Each is installed at the version that was read, without its scripts, started over
stdio by an unprivileged user in a namespace without network with an empty home, asked for `tools/list`, and deleted. Like
`collect.py`, it needs root. Each package is a line of the results; an interrupted run can continue. `score` compares them
with facts, which must be of the same versions.

An optional tool counts neither for nor against precision; if the server lists it by default, it counts as missed. The
share of optional tools is printed separately.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from collect import make_cache
from install import INSTALL_UID, RUN_UID, InstallError, Tools, install_npm, install_pypi
from package import Package, npm_index, npm_release, pypi_index, pypi_release, read_release
from start import list_tools

Json = dict[str, Any]


def read_facts(paths: Iterable[Path]) -> Iterator[tuple[Package, Json]]:
    """Packages with their facts, in the order of the files, which the crawl sorts."""
    for path in paths:
        with path.open(encoding="utf-8") as file:
            for line in file:
                facts = json.loads(line)
                sign = "==" if facts["source"] == "pypi" else "@"
                yield Package.parse(f"{facts['source']}:{facts['package']}{sign}{facts['version']}"), facts


def drawn(options: argparse.Namespace) -> list[Package]:
    """Return the sample, which is the same for the same facts and seed."""
    known = {Package.parse(line).key for path in options.not_in for line in lines(path)}
    found = [package for package, facts in read_facts(options.facts) if facts["tools"] and package.key not in known]
    chosen: list[Package] = []
    for source, count in (("pypi", options.pypi), ("npm", options.npm)):
        chance = random.Random(f"{options.seed} {source}")  # noqa: S311 (it must be the same for everyone)
        own = sorted((package for package in found if package.source == source), key=lambda package: package.name)
        chosen += chance.sample(own, min(count, len(own)))
    return chosen


def lines(path: Path) -> Iterator[str]:
    """The packages that a file lists: names, or JSON lines with `package`."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("{"):
            yield json.loads(line)["package"]
        elif line.strip() and not line.startswith("#"):
            yield line


def ask(package: Package, indexes: dict[str, str], where: Path, tools: Tools) -> Json:
    """Install, start, list, delete. Every failure of a package is an outcome."""
    shutil.rmtree(where, ignore_errors=True)
    try:
        find = pypi_release if package.source == "pypi" else npm_release
        release = read_release(find(indexes[package.source], package), always=True)
        where.mkdir(mode=0o755)
        os.chown(where, INSTALL_UID, INSTALL_UID)
        commands = (install_pypi if package.source == "pypi" else install_npm)(release, where, tools)
        home = where / "home"
        home.mkdir()
        os.chown(home, RUN_UID, RUN_UID)
        session = list_tools(commands, release, home, tools)
        if session.tools:
            return {"outcome": "listed", "tools": sorted({str(tool["name"]) for tool in session.tools})}
        if session.tools is not None:
            return {"outcome": "listed nothing"}
        return {"outcome": "no program" if not commands else "did not start", "why": session.said[-400:]}
    except InstallError as error:
        return {"outcome": "not installed", "why": str(error)[-400:]}
    except Exception as error:
        return {"outcome": "not readable", "why": f"{type(error).__name__}: {error}"[:200]}
    finally:
        shutil.rmtree(where, ignore_errors=True)


def run(options: argparse.Namespace) -> None:
    """Ask every package of the sample that has no line yet."""
    uv, python, node = (os.path.abspath(path) for path in (options.uv, options.python, options.node))
    tools = Tools(uv, python, node, options.work.resolve(), options.bun and os.path.abspath(options.bun))
    for cache in (tools.npm_cache, tools.uv_cache):
        make_cache(cache)
    make_cache(tools.bytecode, RUN_UID)
    indexes = {"pypi": pypi_index(), "npm": npm_index()}
    drop_incomplete_line(options.out)
    done = {entry["package"] for entry in results(options.out)} if options.out.exists() else set()
    chosen = [package for package in drawn(options) if str(package) not in done]
    lock, slots = threading.Lock(), list(range(options.workers))

    def one(package: Package) -> None:
        with lock:
            slot = slots.pop()
        entry = {"package": str(package), **ask(package, indexes, tools.work / f"sample-{slot}", tools)}
        with lock:
            slots.append(slot)
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            print(entry["package"], entry["outcome"], file=sys.stderr, flush=True)

    with ThreadPoolExecutor(options.workers) as workers:
        for _ in workers.map(one, chosen):
            pass
    show(options.out, options.facts)


def results(path: Path) -> list[Json]:
    # Not `splitlines`: output of foreign programs may contain separators that JSON does not escape.
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def drop_incomplete_line(path: Path) -> None:
    """Drop an incomplete last line."""
    if path.exists():
        text = path.read_text(encoding="utf-8")
        path.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


def show(path: Path, facts_paths: Iterable[Path]) -> None:
    """Print precision and recall of tool names over the packages that ran, and why the others did not."""
    found = {str(package): facts["tools"] for package, facts in read_facts(facts_paths)}
    entries = results(path)
    for source in ("pypi", "npm", ""):
        own = [entry for entry in entries if entry["package"].startswith(source)]
        ran = [entry for entry in own if entry["outcome"] == "listed" and entry["package"] in found]
        print(f"\n{source or 'both'}: {len(own)} packages, {len(ran)} ran")
        for outcome, count in Counter(entry["outcome"] for entry in own).most_common():
            print(f"  {count:4} {outcome}")
        listed = claimed = right = optional = shown = wholly = 0
        for entry in ran:
            names = set(entry["tools"])
            default = {tool["name"] for tool in found[entry["package"]] if not tool.get("optional")}
            under = {tool["name"] for tool in found[entry["package"]]} - default
            listed, claimed, right = listed + len(names), claimed + len(default), right + len(names & default)
            optional, shown, wholly = optional + len(under), shown + len(under & names), wholly + (names == default)
            if not source and names != default:
                more, less = " ".join(sorted(default - names)), " ".join(sorted(names - default))
                print(f"  {entry['package']}: found and not listed: {more or '–'}; listed and not found: {less or '–'}")
        print(f"  precision {share(right, claimed)}, recall {share(right, listed)}, {wholly} packages exactly")
        print(f"  optional: {share(optional, optional + claimed)} of the found tools; {shown} of them listed")


def share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} % ({part} of {whole})" if whole else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    asking = steps.add_parser("run", help="draw packages, run them, compare")
    asking.add_argument("facts", type=Path, nargs="+")
    asking.add_argument("--pypi", type=int, default=50, help="how many Python packages")
    asking.add_argument("--npm", type=int, default=50, help="how many npm packages")
    asking.add_argument("--seed", type=int, required=True)
    asking.add_argument("--not-in", type=Path, nargs="*", default=[], help="files of packages that are not drawn")
    asking.add_argument("--out", type=Path, required=True, help="file of results, which grows")
    asking.add_argument("--work", type=Path, required=True, help="scratch directory; must be reachable by all users")
    asking.add_argument("--workers", type=int, default=2, help="packages processed at once")
    asking.add_argument("--uv", default=shutil.which("uv") or "uv")
    asking.add_argument("--python", default=sys.executable)
    asking.add_argument("--node", default=shutil.which("node") or "node")
    asking.add_argument("--bun", help="install npm packages with it; npm itself if not given")
    asking.set_defaults(do=run)
    scoring = steps.add_parser("score", help="compare results with facts")
    scoring.add_argument("results", type=Path)
    scoring.add_argument("facts", type=Path, nargs="+")
    scoring.set_defaults(do=lambda options: show(options.results, options.facts))
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
