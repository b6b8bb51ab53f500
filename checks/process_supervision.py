#!/usr/bin/env python3
"""Tests stdio servers that misbehave, during calls and when they should end.

    process_supervision.py --gatelodge PROGRAM [--cycles 100] [--kills 5] [--seed N] [--node PROGRAM]

Faults: behind `serve` and `wrap`, every call must get exactly one answer in time with a clear message; the next call must
work; the gateway's memory must stay bounded; a secret in the server's environment must not leak.

Cycles: sessions with servers that fork, daemonize, ignore signals or exit early are opened and ended, and the gateway
itself is killed. Five seconds later nothing may be left: no process, no zombie, no open descriptor. This process is a
child subreaper, so it adopts every orphan.
"""

import argparse
import collections
import contextlib
import ctypes
import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from clients import free_port, make_token, wait_for  # noqa: E402
from peers import StdioPeer, Peer, HttpPeer, NoAnswer  # noqa: E402

ODD = [sys.executable, "-S", "-E", str(Path(__file__).resolve().parent / "process_supervision/misbehaving_server.py")]
MARK = "ODD_MARK"
# Processes of a server must be gone this long after its end.
PATIENCE = 5.0
# Grace period for `serve`; `wrap` has its own.
GRACE, WRAP_GRACE = 0.05, 1.0
# How long a client waits for an answer; the gateway's own time limit is shorter.
CALL_TIME, BOUND = 12, 40
# Allowed memory growth per fault. Replies are limited to 8 MiB by `serve` and to 64 MiB by `wrap`.
GROWTH = {"serve": 40 << 20, "wrap": 200 << 20}
FILES_OPENED_LATER = 1
# Maximum number of processes of one server.
MAX_CHILDREN = 64
PR_SET_CHILD_SUBREAPER = 36


# --- processes, as the system sees them


