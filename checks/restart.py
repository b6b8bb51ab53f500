#!/usr/bin/env python3
"""Checks that a real client does not notice a restart of the gateway between two of its calls.

    restart.py --gatelodge PROGRAM

The Python SDK never opens a new session by itself: a lost session stays lost for its user. The check opens a session with
an HTTP server and one with a stdio server. Both must continue after the gateway was stopped and started again, and after
it was killed.
"""

import argparse
import asyncio
import contextlib
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

sys.path.insert(0, str(Path(__file__).resolve().parent))
from clients import HERE, Findings, free_port, make_token, wait_for  # noqa: E402

CALLS = {"notes": ("read_note", {"id": "1"}), "clock": ("noon", {})}


def configure(folder: Path, upstream: int, ports: tuple[int, int], tokens: dict[str, str]) -> Path:
    (folder / "policy.json").write_text('{"version": "1", "default": "allow"}')
    clock = HERE / "clock_server.py"
    text = (
        f'[gateway]\nlisten = "127.0.0.1:{ports[0]}"\n[admin]\nlisten = "127.0.0.1:{ports[1]}"\n[store]\ndata = "data"\n'
        f'[[servers]]\nname = "notes"\nurl = "http://127.0.0.1:{upstream}/mcp"\n'
        f'[[servers]]\nname = "clock"\ncommand = ["{sys.executable}", "{clock}"]\n'
        '[[policies]]\nname = "all"\nfile = "policy.json"\n')
    for server, token in tokens.items():
        (folder / f"{server}.token").write_text(token)
        text += f'[[grants]]\nlabel = "{server}"\ntoken_file = "{server}.token"\nserver = "{server}"\npolicy = "all"\n'
    path = folder / "gatelodge.toml"
    path.write_text(text)
    return path


class RestartableGateway:
    """A gateway that can be stopped and started again at the same address."""

    def __init__(self, program: str, folder: Path, path: Path, port: int):
        self.command, self.port = [program, "serve", "--config", str(path)], port
        self.log = (folder / "gatelodge.log").open("a")
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log)
        wait_for(self.port, self.process, "gatelodge")

    def restart(self, how: signal.Signals) -> None:
        self.stop(how)
        self.start()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.wait()


async def use(findings: Findings, gate: RestartableGateway, server: str, token: str) -> None:
    seen: set[str] = set()

    async def note(request: httpx2.Request) -> None:
        seen.update(filter(None, [request.headers.get("mcp-session-id")]))

    url, (tool, arguments) = f"http://127.0.0.1:{gate.port}/mcp/{server}", CALLS[server]
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, event_hooks={"request": [note]}, timeout=30) as http,
        streamable_http_client(url, http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        first = (await session.call_tool(tool, arguments)).model_dump_json()
        for how in (signal.SIGTERM, signal.SIGKILL):
            await asyncio.to_thread(gate.restart, how)
            again = (await session.call_tool(tool, arguments)).model_dump_json()
            findings.same(f"{server}: a call after {how.name}", first, again)
            listed = [tool.name for tool in (await session.list_tools()).tools]
            findings.same(f"{server}: the list after {how.name}", tools, listed)
    findings.same(f"{server}: it was one session", len(seen), 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    arguments = parser.parse_args()
    findings = Findings()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        upstream, gate, admin = free_port(), free_port(), free_port()
        tokens = {server: make_token() for server in CALLS}
        log = stack.enter_context((folder / "notes.log").open("w"))
        notes = subprocess.Popen([sys.executable, str(HERE / "notes_server.py"), str(upstream)], stdout=log, stderr=log)
        stack.callback(notes.wait)
        stack.callback(notes.terminate)
        wait_for(upstream, notes, "notes")
        path = configure(folder, upstream, (gate, admin), tokens)
        running = RestartableGateway(arguments.gatelodge, folder, path, gate)
        stack.callback(running.stop)
        try:
            for server, token in tokens.items():
                asyncio.run(use(findings, running, server, token))
        finally:
            if findings.failed or sys.exc_info()[0]:
                print((folder / "gatelodge.log").read_text()[-3000:])
    print(f"restart: {findings.checked - findings.failed} passed, {findings.failed} failed")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
