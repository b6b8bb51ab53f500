#!/usr/bin/env python3
"""Kills the gateway repeatedly under load, and checks its guarantees from outside.

    crash.py --gatelodge PROGRAM [--kills 20] [--seed N]

The evidence is independent of the gateway: the upstream counts the calls it gets, Python's SQLite reads the ledger file,
and Python code verifies the hash chain. Checked are:

- calls never exceed the limit, and fall short by at most the calls in flight at the kills;
- every call has an intent in the ledger;
- the chain verifies, and `audit verify` finds a flipped byte and a dropped, swapped or truncated row.
"""

import argparse
import asyncio
import hashlib
import json
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from clients import free_port, make_token, wait_for  # noqa: E402

CALLERS = 64
# Name of the tool, its limit, whether the window is rolling, and the charge of one call.
TOOLS = [("one", "1", False, None), ("seven", "7", True, None), ("hundred", "100", False, None),
         ("thousand", "1000", True, None), ("spend", "25.5", False, "0.3"), ("plenty", "100000000", False, None)]


class Upstream:
    """An upstream that counts calls."""

    def __init__(self) -> None:
        self.hits: list[tuple[str, str]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = next((int(line[15:]) for line in head.split("\r\n") if line.startswith("content-length:")), 0)
                body = json.loads(await reader.readexactly(length)) if length else {}
                writer.write(self.answer(head, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        finally:
            writer.close()

    def answer(self, head: str, message: dict) -> bytes:
        method, session = message.get("method"), ""
        if method == "tools/call":
            self.hits.append((message["params"]["name"], message["id"]))
            result = {"content": [{"type": "text", "text": "done"}]}
        elif method == "tools/list":
            result = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name, *_ in TOOLS]}
        elif method == "initialize":
            session = "mcp-session-id: s\r\n"
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "counter", "version": "1"}}
        elif "id" in message:
            result = {}
        else:
            return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n{session}\r\n"
        return (head + text).encode()


class Client:
    """A client over plain sockets that reconnects to a restarted gateway."""

    def __init__(self, port: int, token: str):
        self.port, self.token, self.session = port, token, None
        self.reader = self.writer = None
        self.lost = 0

    async def post(self, message: dict) -> dict | None:
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        text = json.dumps(message)
        session = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
        self.writer.write((f"POST /mcp/counter HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\n"
                           f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n{session}"
                           f"Content-Length: {len(text)}\r\n\r\n{text}").encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        lines = dict(line.split(": ", 1) for line in head.split("\r\n") if ": " in line)
        body = await self.reader.readexactly(int(lines.get("content-length", 0)))
        self.session = lines.get("mcp-session-id", self.session)
        if head.startswith("http/1.1 404"):
            raise ConnectionError("the session is gone")
        return json.loads(body) if body else None

    async def call(self, tool: str, arguments: dict, stop: asyncio.Event) -> bool | None:
        """Return True if the call passed, False if it was refused, None if the gateway was killed."""
        sent = False
        while not stop.is_set():
            try:
                if self.session is None:
                    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "k", "version": "1"}}
                    await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
                sent = True
                answer = await self.post({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                                          "params": {"name": tool, "arguments": arguments}})
                return not answer.get("result", {"isError": True}).get("isError", False)
            except (OSError, asyncio.IncompleteReadError, ConnectionError):
                self.writer = self.session = None
                if sent:
                    self.lost += 1
                    return None
                await asyncio.sleep(0.02)
        return None


def configure(folder: Path, upstream: int, ports: tuple[int, int], token: str) -> Path:
    tools = {}
    for name, limit, rolls, amount in TOOLS:
        entry = {"counter": name, "window": "day" if rolls else "month", "max": Decimal(limit)}
        if rolls:
            entry["align"] = "rolling"
        if amount:
            entry["amount"] = "args.amount"
        tools[name] = {"limits": [entry]}
    policy = json.dumps({"version": "1", "default": "deny", "tools": tools}, default=float)
    (folder / "policy.json").write_text(policy)
    (folder / "token").write_text(token)
    path = folder / "gatelodge.toml"
    path.write_text(
        f'[gateway]\nlisten = "127.0.0.1:{ports[0]}"\n[admin]\nlisten = "127.0.0.1:{ports[1]}"\n[store]\ndata = "data"\n'
        f'[[servers]]\nname = "counter"\nurl = "http://127.0.0.1:{upstream}/mcp"\n'
        '[[policies]]\nname = "limits"\nfile = "policy.json"\n'
        '[[grants]]\nlabel = "k"\ntoken_file = "token"\nserver = "counter"\npolicy = "limits"\n')
    return path


