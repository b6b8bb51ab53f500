#!/usr/bin/env python3
"""Looks at the exported catalogue in a real browser.

Exports servers that chance draws from the index that comes with the program, or all of it, takes pages of every
kind and pages of servers and tools by chance, opens each in light and in dark, and has axe-core look for what
keeps people out. Any finding fails, and so do fewer pages than were asked for.

    site.py --gatelodge PROGRAM --indexer PROGRAM --node NODE --browser BROWSER [--whole] [--pages N] [--seed N]
    site.py --self-test --node NODE --browser BROWSER    fails unless a planted fault is found
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
# Pages of one kind are alike; so many of each are looked at.
OF_A_KIND = 4
# At least so many servers are drawn.
SERVERS = 30
BAD = "<!doctype html><html><head><title>x</title></head><body><img src='x'><p style='color:#ccc'>pale</p></body></html>"


def look(arguments: argparse.Namespace, pages: list[Path], folder: Path) -> subprocess.CompletedProcess:
    listed = folder / "pages.txt"
    listed.write_text("".join(f"{page.as_uri()}\n" for page in pages))
    command = [arguments.node, HERE / "axe.mjs", arguments.browser, listed]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True)


def chosen(site: Path, count: int, chance: random.Random) -> list[Path]:
    """Some pages of every kind, and so many of servers and tools by chance."""
    pages = sorted(site.glob("*.html"))
    for kind in KINDS:
        all_of_kind = sorted((site / kind).glob("*.html"))
        pages += chance.sample(all_of_kind, min(len(all_of_kind), OF_A_KIND))
    rest = sorted(path for kind in ["npm", "pypi"] for path in (site / "servers" / kind).rglob("*.html"))
    if len(rest) < count:
        sys.exit(f"error: the site has {len(rest)} pages of servers and tools, and {count} were to be looked at")
    return pages + chance.sample(rest, count)


def drawn(arguments: argparse.Namespace, data: Path, chance: random.Random) -> list[str]:
    """Servers of the index, so many that they have pages enough."""
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
            sys.exit("one page was taken for two")
        except SystemExit as ended:
            if "1 pages" not in str(ended):
                raise
    faults = ["image-alt", "html-has-lang", "color-contrast", "(light)", "(dark)"]
    missed = [fault for fault in faults if fault not in done.stdout]
    if done.returncode == 0 or missed:
        sys.exit(f"planted faults were not found: {missed}\n{done.stdout}{done.stderr}")
    print("site: planted faults found")


def check(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site, data, chance = folder / "site", folder / "data", random.Random(arguments.seed)
        command = [arguments.indexer, "export", "--out", site, "--data", data]
        if not arguments.whole:
            command += [word for name in drawn(arguments, data, chance) for word in ("--server", name)]
        told = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True).stderr.splitlines()[-1]
        pages = chosen(site, arguments.pages, chance)
        done = look(arguments, pages, folder)
        print(f"seed {arguments.seed}; {told}\n{done.stdout}{done.stderr}", end="")
        if done.returncode != 0:
            sys.exit("error: the site has faults")


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
        sys.exit(f"error: {HERE}/node_modules is missing; npm ci --ignore-scripts there brings it")
    if arguments.self_test:
        self_test(arguments)
    else:
        check(arguments)


main()
