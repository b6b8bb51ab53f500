#!/usr/bin/env python3
"""Looks at the exported catalogue in a real browser.

Exports the site, takes pages of every kind, opens each in light and in dark, and has axe-core look for
what keeps people out. Any finding fails, and so do fewer pages than were asked for.

    site.py --gatelodge PROGRAM --node NODE --browser BROWSER [--index FILE] [--pages N] [--seed N]
    site.py --self-test --node NODE --browser BROWSER    fails unless a planted fault is found
"""

import argparse
import random
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent / "site"
KINDS = ["attacks", "incidents", "risk", "servers"]
BAD = "<!doctype html><html><head><title>x</title></head><body><img src='x'><p style='color:#ccc'>pale</p></body></html>"


def look(arguments: argparse.Namespace, pages: list[Path], folder: Path) -> subprocess.CompletedProcess:
    listed = folder / "pages.txt"
    listed.write_text("".join(f"{page.as_uri()}\n" for page in pages))
    command = [arguments.node, HERE / "axe.mjs", arguments.browser, listed]
    return subprocess.run(command, cwd=HERE, capture_output=True, text=True)


def chosen(site: Path, count: int, chance: random.Random) -> list[Path]:
    """Pages of every kind first, and then of servers and tools by chance."""
    pages = sorted(site.glob("*.html"))
    for kind in KINDS:
        pages += sorted((site / kind).glob("*.html"))
    rest = sorted(set(site.rglob("*.html")) - set(pages))
    pages += chance.sample(rest, min(len(rest), max(0, count - len(pages))))
    if len(pages) < count:
        sys.exit(f"error: the site has {len(pages)} pages, and {count} were to be looked at")
    return pages


def self_test(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bad.html").write_text(BAD)
        done = look(arguments, [folder / "bad.html"], folder)
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
        site = folder / "site"
        command = [arguments.gatelodge, "catalogue", "export", "--out", site, "--data", folder / "data"]
        if arguments.index:
            command += ["--index", arguments.index]
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        pages = chosen(site, arguments.pages, random.Random(arguments.seed))
        done = look(arguments, pages, folder)
        print(f"seed {arguments.seed}\n{done.stdout}{done.stderr}", end="")
        if done.returncode != 0:
            sys.exit("error: the site has faults")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", type=Path)
    parser.add_argument("--node", required=True)
    parser.add_argument("--browser", required=True)
    parser.add_argument("--index", type=Path)
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
