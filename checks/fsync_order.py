#!/usr/bin/env python3
"""Traces the system calls of the gateway: with `durability = "power"` no call is sent before its row is synced.

    fsync_order.py --gatelodge PROGRAM

With `durability = "process"`, where syncs come later, the check must find calls that were sent before their sync;
otherwise it proves nothing. Then a limit with a real window of two seconds is used up twice.
"""

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from clients import free_port, make_token, wait_for  # noqa: E402
from crash import Client, Upstream, configure  # noqa: E402

CALLS = 30
# A row is first in the redo log, and in the database's log after a checkpoint.
LOG = r"<[^>]*/ledger\.(?:journal|db-wal)>"


async def watched(arguments: argparse.Namespace, folder: Path, durability: str) -> list[str]:
    """Run calls one after another and return the trace."""
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    ports, token, port = (free_port(), free_port()), make_token(), server.sockets[0].getsockname()[1]
    path = configure(folder, port, ports, token)
    path.write_text(path.read_text().replace('data = "data"', f'data = "data"\ndurability = "{durability}"'))
    trace = folder / "trace"
    command = ["strace", "-f", "-yy", "-s", "400", "-o", str(trace),
               "-e", "trace=pwrite64,pwritev,fdatasync,fsync,write,writev,sendto,sendmsg",
               arguments.gatelodge, "serve", "--config", str(path)]
    log = (folder / "log").open("w")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    await asyncio.to_thread(wait_for, ports[0], process, "gatelodge under strace")
    caller, stop = Client(ports[0], token), asyncio.Event()
    for _ in range(CALLS):
        if await caller.call("thousand", {}, stop) is not True:
            sys.exit("FAILED: a call did not pass")
        # Wait until the outcome of this call is also written.
        await asyncio.sleep(0.12)
    subprocess.run(["pkill", "-TERM", "-P", str(process.pid)], check=False)
    process.wait(timeout=30)
    server.close()
    if len(upstream.hits) != CALLS:
        sys.exit(f"FAILED: {len(upstream.hits)} of {CALLS} calls reached the upstream")
    return [line for line in trace.read_text(errors="replace").splitlines() if "unfinished" not in line or "sync" not in line]


def unsynced(lines: list[str]) -> tuple[int, int]:
    """Return how many calls were sent, and how many of them before their row was synced."""
    sent = early = 0
    written, synced = -1, -1
    for at, line in enumerate(lines):
        if re.search(rf"pwrite(64|v)\(\d+{LOG}", line):
            written = at
        elif re.search(rf"(fdatasync|fsync)\(\d+{LOG}\)? *= 0", line) or re.search(r"(fdatasync|fsync) resumed>.*= 0", line):
            synced = at
        elif "tools/call" in line and "POST /mcp" in line and re.search(r"(write|writev|sendto|sendmsg)\(", line):
            sent += 1
            early += synced < written
    return sent, early


def check_window_reset(arguments: argparse.Namespace, folder: Path) -> None:
    """Use up a real window of two seconds, and check that it resets at its end."""

    async def use() -> None:
        upstream = Upstream()
        server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
        ports, token = (free_port(), free_port()), make_token()
        path = configure(folder, server.sockets[0].getsockname()[1], ports, token)
        limit = '{"version":"1","default":"deny","tools":{"one":{"limits":[{"counter":"c","window":2,"max":2}]}}}'
        (folder / "policy.json").write_text(limit)
        process = subprocess.Popen([arguments.gatelodge, "serve", "--config", str(path)], stderr=subprocess.DEVNULL)
        await asyncio.to_thread(wait_for, ports[0], process, "gatelodge")
        caller, stop = Client(ports[0], token), asyncio.Event()
        await caller.call("seven", {}, stop)
        seen = []
        for _ in range(2):
            await asyncio.sleep(2.05 - time.time() % 2)
            seen.append([await caller.call("one", {}, stop) for _ in range(3)])
        process.terminate()
        process.wait(timeout=20)
        server.close()
        if seen != [[True, True, False]] * 2:
            sys.exit(f"FAILED: a window of two seconds gave {seen}")

    asyncio.run(use())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    arguments = parser.parse_args()
    if not shutil.which("strace"):
        sys.exit("error: strace is missing")
    found = {}
    for durability in ("power", "process"):
        with tempfile.TemporaryDirectory() as folder:
            found[durability] = unsynced(asyncio.run(watched(arguments, Path(folder), durability)))
            print(f"{durability}: {found[durability][0]} calls sent, {found[durability][1]} before their sync")
    with tempfile.TemporaryDirectory() as folder:
        check_window_reset(arguments, Path(folder))
    print("a real window of two seconds: used up, refused, reset, twice")
    if found["power"] != (CALLS, 0):
        sys.exit("FAILED: with `power`, a call was sent before its row was synced, or was not seen")
    if found["process"][1] == 0:
        sys.exit("FAILED: with `process` every call was sent after a sync, so this check cannot fail")


if __name__ == "__main__":
    main()
