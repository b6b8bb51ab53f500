#!/usr/bin/env python3
"""Checks the accessibility of the exported catalogue in a real browser.

Exports a random sample of the built-in index, or all of it, selects pages of every kind and random pages of servers
and tools, opens each in light and in dark mode, and runs axe-core. Any finding fails, and so does a smaller number of
pages than requested.

    site.py --gatelodge PROGRAM --indexer PROGRAM --node NODE --browser BROWSER [--whole] [--pages N] [--seed N]
    site.py --self-test --node NODE --browser BROWSER    tests that deliberate errors are found
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "site"
KINDS = ["attacks", "incidents", "risk", "servers"]
# Number of pages of each kind; pages of one kind are similar.
OF_A_KIND = 4
# Minimum number of servers in the sample.
SERVERS = 30
BAD = "<!doctype html><html><head><title>x</title></head><body><img src='x'><p style='color:#ccc'>pale</p></body></html>"


def look(arguments: argparse.Namespace, pages: list[Path], folder: Path) -> subprocess.CompletedProcess:
    listed = folder / "pages.txt"
    listed.write_text("".join(f"{page.as_uri()}\n" for page in pages))
    command = [arguments.node, HERE / "axe.mjs", arguments.browser, listed]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True)


def chosen(site: Path, count: int, chance: random.Random) -> list[Path]:
    """Return some pages of every kind, and `count` random pages of servers and tools."""
    pages = sorted(site.glob("*.html"))
    for kind in KINDS:
        all_of_kind = sorted((site / kind).glob("*.html"))
        pages += chance.sample(all_of_kind, min(len(all_of_kind), OF_A_KIND))
    rest = sorted(path for kind in ["npm", "pypi"] for path in (site / "servers" / kind).rglob("*.html"))
    if len(rest) < count:
        sys.exit(f"error: the site has {len(rest)} pages of servers and tools, fewer than {count}")
    return pages + chance.sample(rest, count)


def drawn(arguments: argparse.Namespace, data: Path, chance: random.Random) -> list[str]:
    """Return random servers of the index, enough for the requested number of pages."""
    command = [arguments.gatelodge, "catalogue", "search", "--json", "--limit", "40000", "--data", data]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    servers = found["servers"]
    if len(servers) != found["index"]["servers"]:
        sys.exit(f"error: the search gave {len(servers)} of {found['index']['servers']} servers")
    chance.shuffle(servers)
    names, pages = [], 0
    for server in servers:
        names.append(f"{server['source']}:{server['package']}")
        pages += 1 + server["tool_count"]
        if pages >= 4 * arguments.pages and len(names) >= SERVERS:
            break
    return names


def self_test(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bad = folder / "servers/npm/bad.html"
        bad.parent.mkdir(parents=True)
        bad.write_text(BAD)
        done = look(arguments, [bad], folder)
        try:
            chosen(folder, 2, random.Random(1))
            sys.exit("one page was counted as two")
        except SystemExit as ended:
            if "1 pages" not in str(ended):
                raise
    faults = ["image-alt", "html-has-lang", "color-contrast", "(light)", "(dark)"]
    missed = [fault for fault in faults if fault not in done.stdout]
    if done.returncode == 0 or missed:
        sys.exit(f"deliberate errors were not found: {missed}\n{done.stdout}{done.stderr}")
    print("site: deliberate errors found")


def check(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site, data, chance = folder / "site", folder / "data", random.Random(arguments.seed)
        command = [arguments.indexer, "export", "--out", site, "--data", data]
        if not arguments.whole:
            command += [word for name in drawn(arguments, data, chance) for word in ("--server", name)]
        summary = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr.splitlines()[-1]
        pages = chosen(site, arguments.pages, chance)
        done = look(arguments, pages, folder)
        print(f"seed {arguments.seed}; {summary}\n{done.stdout}{done.stderr}", end="")
        if done.returncode != 0:
            sys.exit("error: the site has accessibility errors")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", type=Path)
    parser.add_argument("--indexer", type=Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("--browser", required=True)
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if not (HERE / "node_modules/axe-core").is_dir():
        sys.exit(f"error: {HERE}/node_modules is missing; run `npm ci --ignore-scripts` there")
    if arguments.self_test:
        self_test(arguments)
    else:
        check(arguments)


main()
