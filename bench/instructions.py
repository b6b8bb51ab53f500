#!/usr/bin/env python3
"""Counts the user-space instructions that one call takes in a gateway.

    instructions.py PROGRAM [PROGRAM ...] [--case NAME ...] [--rounds N] [--json]

PROGRAM is a `gatelodge` executable. With several, each is compared with the first. They take turns within a round, so
a comparison of two builds needs one command:

    instructions.py before/gatelodge after/gatelodge --case small-16 --rounds 5

The gateway runs under `valgrind --tool=cachegrind` on one processor, and so with one worker. This script is both sides
of it: the clients, which send the next call as soon as the reply is there and check each reply, and an upstream that only
replies. The configuration is that of the target `gatelodge` of `call_overhead` (`bench/README.md`): a grant's token, a
policy of 100 rules of which one with two conditions and a limit applies, and a call log. Each round runs a program
twice, with few calls and with many; the difference of the two counts, divided by the difference of the calls, is free of
start-up and shutdown.

Whatever else the machine does only adds to a count: the longer a run takes, the more often the ledger's threads wake up,
and calls meet in other batches. So the result is the difference of the least counts of all rounds. The spread is that of
the differences within a round; it says how much to trust a result. Two rounds on a machine with a load of 10 were 1.1 %
apart in `small-16` and 3.2 % in `small-1`; a difference below the spread says nothing.

Not counted: the kernel (system calls, copies from and to sockets), caches and mispredicted branches. Valgrind has no SHA
and AVX-512 instructions, so SHA-256 and BLAKE3 take their portable or AVX2 paths and weigh more than in production.
Compare builds of the same profile.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ANSWER = "the answer is forty-two"
MEGABYTE = "x" * (1 << 20)
META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}},'
)
STATELESS_HEADERS = "mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: tool_50\r\n"
INITIALIZE = (
    '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"bench","version":"1"}}}'
)
START_TIMEOUT = 60
STOP_TIMEOUT = 60


class Case(NamedTuple):
    """What the clients send, over how many connections, and the two numbers of calls to compare."""

    request: str
    connections: int
    few: int
    many: int
    durability: str = "process"


CASES = {
    "small-1": Case("small", 1, 400, 2_000),
    "small-16": Case("small", 16, 800, 4_000),
    "small-64": Case("small", 64, 1_280, 6_400),
    "stateless-16": Case("stateless", 16, 800, 4_000),
    "list-20": Case("list", 16, 800, 4_000),
    "large-1": Case("large", 1, 20, 100),
    "large-16": Case("large", 16, 32, 160),
    "power-64": Case("small", 64, 1_280, 6_400, "power"),
}


class Message(NamedTuple):
    """An HTTP/1.1 request or response."""

    head: str
    body: str


async def read_message(reader: asyncio.StreamReader) -> Message:
    """Reads one message; a chunked body is returned with its chunk sizes."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    if re.search(r"(?i)^transfer-encoding: *chunked", head, re.MULTILINE):
        return Message(head, (await reader.readuntil(b"0\r\n\r\n")).decode())
    length = re.search(r"(?i)^content-length: *(\d+)", head, re.MULTILINE)
    return Message(head, (await reader.readexactly(int(length[1]) if length else 0)).decode())


def tool_list(count: int) -> str:
    """The result of `tools/list` with tools that the policy allows."""
    properties = '{"amount":{"type":"number"},"currency":{"type":"string"},"note":{"type":"string"}}'
    tools = (
        f'{{"name":"tool_{at}","description":"Enters an amount in the books, under its currency.",'
        f'"inputSchema":{{"type":"object","properties":{properties}}}}}'
        for at in range(50, 50 + count)
    )
    return f'{{"tools":[{",".join(tools)}],"resultType":"complete","ttlMs":0,"cacheScope":"private"}}'


