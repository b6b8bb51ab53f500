#!/usr/bin/env python3
"""Compares start time and memory of `gatelodge pharo` with those of Python servers that have the same tools.

    pharo.py [--gatelodge PROGRAM] [--source DIR] [--rounds N] [--calls N]

The others are a minimal FastMCP server with the same tools and, with `--source`, a checkout of the original with the
versions of its own lock file. Each round starts every program once, lists its tools as a client does, and reads its
memory; some rounds continue with calls. Figures are medians of the rounds.
The exit code is 1 if a target is missed, 2 for a usage error.
"""

import argparse
import http.server
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "bench/pharo"
TOOLS = 22
# Rounds that continue with calls: these take seconds, and their memory hardly differs.
LONG_ROUNDS = 3
FASTER, SMALLER = 10, 5
# The machine is noisy if the interquartile range of a program's start times exceeds this part of their median.
NOISE = 0.25


class Image(http.server.BaseHTTPRequestHandler):
    """A fake image with a fixed response to `list_packages`."""

    BODY = b'{"success":true,"result":["Kernel","Collections-Sequenceable"]}'
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16  # Headers and body are sent at once; otherwise a client that reuses its connection waits for the body.

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.BODY)))
        self.end_headers()
        self.wfile.write(self.BODY)

    def log_message(self, *_):
        pass


class Server:
    """A measured server. The constructor returns when it has listed its tools."""

    def __init__(self, command: list[str], environment: dict[str, str]):
        begin = time.perf_counter()
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, cwd=HERE)
        info = {"name": "bench", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self.write({"method": "notifications/initialized"})
        listed = self.ask("tools/list", {})
        self.start = time.perf_counter() - begin
        if len(listed["tools"]) != TOOLS:
            sys.exit(f"error: {command[0]} lists {len(listed['tools'])} tools")

    def write(self, message: dict) -> None:
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict) -> dict:
        self.write({"id": 1, "method": method, "params": params})
        while line := self.process.stdout.readline():
            message = json.loads(line)
            if "result" in message:
                return message["result"]
            if "error" in message:
                sys.exit(f"error: {self.process.args[0]} answers {message['error']}")
        sys.exit(f"error: {self.process.args[0]} ended")

    def call(self) -> None:
        result = self.ask("tools/call", {"name": "list_packages", "arguments": {}})
        if result["structuredContent"]["success"] is not True:
            sys.exit(f"error: {self.process.args[0]} answers {result}")

    def memory(self) -> float:
        """Return the resident memory in MiB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def work(self) -> float:
        """Return the CPU time of its threads in ms. Other load on the machine affects it less than wall time."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e6

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(20)


def environment(port: int, **more: str) -> dict[str, str]:
    # Nothing is written next to the sources, and compiled Python files are kept, as in an installation.
    return {"PATH": os.environ["PATH"], "HOME": str(ROOT / ".tools"), "PHARO_SIS_PORT": str(port),
            "PYTHONPYCACHEPREFIX": str(ROOT / ".tools/bench-pycache"), "FASTMCP_CHECK_FOR_UPDATES": "off"} | more


def python_with(name: str, requirements: Path) -> str:
    folder = ROOT / ".tools" / name
    wanted, stamp = sys.version + requirements.read_text(), folder / "stamp"
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        "-r", requirements], check=True)
        stamp.write_text(wanted)
    return str(folder / "bin/python")


def programs(arguments: argparse.Namespace, port: int) -> dict[str, tuple[list[str], dict[str, str]]]:
    found = {
        "gatelodge pharo": ([arguments.gatelodge, "pharo"], environment(port)),
        "FastMCP, tools that do nothing":
            ([python_with("bench-fastmcp", HERE / "requirements.txt"), str(HERE / "fastmcp_server.py")], environment(port)),
    }
    if source := arguments.source:
        python = python_with("pharo-original", ROOT / "checks/pharo/requirements.txt")
        found["the original"] = ([python, "-m", "pharo_smalltalk_interop_mcp_server.server"],
                                 environment(port, PYTHONPATH=str(source.resolve())))
    return found


def measure(found: dict, rounds: int, calls: int) -> dict[str, dict[str, list[float]]]:
    figures = {name: {"start": [], "work": [], "listed": [], "called": [], "each": []} for name in found}
    for command, variables in found.values():
        Server(command, variables).end()  # A first run fills the page cache for all programs.
    for at in range(rounds):
        for name, (command, variables) in found.items():
            server, figure = Server(command, variables), figures[name]
            figure["start"].append(server.start * 1000)
            figure["work"].append(server.work())
            figure["listed"].append(server.memory())
            if at < LONG_ROUNDS:
                begin = time.perf_counter()
                for _ in range(calls):
                    server.call()
                figure["each"].append((time.perf_counter() - begin) / calls * 1e6)
                figure["called"].append(server.memory())
            server.end()
    return figures


def report(figures: dict[str, dict[str, list[float]]], calls: int) -> bool:
    ours, *others = figures
    median = {name: {what: statistics.median(values) for what, values in figure.items()}
              for name, figure in figures.items()}
    print(f"| | start to its list, ms | of that CPU, ms | MiB then | MiB after {calls:,} calls | a call, µs |")
    print("|---|---:|---:|---:|---:|---:|")
    for name, own in median.items():
        print(f"| {name} | {own['start']:,.1f} | {own['work']:,.1f} | {own['listed']:.1f} | {own['called']:.1f} "
              f"| {own['each']:,.0f} |")
    print()
    is_met = True
    for name in others:
        times = {what: median[name][what] / median[ours][what] for what in median[ours]}
        for what, words, target in [("start", "faster to its list", FASTER), ("listed", "smaller then", SMALLER),
                                    ("called", f"smaller after {calls:,} calls", SMALLER)]:
            met = times[what] >= target
            is_met &= met
            print(f"{times[what]:.1f} times {words} than {name}: at least {target}: {'met' if met else 'MISSED'}")
    for name, figure in figures.items():
        low, middle, high = statistics.quantiles(figure["start"], n=4)
        if high - low > NOISE * middle:
            print(f"note: the machine is noisy: the middle half of the starts of {name} took {low:.1f} to {high:.1f} ms")
    return is_met


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--gatelodge", metavar="PROGRAM", default=str(ROOT / "target/dist/gatelodge"))
    parser.add_argument("--source", metavar="DIR", type=Path)
    parser.add_argument("--rounds", metavar="N", type=int, default=15)
    parser.add_argument("--calls", metavar="N", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.rounds < LONG_ROUNDS or arguments.calls < 1:
        parser.error(f"at least {LONG_ROUNDS} rounds and one call")
    if not Path(arguments.gatelodge).is_file():
        parser.error(f"{arguments.gatelodge} does not exist; build it with `cargo build --release -p gatelodge`")
    if arguments.source and not (arguments.source / "pharo_smalltalk_interop_mcp_server/server.py").is_file():
        parser.error(f"{arguments.source} is not a checkout of the original")
    image = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Image)
    threading.Thread(target=image.serve_forever, daemon=True).start()
    figures = measure(programs(arguments, image.server_port), arguments.rounds, arguments.calls)
    sys.exit(0 if report(figures, arguments.calls) else 1)


if __name__ == "__main__":
    main()
