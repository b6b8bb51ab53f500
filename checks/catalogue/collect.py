#!/usr/bin/env python3
"""Collect the tools of published MCP servers, with their authors' annotations, as labels for the tool classifier.

Three steps, each a subcommand:

    collect.py names --npm FILE --pypi-containing mcp > names.txt
    collect.py run names.txt --out DIR --work DIR [--uv PATH --python PATH --node PATH]
    collect.py facts DIR --to DIR

`run` reads each package without running it, and continues with those whose source sets annotations. These are installed
without their scripts, started over stdio by an unprivileged user in a namespace without network, asked for `tools/list`,
and deleted. Tools are written to `dev.jsonl` or `held.jsonl` by the hash of the package name, so the split never changes.
`facts` reduces the two files to what may be committed: no text of the authors.

`run` needs root (namespaces and a change of user). `servers.txt`, which `facts` writes, is itself a names file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import shutil
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from facts import write_facts
from install import INSTALL_UID, RUN_UID, InstallError, Tools, install_npm, install_pypi
from label import Collection
from package import (
    Package,
    Release,
    npm_index,
    npm_release,
    pypi_index,
    pypi_names,
    pypi_release,
    read_release,
)
from start import list_tools

INSTALLS_AT_ONCE = 3
CACHE_LIMIT = 1 << 30  # of each cache, in bytes


class Run:
    """Scanners read archives and feed the few annotated packages to workers that install and start them."""

    def __init__(self, collection: Collection, tools: Tools, deadline: float) -> None:
        self.collection = collection
        self.tools = tools
        self.deadline = deadline
        self.indexes = {"pypi": pypi_index(), "npm": npm_index()}
        self.waiting: dict[str, queue.Queue[Release]] = {"pypi": queue.Queue(20), "npm": queue.Queue(20)}
        self.installing = threading.Semaphore(INSTALLS_AT_ONCE)
        self.scanning = 0
        self._lock = threading.Lock()

    def over(self) -> bool:
        return time.monotonic() > self.deadline

    def scan(self, packages: queue.Queue[Package]) -> None:
        """Read packages until none is left; runs in several threads."""
        while not self.over():
            try:
                package = packages.get_nowait()
            except queue.Empty:
                break
            try:
                find = pypi_release if package.source == "pypi" else npm_release
                release = read_release(find(self.indexes[package.source], package))
            except Exception as error:  # an invalid archive is an outcome, not a crash
                self.collection.log(package, "not readable", why=f"{type(error).__name__}: {error}"[:200])
                continue
            if release.annotated:
                self.hand_over(release)
            else:
                self.collection.log(release.package, "no annotations")
        with self._lock:
            self.scanning -= 1

    def hand_over(self, release: Release) -> None:
        """Wait for room in the queue, so that reading does not get ahead of starting."""
        while not self.over():
            with contextlib.suppress(queue.Full):
                self.waiting[release.package.source].put(release, timeout=1)
                return

    def work(self, slot: int, first: str, second: str) -> None:
        """Install and start packages, of one source by preference; runs in several threads, each with its directory."""
        while not self.over():
            release = self.take(first) or self.take(second)
            if release is None:
                if not self.scanning:
                    return
                time.sleep(0.5)
                continue
            try:
                self.try_package(release, self.tools.work / f"slot-{slot}")
            except Exception as error:  # one package must not end the run
                self.collection.log(release.package, "failed", why=f"{type(error).__name__}: {error}"[:300])

    def take(self, source: str) -> Release | None:
        with contextlib.suppress(queue.Empty):
            return self.waiting[source].get_nowait()
        return None

    def try_package(self, release: Release, where: Path) -> None:
        """Install, start, list, store, delete."""
        shutil.rmtree(where, ignore_errors=True)
        try:
            where.mkdir(mode=0o755)
            os.chown(where, INSTALL_UID, INSTALL_UID)
            try:
                commands = self.install(release, where)
            except InstallError as error:
                self.collection.log(release.package, "install failed", why=str(error))
                return
            home = where / "home"
            home.mkdir()
            os.chown(home, RUN_UID, RUN_UID)
            session = list_tools(commands, release, home, self.tools)
            if session.tools is None:
                self.collection.log(release.package, "did not start", why=session.said[-400:])
                return
            outcome, numbers = self.collection.keep(release.package, session)
            self.collection.log(release.package, outcome, **numbers)
        finally:
            shutil.rmtree(where, ignore_errors=True)

    def install(self, release: Release, where: Path) -> list[list[str]]:
        install = install_pypi if release.package.source == "pypi" else install_npm
        with self.installing:
            return install(release, where, self.tools)

    def trim_caches(self) -> None:
        """Empty a cache that has grown too large; takes all slots first, so that no install runs meanwhile."""
        for cache in (self.tools.npm_cache, self.tools.uv_cache):
            used = subprocess.run(["du", "-sk", str(cache)], capture_output=True, text=True, check=False).stdout
            if not used or int(used.split()[0]) << 10 < CACHE_LIMIT:
                continue
            for _ in range(INSTALLS_AT_ONCE):
                self.installing.acquire()
            old = cache.rename(cache.with_suffix(".old"))
            make_cache(cache)
            self.installing.release(INSTALLS_AT_ONCE)
            subprocess.run(["rm", "-rf", str(old)], check=False)


def make_cache(cache: Path, uid: int = INSTALL_UID) -> None:
    cache.mkdir(parents=True, exist_ok=True)
    os.chown(cache, uid, uid)


def run(options: argparse.Namespace) -> None:
    """Collect until the names or the minutes are used up."""
    uv, python, node = (os.path.abspath(path) for path in (options.uv, options.python, options.node))
    tools = Tools(uv, python, node, options.work.resolve(), options.bun and os.path.abspath(options.bun))
    for cache in (tools.npm_cache, tools.uv_cache):
        make_cache(cache)
    make_cache(tools.bytecode, RUN_UID)
    collection = Collection(options.out)
    lines = options.names.read_text(encoding="utf-8").splitlines()
    packages = {Package.parse(line) for line in lines if line.strip()}
    todo = sorted((p for p in packages if p.key not in collection.logged), key=lambda package: package.order)
    this = Run(collection, tools, time.monotonic() + options.minutes * 60)
    scanners, workers = [], []
    for source in ("npm", "pypi"):
        names: queue.Queue[Package] = queue.Queue()
        for package in todo:
            if package.source == source:
                names.put(package)
        scanners += [threading.Thread(target=this.scan, args=(names,)) for _ in range(options.scanners)]
    this.scanning = len(scanners)
    for number in range(options.workers):
        order = ("npm", "pypi") if number % 2 else ("pypi", "npm")
        workers.append(threading.Thread(target=this.work, args=(number, *order)))
    for thread in scanners + workers:
        thread.start()
    report(this, workers)


def report(this: Run, workers: list[threading.Thread]) -> None:
    """Show the state twice a minute until all work is done."""
    while any(worker.is_alive() for worker in workers):
        time.sleep(30)
        this.trim_caches()
        outcomes = Counter(entry["outcome"] for entry in this.collection.logged.values())
        kept = [entry for entry in this.collection.logged.values() if entry["outcome"] == "kept"]
        held = [entry for entry in kept if entry["split"] == "held"]
        labeled = sum(entry["labeled"] for entry in held)
        print(f"{dict(outcomes)} | held: {len(held)} servers, {labeled} labeled", flush=True)


def write_names(options: argparse.Namespace) -> None:
    """Print candidates: a list of npm names, and the names of the Python index that contain a word."""
    if options.npm:
        for name in options.npm.read_text(encoding="utf-8").split():
            print(f"npm:{name}")
    if options.pypi_containing:
        for name in pypi_names(options.pypi_containing):
            print(f"pypi:{name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True)
    names = steps.add_parser("names", help="print candidate names")
    names.add_argument("--npm", type=Path, help="file of npm names")
    names.add_argument("--pypi-containing", metavar="WORD")
    names.set_defaults(do=write_names)
    collect = steps.add_parser("run", help="collect tools")
    collect.add_argument("names", type=Path)
    collect.add_argument("--out", type=Path, required=True, help="where dev.jsonl, held.jsonl and log.jsonl grow")
    collect.add_argument("--work", type=Path, required=True, help="scratch directory; must be reachable by all users")
    collect.add_argument("--minutes", type=float, default=60.0)
    collect.add_argument("--scanners", type=int, default=4, help="archives read at once, per source")
    collect.add_argument("--workers", type=int, default=6, help="packages processed at once (three of them installing)")
    collect.add_argument("--uv", default=shutil.which("uv") or "uv")
    collect.add_argument("--python", default=sys.executable)
    collect.add_argument("--node", default=shutil.which("node") or "node")
    collect.add_argument("--bun", help="install npm packages with it; npm itself if not given")
    collect.set_defaults(do=run)
    facts = steps.add_parser("facts", help="write what may be committed")
    facts.add_argument("directory", type=Path)
    facts.add_argument("--to", type=Path, required=True)
    facts.set_defaults(do=lambda options: write_facts(options.directory, options.to))
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