def reply(body: str) -> tuple[str, str] | None:
    """The headers and the body of the upstream's reply; `None` for a notification."""
    request_id = re.search(r'"id":([^,}]+)', body[:400])
    method = re.search(r'"method":"([^"]+)"', body[:400])
    if not request_id or not method:
        return None
    headers, result = "", "{}"
    server = '"capabilities":{"tools":{}},"serverInfo":{"name":"u","version":"1"}'
    if method[1] == "initialize":
        headers, result = "mcp-session-id: s\r\n", f'{{"protocolVersion":"2025-11-25",{server}}}'
    elif method[1] == "server/discover":
        versions = '"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"]'
        result = f'{{{versions},{server},"ttlMs":0,"cacheScope":"private"}}'
    elif method[1] == "tools/list":
        result = tool_list(20)
    elif method[1] == "tools/call":
        text = ANSWER + (MEGABYTE if len(body) > 100_000 else "")
        result = f'{{"content":[{{"type":"text","text":"{text}"}}],"resultType":"complete"}}'
    return headers, f'{{"jsonrpc":"2.0","id":{request_id[1]},"result":{result}}}'


async def serve_upstream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answers on one connection until the gateway closes it."""
    try:
        while True:
            answer = reply((await read_message(reader)).body)
            if answer is None:
                writer.write(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")
                continue
            headers, text = answer
            kind = "content-type: application/json\r\n"
            head = f"HTTP/1.1 200 OK\r\n{kind}{headers}content-length: {len(text)}\r\n\r\n"
            writer.write((head + text).encode())
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


class Client:
    """A client on its own connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: str, request: str) -> None:
        self.reader, self.writer, self.head, self.request = reader, writer, head, request
        self.sent = 0

    @classmethod
    async def connect(cls, port: int, token: str, request: str) -> "Client":
        """Connects, and opens a session unless the requests are stateless."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 23)
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        head = (
            f"POST /mcp/u0 HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {token}\r\n"
            "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
        )
        client = cls(reader, writer, head, request)
        if request == "stateless":
            client.head += STATELESS_HEADERS
            return client
        answer = await client.send(INITIALIZE)
        session = re.search(r"(?i)^mcp-session-id: *(\S+)", answer.head, re.MULTILINE)
        if not session:
            sys.exit(f"error: no session: {answer}")
        client.head += f"mcp-session-id: {session[1]}\r\n"
        return client

    async def send(self, body: str) -> Message:
        """Sends one request and waits for its response."""
        self.writer.write(f"{self.head}content-length: {len(body)}\r\n\r\n{body}".encode())
        return await read_message(self.reader)

    async def call(self) -> None:
        """Makes one call and checks the answer."""
        self.sent += 1
        if self.request == "list":
            body, wanted = f'{{"jsonrpc":"2.0","id":{self.sent},"method":"tools/list"}}', '"tool_69"'
        else:
            note = MEGABYTE if self.request == "large" else "for the books"
            meta = META if self.request == "stateless" else ""
            arguments = f'{{"amount":5,"currency":"eur","note":"{note}"}}'
            params = f'{{{meta}"name":"tool_50","arguments":{arguments}}}'
            body = f'{{"jsonrpc":"2.0","id":{self.sent},"method":"tools/call","params":{params}}}'
            wanted = ANSWER
        answer = await self.send(body)
        if f'"id":{self.sent},' not in answer.body or wanted not in answer.body:
            sys.exit(f"error: not the answer to call {self.sent}: {answer.head}{answer.body[:300]}")


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_configuration(folder: Path, program: Path, port: int, upstream: int, durability: str) -> str:
    """Writes the gateway's configuration and returns the client's token."""
    made = subprocess.run([program, "grant", "token", "--json"], capture_output=True, text=True, check=True)
    token = json.loads(made.stdout)
    condition = {"path": "args.currency", "op": "in", "value": ["eur", "usd"]}
    refusal = {"path": "args.amount", "op": "gt", "value": 50_000}
    limit = {"counter": "c0", "window": "day", "max": 1_000_000_000}
    rule = {"require": [condition], "deny_if": [refusal], "limits": [limit]}
    policy = {"version": "1", "default": "deny", "tools": {f"tool_{at}": rule for at in range(100)}}
    (folder / "policy.json").write_text(json.dumps(policy))
    (folder / "gatelodge.toml").write_text(f"""
        gateway.listen = "127.0.0.1:{port}"
        admin.listen = "127.0.0.1:{free_port()}"
        store = {{ data = "data", durability = "{durability}" }}
        policies = [{{ name = "p", file = "policy.json" }}]
        servers = [{{ name = "u0", url = "http://127.0.0.1:{upstream}/mcp" }}]
        grants = [{{ label = "g", token_hash = "{token["token_hash"]}", server = "u0", policy = "p" }}]
    """)
    return token["token"]


async def wait_for(port: int, gateway: subprocess.Popen[str]) -> None:
    """Waits until the gateway listens."""
    end = time.monotonic() + START_TIMEOUT
    while time.monotonic() < end and gateway.poll() is None:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    gateway.kill()
    sys.exit(f"error: the gateway does not listen:\n{gateway.communicate()[1]}")


async def count(program: Path, case: Case, calls: int) -> int:
    """Instructions of a gateway that starts, serves this many calls and stops."""
    upstream = await asyncio.start_server(serve_upstream, "127.0.0.1", 0, limit=1 << 23)
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        token = write_configuration(folder, program, port, upstream.sockets[0].getsockname()[1], case.durability)
        cpu = max(os.sched_getaffinity(0))
        command = ["taskset", "--cpu-list", str(cpu), "valgrind", "--tool=cachegrind", "--cache-sim=no"]
        command += [f"--cachegrind-out-file={folder}/out", str(program), "serve", "--config", f"{folder}/gatelodge.toml"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as gateway:
            try:
                await wait_for(port, gateway)
                clients = [await Client.connect(port, token, case.request) for _ in range(case.connections)]

                async def call_on(client: Client) -> None:
                    for _ in range(calls // case.connections):
                        await client.call()

                await asyncio.gather(*map(call_on, clients))
                for client in clients:
                    client.writer.close()
                gateway.send_signal(signal.SIGTERM)
                _, log = await asyncio.to_thread(gateway.communicate, timeout=STOP_TIMEOUT)
            finally:
                gateway.kill()
    upstream.close()
    found = re.search(r"I\s+refs:\s+([\d,]+)", log)
    if gateway.returncode != 0 or not found:
        sys.exit(f"error: {program} could not be counted (exit {gateway.returncode}):\n{log}")
    return int(found[1].replace(",", ""))


class Counts:
    """The counts of one program in one case."""

    def __init__(self, program: Path, case: Case) -> None:
        self.program, self.case = program, case
        self.few: list[int] = []
        self.many: list[int] = []

    def measure(self) -> None:
        """Adds a round."""
        self.few.append(asyncio.run(count(self.program, self.case, self.case.few)))
        self.many.append(asyncio.run(count(self.program, self.case, self.case.many)))

    def per_call(self) -> float:
        """Instructions per call by the least counts."""
        return (min(self.many) - min(self.few)) / (self.case.many - self.case.few)

    def rounds(self) -> list[float]:
        """Instructions per call by each round alone."""
        calls = self.case.many - self.case.few
        return [(many - few) / calls for few, many in zip(self.few, self.many, strict=True)]


def main() -> None:
    """Measures all programs by turns and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", metavar="PROGRAM", nargs="+", type=lambda path: Path(path).resolve())
    parser.add_argument("--case", action="append", choices=CASES, help="default: small-16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results = []
    for name in arguments.case or ["small-16"]:
        counts = [Counts(program, CASES[name]) for program in arguments.programs]
        for _ in range(arguments.rounds):
            for own in counts:
                own.measure()
        for own in counts:
            per_call, rounds = own.per_call(), own.rounds()
            change = (per_call / counts[0].per_call() - 1) * 100
            result = {"case": name, "program": str(own.program), "instructions": round(per_call), "change_percent": change}
            results.append(result | {"rounds": [round(one) for one in rounds]})
            if not arguments.json:
                spread = f"rounds {min(rounds):,.0f} to {max(rounds):,.0f}"
                print(f"{name:12} {per_call:11,.0f} per call {change:+6.2f} %  ({spread})  {own.program}", flush=True)
    if arguments.json:
        print(json.dumps(results, indent=2))


main()