def numbers() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def status(pid: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def marked(mark: str) -> list[int]:
    """Return processes with the mark in their environment. A zombie has no environment."""
    found, wanted = [], f"{MARK}={mark}".encode()
    for pid in numbers():
        with contextlib.suppress(OSError):
            if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                found.append(pid)
    return found


def children(parent: int) -> dict[int, str]:
    """Return the children of a process with their states."""
    found = {}
    for pid in numbers():
        known = status(pid)
        if known.get("PPid", "").strip() == str(parent):
            found[pid] = known["State"][0]
    return found


def reap(own: set[int]) -> list[int]:
    """Reap adopted orphans that have ended, and return those that have not."""
    living = []
    for pid in children(os.getpid()):
        if pid in own:
            continue
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(pid, os.WNOHANG) == (0, 0):
                living.append(pid)
    return living


def memory(pid: int, field: str) -> int:
    return int(status(pid).get(field, "0 kB").split()[0]) << 10


def descriptors(pid: int) -> tuple[list[str], list[str]]:
    """Return the open descriptors of a process: files, and others."""
    files, others = [], []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            what = os.readlink(f"/proc/{pid}/fd/{name}")
            (files if what.startswith("/") else others).append(what)
    return sorted(files), sorted(others)


def has_more(now: tuple[list[str], list[str]], base: tuple[list[str], list[str]]) -> bool:
    """Return whether there are more descriptors. The ledger opens its file once more for its first sync."""
    return len(now[0]) > len(base[0]) + FILES_OPENED_LATER or len(now[1]) > len(base[1])


def describe(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        known = status(pid)
        return f"{pid} (parent {known.get('PPid', '?').strip()}, {known.get('State', '?').strip()}): {words[-160:]}"
    return f"{pid}: gone"


# --- the gateway


class Gateway:
    def __init__(self, program: str, folder: Path, servers: dict[str, list[str]], env: dict[str, str],
                 level: str = "info", graces: dict[str, float] | None = None) -> None:
        self.program, self.folder, self.level = program, folder, level
        self.port, self.token, self.env = free_port(), make_token(), env
        folder.mkdir()
        (folder / "all.json").write_text('{"version":"1","default":"allow"}')
        (folder / "token").write_text(self.token)
        text = (f'[gateway]\nlisten = "127.0.0.1:{self.port}"\nmax_reply_bytes = {8 << 20}\ncall_timeout = "{CALL_TIME}s"\n'
                f'drain_timeout = "1s"\n[admin]\nlisten = "127.0.0.1:{free_port()}"\n[store]\ndata = "data"\n'
                '[[policies]]\nname = "all"\nfile = "all.json"\n')
        written = ", ".join(f"{name} = {json.dumps(value)}" for name, value in env.items())
        for name, command in servers.items():
            grace = int((graces or {}).get(name, GRACE) * 1000)
            text += f'[[servers]]\nname = "{name}"\ncommand = {json.dumps(command)}\ngrace = "{grace}ms"\n'
            text += f'env = {{ {written} }}\n'
            text += f'[[grants]]\nlabel = "{name}"\ntoken_file = "{name}.token"\nserver = "{name}"\npolicy = "all"\n'
            (folder / f"{name}.token").write_text(make_token())
        (folder / "gatelodge.toml").write_text(text)
        self.log = (folder / "log").open("ab")
        self.start()

    def start(self) -> None:
        command = [self.program, "serve", "--config", str(self.folder / "gatelodge.toml"), "--log-level", self.level]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log)
        wait_for(self.port, self.process, "gatelodge")

    @property
    def pid(self) -> int:
        return self.process.pid

    def client(self, server: str) -> HttpPeer:
        return HttpPeer(f"http://127.0.0.1:{self.port}/mcp/{server}", (self.folder / f"{server}.token").read_text())


def wrapped(program: str, folder: Path, command: list[str], env: dict[str, str], level: str = "info") -> StdioPeer:
    (folder / "all.json").write_text('{"version":"1","default":"allow"}')
    words = [program, "wrap", "--policy", str(folder / "all.json"), "--name", "odd", "--data", str(folder / "data"),
             "--log-level", level, "--", *command]
    with (folder / "log").open("ab") as log:
        return StdioPeer(words, log, env={"PATH": os.environ["PATH"], **env})


# --- faults


class Findings:
    def __init__(self) -> None:
        self.checked, self.failed = collections.Counter(), 0

    def hold(self, group: str, what: str, is_so: bool, why: object = "") -> None:
        self.checked[group] += 1
        if not is_so:
            self.failed += 1
            print(f"FAILED {what}: {str(why)[:600]}", flush=True)


def words_of(text: str) -> str:
    """Return the text of a result or an error."""
    message = json.loads(text)
    if "error" in message:
        return "error: " + message["error"]["message"]
    content = message["result"].get("content", [])
    kind = "refused: " if message["result"].get("isError") else ""
    return kind + " ".join(part.get("text", "") for part in content)


ENDED = r"refused: .*response is incomplete; the call may have run"
TIMEOUT = "did not answer in time"
NOT_THERE = "error: .*cannot be reached; nothing was sent"
# Tool and expected text. If the server answers after all, its answer is expected.
TOOLS = [
    ("garbage", "^fine$"), ("endless", ENDED), ("complain", "^fine$"), ("die", ENDED), ("twice", "^fine$"),
    ("wrong_first", "^fine$"), ("wrong", f"refused: .*{TIMEOUT}"), ("shut_output", ENDED), ("batch", "^fine$"),
    ("bytes", "^fine$"), ("early", "^fine$"), ("flood", "^fine$"), ("many", "^fine$"), ("secret", r"^\*\*\* \*\*\*$"),
    ("secret_death", ENDED),
]
# Start behavior, and the expected result of `initialize`.
STARTS = [
    ("hang", "error: .*did not answer the handshake"), ("slow", "^$"), ("exit", "error: .*response is incomplete"), ("leave", "^$"),
    ("noise", "^$"), ("early", "^$"),
]


def fault(findings: Findings, what: str, peer: Peer, pid: int, tool: str, wanted: str, done: Path) -> None:
    """Make a call that fails, and another one that must work."""
    side = what.split(":")[0]
    before, since = memory(pid, "VmRSS"), time.monotonic()
    with contextlib.suppress(OSError):
        Path(f"/proc/{pid}/clear_refs").write_text("5")
    try:
        # `wrap` allows minutes; the client cancels, and gets no answer.
        if side == "wrap" and tool == "wrong":
            try:
                text = peer.call(tool, {"text": "fine"}, 2)
                findings.hold(side, what, False, f"answered: {text}")
            except NoAnswer:
                peer.note("notifications/cancelled", {"requestId": peer.last})
        else:
            text = peer.call(tool, {"text": "fine", "done": str(done)}, BOUND)
            findings.hold(side, what, re.search(wanted, words_of(text), re.DOTALL) is not None, words_of(text))
        took = time.monotonic() - since
        while tool == "flood" and not done.exists() and time.monotonic() < since + BOUND:
            time.sleep(0.05)
        text = peer.call("echo", {"text": "next"}, BOUND)
        grown = memory(pid, "VmHWM") - before
        findings.hold(side, f"{what}, the next call", words_of(text) == "next", words_of(text))
        findings.hold(side, f"{what}, memory", grown < GROWTH[side], f"grew by {grown >> 20} MiB")
    except NoAnswer as silence:
        findings.hold(side, what, False, silence)
        return
    again = peer.answered_more_than_once()
    findings.hold(side, f"{what}, answers", not again, f"not answered once: {again}")
    print(f"  {what}: {took:.1f} s, {grown >> 20} MiB", flush=True)


def shut_input(findings: Findings, what: str, peer: Peer) -> None:
    """The server closes its input: the next call fails or gets an answer of a new process; the one after it must work."""
    side, said = what.split(":")[0], []
    try:
        for tool in ("shut_input", "echo", "echo"):
            said.append(words_of(peer.call(tool, {"text": "fine"}, BOUND)))
    except NoAnswer as silence:
        said.append(str(silence))
    is_so = said[0] == said[-1] == "fine" and len(said) == 3 and re.search(f"^fine$|{ENDED}", said[1])
    findings.hold(side, what, bool(is_so), said)
    findings.hold(side, f"{what}, answers", not peer.answered_more_than_once())


def start_fault(findings: Findings, what: str, peer: Peer, wanted: str) -> None:
    side, since = what.split(":")[0], time.monotonic()
    try:
        text = peer.hello(BOUND)
        said = words_of(text)
        findings.hold(side, what, re.search(wanted, said, re.DOTALL) is not None, said)
        if "error" not in json.loads(text):
            text = peer.call("echo", {"text": "next"}, BOUND)
            # A server that exits after `initialize` cannot answer a call; the error must say so.
            leaves = "leave" in what and words_of(text).startswith("refused: ")
            findings.hold(side, f"{what}, the next call", words_of(text) == "next" or bool(leaves), words_of(text))
        else:
            # The next call gets an answer, too, possibly the error of the restart delay.
            text = peer.hello(BOUND) if "hang" not in what else text
            findings.hold(side, f"{what}, once more", "error" in json.loads(text), text)
    except NoAnswer as silence:
        findings.hold(side, what, False, silence)
        return
    findings.hold(side, f"{what}, answers", not peer.answered_more_than_once())
    print(f"  {what}: {time.monotonic() - since:.1f} s", flush=True)


def faults(arguments: argparse.Namespace, findings: Findings, folder: Path) -> None:
    secret, mark = secrets.token_hex(20), secrets.token_hex(8)
    env = {MARK: mark, "ODD_TOKEN": secret}
    crowd = [*ODD, "deaf", "stubborn", "name=crowd"]
    starts = {f"start-{name}": [*ODD, f"start={name}"] for name, _ in STARTS}
    missing = ["no-such-program-anywhere"]
    servers = {"odd": ODD, "missing": missing, "crowd": crowd, "impatient": starts["start-slow"], **starts}
    gateway = Gateway(arguments.gatelodge, folder / "serve", servers, env, "debug", {"crowd": 3.0})
    wrap = folder / "wrap"
    wrap.mkdir()
    peers: list[Peer] = []

    def wrapper(command: list[str], name: str) -> StdioPeer:
        own = wrap / name
        own.mkdir()
        peer = wrapped(arguments.gatelodge, own, command, env, "debug")
        peers.append(peer)
        return peer

    def over_http() -> None:
        peer = gateway.client("odd")
        peers.append(peer)
        peer.hello()
        for tool, wanted in TOOLS:
            fault(findings, f"serve: {tool}", peer, gateway.pid, tool, wanted, folder / "serve/done")
        shut_input(findings, "serve: shut_input", peer)
        peer.end()

    def over_wrap() -> None:
        peer = wrapper(ODD, "odd")
        peer.hello()
        for tool, wanted in TOOLS:
            fault(findings, f"wrap: {tool}", peer, peer.process.pid, tool, wanted, wrap / "done")
        shut_input(findings, "wrap: shut_input", peer)
        findings.hold("wrap", "wrap: its end", peer.end() == 0)

    def at_start() -> None:
        for name, wanted in [*STARTS, ("missing", NOT_THERE)]:
            server = name if name == "missing" else f"start-{name}"
            peer = gateway.client(server)
            peers.append(peer)
            start_fault(findings, f"serve: start {name}", peer, wanted)
            peer.end()
            if name == "missing":
                # A missing program is reported before any input is read.
                ended = wrapper(missing, server).process.wait(BOUND)
                findings.hold("wrap", "wrap: start missing, its end", ended == 2, ended)
                continue
            peer = wrapper(starts[server], server)
            start_fault(findings, f"wrap: start {name}", peer, wanted)
            findings.hold("wrap", f"wrap: start {name}, its end", peer.end() == 0)

    def impatient() -> None:
        """Clients disconnect before a slow server has answered; the next client must not be affected."""
        for _ in range(5):
            with contextlib.suppress(NoAnswer):
                gateway.client("impatient").hello(0.3)
        time.sleep(0.5)
        start_fault(findings, "serve: start slow, after impatient clients", gateway.client("impatient"), "^$")

    run_all([over_http, over_wrap, at_start, impatient])
    crowded(findings, gateway, mark)
    gateway.process.terminate()
    findings.hold("serve", "serve: its end", gateway.process.wait(20) == 0)
    left = wait_until_none(mark, set(), 3 * WRAP_GRACE + PATIENCE)
    findings.hold("serve", "faults: nothing is left", not left[0], [describe(pid) for pid in left[0]])
    # The secret, and all long parts of it.
    parts = [secret[at:at + 16] for at in range(0, len(secret) - 15)]
    said = "\n".join(text for peer in peers for text in peer.received)
    findings.hold("secret", "the secret in what callers get", not any(part in said for part in parts), said[:200])
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "gatelodge.toml":
            text = path.read_bytes().decode(errors="replace")
            seen = [line for line in text.splitlines() if any(part in line for part in parts)]
            findings.hold("secret", f"the secret in {path.relative_to(folder)}", not seen, f"{len(seen)} lines: {seen[:1]}")
    if b"my token is ***" not in (folder / "serve/log").read_bytes():
        findings.hold("secret", "the log shows the place of the secret", False)


def crowded(findings: Findings, gateway: Gateway, mark: str) -> None:
    """Open and close sessions faster than their processes end: the number of processes must stay bounded."""
    most, refused, stop = 0, 0, threading.Event()

    def come_and_go() -> None:
        nonlocal refused
        for _ in range(12):
            peer = gateway.client("crowd")
            refused += "cannot be reached" in peer.hello(BOUND)
            peer.end()

    def count() -> None:
        nonlocal most
        while not stop.wait(0.05):
            # Each server has a supervisor.
            named = [pid for pid in marked(mark) if "name=crowd" in describe(pid)]
            most = max(most, len(named) // 2)

    counter = threading.Thread(target=count)
    counter.start()
    run_all([come_and_go] * 8)
    stop.set()
    counter.join()
    findings.hold("serve", "serve: processes at a time", 0 < most <= MAX_CHILDREN and refused > 0, f"{most}, {refused} refused")
    print(f"  serve: crowd: {most} processes at a time, {refused} of 96 sessions refused", flush=True)


def run_all(work: list) -> None:
    """Run functions in parallel and re-raise their exceptions."""
    raised: list[BaseException] = []

    def safely(function) -> None:
        try:
            function()
        except BaseException as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=safely, args=(function,)) for function in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


# --- cycles


def wait_until_none(mark: str, own: set[int], patience: float) -> tuple[list[int], float]:
    """Wait until no process has the mark and no orphan is left. Return what is left, and how long it took."""
    since = time.monotonic()
    took, empty = 0.0, 0
    while True:
        left = sorted(set(marked(mark)) | set(reap(own)))
        # One look may miss a process that forks and ends meanwhile.
        empty = 0 if left else empty + 1
        if empty <= 1:
            took = time.monotonic() - since
        if empty == 5 or took > patience:
            return left, took
        time.sleep(0.02)


def kinds(node: str | None) -> dict[str, tuple[list[str], bool]]:
    """Return servers by name: the command, and whether it answers calls."""
    def shell(text: str, *words: str) -> list[str]:
        return ["sh", "-c", text, "sh", *ODD, *words]

    launcher = ("const child = require('child_process').spawn(process.argv[1], process.argv.slice(2), {stdio: 'inherit'});"
                "child.on('exit', (code) => process.exit(code ?? 1));")
    found = {
        "plain": (ODD, True),
        "fork": ([*ODD, "family=fork"], True),
        "daemon": ([*ODD, "family=daemon"], True),
        "chain": ([*ODD, "family=chain"], True),
        "stubborn": ([*ODD, "stubborn", "deaf"], True),
        "deaf": ([*ODD, "deaf"], True),
        "all": ([*ODD, "stubborn", "deaf", "family=daemon"], True),
        "fork-stubborn": ([*ODD, "stubborn", "family=fork"], True),
        "exit": ([*ODD, "start=exit", "family=fork"], False),
        "leave": ([*ODD, "start=leave", "family=daemon"], False),
        "shell": (shell('"$@"; true', "family=fork"), True),
        "shell-deaf": (shell('trap "" TERM; "$@"; true', "deaf", "stubborn", "family=daemon"), True),
        "shell-behind": (shell('exec 3<&0; "$@" <&3 3<&- & exec 0<&- 3<&-; wait', "deaf"), True),
        "shell-leaves": (shell('(trap "" TERM; sleep 50) & (setsid sleep 50 &) "$@"', "start=leave"), False),
    }
    if node:
        found["node"] = ([node, "-e", launcher, *ODD, "family=fork"], True)
        found["node-deaf"] = ([node, "-e", launcher, *ODD, "deaf", "stubborn", "family=daemon"], True)
    return found


class Cycles:
    def __init__(self, arguments: argparse.Namespace, findings: Findings, folder: Path) -> None:
        self.arguments, self.findings, self.folder = arguments, findings, folder
        self.chance, self.mark = random.Random(arguments.seed), secrets.token_hex(8)
        self.kinds = kinds(arguments.node)
        self.counts, self.longest = collections.Counter(), collections.Counter()
        self.env = {MARK: self.mark}
        commands = {name: command for name, (command, _) in self.kinds.items()}
        self.gateway = Gateway(arguments.gatelodge, folder / "cycles", commands, self.env)
        self.places = iter(range(1 << 30))

    def over_http(self, chance: random.Random, kind: str) -> None:
        peer, answers = self.gateway.client(kind), self.kinds[kind][1]
        hello = json.loads(peer.hello())
        if answers:
            self.findings.hold("cycles", f"{kind}: handshake", "result" in hello, hello)
            if chance.random() < 0.6:
                text = words_of(peer.call("echo", {"text": "fine"}))
                self.findings.hold("cycles", f"{kind}: call", text == "fine", text)
        elif "result" in hello and chance.random() < 0.6:
            self.counts["answered nevertheless"] += "next" == words_of(peer.call("echo", {"text": "next"}))
        peer.end()
        self.counts["over HTTP"] += 1

    def over_wrap(self, chance: random.Random, kind: str) -> None:
        command, answers = self.kinds[kind]
        own = self.folder / f"wrap-{next(self.places)}"
        own.mkdir()
        peer = wrapped(self.arguments.gatelodge, own, command, self.env)
        end = chance.choice(["close", "term", "kill", "close early", "kill early"])
        if "early" not in end:
            hello = json.loads(peer.hello())
            if answers:
                self.findings.hold("cycles", f"{kind} in wrap: handshake", "result" in hello, hello)
                text = words_of(peer.call("echo", {"text": "fine"}))
                self.findings.hold("cycles", f"{kind} in wrap: call", text == "fine", text)
        else:
            peer.send(peer.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}))
            time.sleep(chance.uniform(0, 0.15))
        if "close" not in end:
            peer.process.send_signal(signal.SIGKILL if "kill" in end else signal.SIGTERM)
        code = peer.end()
        if "kill" not in end:
            self.findings.hold("cycles", f"{kind} in wrap: its end by {end}", code == 0, code)
        self.counts["in wrap"] += 1
        shutil.rmtree(own)

    def round(self, count: int, way, name: str, patience: float) -> None:
        """Run cycles in parallel, and check that nothing is left."""
        work = collections.deque((self.chance.choice(list(self.kinds)), self.chance.random()) for _ in range(count))

        def worker() -> None:
            with contextlib.suppress(IndexError):
                while True:
                    kind, seed = work.popleft()
                    try:
                        way(random.Random(seed), kind)
                    except NoAnswer as silence:
                        self.findings.hold("cycles", f"{kind}: answered", False, silence)

        run_all([worker] * 4)
        self.nothing_is_left(name, {self.gateway.pid}, patience)

    def nothing_is_left(self, name: str, own: set[int], patience: float) -> None:
        left, took = wait_until_none(self.mark, own, patience)
        self.longest[name] = max(self.longest[name], round(took, 1))
        self.findings.hold(name, f"{name}: nothing is left within {patience} s", not left and took <= patience,
                           f"{took:.1f} s\n" + "\n".join(describe(pid) for pid in left))
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    def descriptors_after(self, base: tuple[list[str], list[str]]) -> tuple[list[str], list[str]]:
        """Wait until no more descriptors are open than at the start."""
        end = time.monotonic() + PATIENCE
        while has_more(open_now := descriptors(self.gateway.pid), base) and time.monotonic() < end:
            time.sleep(0.05)
        return open_now

    def run(self) -> None:
        # The first round creates what stays: threads, the ledger's files.
        self.round(16, self.over_http, "serve", PATIENCE)
        base = descriptors(self.gateway.pid)
        for start in range(0, self.arguments.cycles, 25):
            count = min(25, self.arguments.cycles - start)
            by_wrap = count // 5
            self.round(count - by_wrap, self.over_http, "serve", PATIENCE)
            self.round(by_wrap, self.over_wrap, "wrap", PATIENCE + 3 * WRAP_GRACE)
        open_now = self.descriptors_after(base)
        self.findings.hold("cycles", "descriptors", not has_more(open_now, base), f"{base} in the beginning, {open_now} now")
        zombies = children(self.gateway.pid)
        self.findings.hold("cycles", "children of the gateway", not zombies, zombies)
        print(f"  cycles: {dict(self.counts)}, {sum(map(len, base))} descriptors and {sum(map(len, open_now))} in the end", flush=True)

    def kill(self, how: signal.Signals) -> None:
        """Kill the gateway while sessions are opened and closed."""
        stop = threading.Event()

        def worker(seed: float) -> None:
            chance = random.Random(seed)
            while not stop.is_set():
                with contextlib.suppress(NoAnswer):
                    peer = self.gateway.client(chance.choice(list(self.kinds)))
                    peer.hello()
                    if chance.random() < 0.7:
                        peer.call("echo", {"text": "fine"})
                    if chance.random() < 0.5:
                        peer.end()

        def killer() -> None:
            time.sleep(self.chance.uniform(0.1, 1.5))
            self.counts["processes at kills"] += len(marked(self.mark))
            stop.set()
            self.gateway.process.send_signal(how)
            code = self.gateway.process.wait(20)
            self.counts[how.name] += 1
            if how == signal.SIGTERM:
                self.findings.hold("kills", "the gateway shuts down cleanly", code == 0, code)

        run_all([*(lambda seed=self.chance.random(): worker(seed) for _ in range(4)), killer])
        self.nothing_is_left("kills", set(), PATIENCE)
        self.gateway.start()

    def kills(self) -> None:
        for number in range(self.arguments.kills):
            self.kill(signal.SIGTERM if number % 3 == 1 else signal.SIGKILL)
        self.gateway.process.terminate()
        self.findings.hold("kills", "the gateway shuts down cleanly", self.gateway.process.wait(20) == 0)
        print(f"  kills: {dict(self.counts)}; the longest until all was gone, in seconds: {dict(self.longest)}", flush=True)
        if self.arguments.kills and not self.counts["processes at kills"]:
            self.findings.hold("kills", "something ran when the gateway was killed", False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--node")
    parser.add_argument("--only", choices=["faults", "cycles"])
    arguments = parser.parse_args()
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        sys.exit("error: this process cannot become a child subreaper")
    findings, since = Findings(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.only != "cycles":
            faults(arguments, findings, folder)
        if arguments.only != "faults":
            cycles = Cycles(arguments, findings, folder)
            cycles.run()
            cycles.kills()
    held = ", ".join(f"{count} of {group}" for group, count in findings.checked.items())
    print(f"process-supervision: seed {arguments.seed}, {arguments.cycles} cycles, {arguments.kills} kills, "
          f"{time.monotonic() - since:.0f} s; looked at {held}; {findings.failed} failed")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