async def work(arguments: argparse.Namespace, folder: Path, chance: random.Random) -> tuple[Upstream, int]:
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    ports, token = (free_port(), free_port()), make_token()
    path = configure(folder, server.sockets[0].getsockname()[1], ports, token)
    log = (folder / "log").open("w")
    stop = asyncio.Event()

    def start() -> subprocess.Popen:
        process = subprocess.Popen([arguments.gatelodge, "serve", "--config", str(path)], stdout=log, stderr=log)
        wait_for(ports[0], process, "gatelodge")
        return process

    process = start()
    callers = [Client(ports[0], token) for _ in range(CALLERS)]

    async def keep_calling(caller: Client) -> None:
        while not stop.is_set():
            name, _, _, amount = chance.choice(TOOLS)
            await caller.call(name, {"amount": float(amount)} if amount else {}, stop)

    tasks = [asyncio.create_task(keep_calling(caller)) for caller in callers]
    for _ in range(arguments.kills):
        await asyncio.sleep(chance.uniform(0.05, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process = await asyncio.to_thread(start)
    # Then without kills, until every limit is reached.
    await asyncio.sleep(6)
    stop.set()
    await asyncio.gather(*tasks)
    process.send_signal(signal.SIGTERM)
    if process.wait(timeout=20) != 0:
        sys.exit("error: the gateway did not shut down cleanly")
    server.close()
    return upstream, sum(caller.lost for caller in callers)


def chain(path: Path) -> list[tuple]:
    """Verify the hash chain: each hash covers the preceding hash, the number, the time and the text."""
    rows = sqlite3.connect(f"file:{path}?mode=ro", uri=True).execute("SELECT seq, at, body, hash FROM log ORDER BY seq").fetchall()
    before = bytes(32)
    for expected, (seq, at, body, own) in enumerate(rows, 1):
        text = before + seq.to_bytes(8, "big") + at.to_bytes(8, "big", signed=True) + body.encode()
        if seq != expected or hashlib.sha256(text).digest() != own:
            sys.exit(f"FAILED: the chain breaks at row {seq}")
        before = own
    return rows


def verify(arguments: argparse.Namespace, data: Path) -> subprocess.CompletedProcess:
    return subprocess.run([arguments.gatelodge, "audit", "verify", "--data", str(data)], capture_output=True, text=True)


def tamper(arguments: argparse.Namespace, data: Path, chance: random.Random) -> int:
    """Tamper with copies of the ledger; each change must be found."""
    count = sqlite3.connect(data / "ledger.db").execute("SELECT max(seq) FROM log").fetchone()[0]
    ways = []
    for _ in range(3):
        row = chance.randint(2, count - 1)
        flipped = "substr(body, 1, 20) || char(unicode(substr(body, 21, 1)) + 1) || substr(body, 22)"
        ways += [(f"changed byte of row {row}", f"UPDATE log SET body = {flipped} WHERE seq = {row}"),
                 (f"changed hash of row {row}", f"UPDATE log SET hash = randomblob(32) WHERE seq = {row}")]
    ways += [(f"dropped row {row}", f"DELETE FROM log WHERE seq = {row}"),
             ("cut rows at the end", f"DELETE FROM log WHERE seq > {count - 3}"),
             ("cut last row", f"DELETE FROM log WHERE seq = {count}"),
             ("later time", f"UPDATE log SET at = at + 1 WHERE seq = {row}"),
             ("swapped rows", f"UPDATE log SET body = (SELECT body FROM log other WHERE other.seq = {2 * row + 1} - log.seq) WHERE seq IN ({row}, {row + 1})")]
    for what, sql in ways:
        copy = data.parent / "tampered"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(data, copy)
        connection = sqlite3.connect(copy / "ledger.db")
        connection.execute(sql)
        connection.commit()
        connection.close()
        done = verify(arguments, copy)
        if done.returncode != 1:
            sys.exit(f"FAILED: {what} was not found (exit code {done.returncode})\n{done.stdout}{done.stderr}")
    return len(ways)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        upstream, in_flight = asyncio.run(work(arguments, folder, chance))
        rows = chain(folder / "data/ledger.db")
        intents = {json.loads(body)["call"] for _, _, body, _ in rows if '"kind":"intent"' in body}
        failed = 0
        for tool, limit, _, amount in TOOLS:
            hits = [call for name, call in upstream.hits if name == tool]
            used = len(hits) * Decimal(amount or 1)
            without = [call for call in hits if call not in intents]
            room = Decimal(limit) // Decimal(amount or 1)
            # One limit is never reached, so that calls continue until the last kill.
            is_used_up = tool == "plenty" or room - len(hits) <= in_flight
            ok = used <= Decimal(limit) and not without and len(hits) == len(set(hits)) and is_used_up
            failed += not ok
            print(f"{'ok' if ok else 'FAILED'} {tool}: {used} of {limit} used, {len(without)} calls without an intent")
        done = verify(arguments, folder / "data")
        if done.returncode != 0:
            sys.exit(f"FAILED: an unchanged ledger does not verify\n{done.stdout}{done.stderr}")
        ways = tamper(arguments, folder / "data", chance)
        print(f"kills: seed {arguments.seed}, {arguments.kills} kills, {len(upstream.hits)} hits, {len(rows)} rows, "
              f"{in_flight} calls in flight at kills, {ways} ways of tampering found")
        if len(upstream.hits) < 200 or (arguments.kills >= 20 and in_flight == 0):
            sys.exit("FAILED: too few calls or kills to show anything")
        sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
