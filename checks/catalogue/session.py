"""Starts a server in a sandbox and lists its tools."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from typing import Any

from install import RUN_UID, as_user
from package import Json

PROTOCOL = "2025-06-18"
MAX_LINE_BYTES = 64 << 20
MAX_PAGES = 200

# The shell stays the first process of the namespace: it gets a signal when its parent dies, and then all others end.
# A program that changed its user would no longer get the signal.
SANDBOX = """ip link set lo up
mount -t tmpfs -o size=256m tmpfs /tmp || exit 97
cd "$HOME" || exit 98
"$@"
exit $?
"""


def sandbox(command: list[str]) -> list[str]:
    """No network but an empty loopback, own processes, own /tmp, no rights; all of it dies with its parent."""
    namespaces = ["unshare", "--net", "--mount", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]
    limits = ["prlimit", "--fsize=268435456", "--nofile=4096", "--core=0"]
    return [*namespaces, "sh", "-c", SANDBOX, "sh", *as_user(RUN_UID), *limits, *command]


@dataclasses.dataclass
class Session:
    """Result of one start of a server: its tools, or its output."""

    server: str = ""
    tools: list[Json] | None = None
    said: str = ""
    died: bool = False


class Client:
    """A minimal MCP client over the pipes of a process, with one deadline for everything."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float) -> None:
        self.process = process
        self.deadline = deadline
        self.noise: list[str] = []
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._next_id = 0
        threading.Thread(target=self._pump, daemon=True).start()

    def _pump(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := self.process.stdout.readline(MAX_LINE_BYTES):
                self._lines.put(line)
        self._lines.put(None)

    def send(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, params: Json) -> Json:
        """Send a request and wait for its answer, refusing requests of the server meanwhile."""
        self._next_id += 1
        wanted = self._next_id
        self.send({"id": wanted, "method": method, "params": params})
        while True:
            message = self._receive()
            if "method" in message and "id" in message:
                no = {"error": {"code": -32601, "message": "not offered"}}
                self.send({"id": message["id"], **({"result": {}} if message["method"] == "ping" else no)})
            elif message.get("id") == wanted and "method" not in message:
                result = message.get("result")
                if isinstance(result, dict):
                    return result
                raise ValueError(f"{method} refused: {str(message.get('error'))[:200]}")

    def _receive(self) -> Json:
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, self.deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError("timeout") from None
            if line is None:
                raise EOFError("ended")
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict) and message.get("jsonrpc") == "2.0":
                    return message
            if len(self.noise) < 200:
                self.noise.append(line[:500].decode("utf-8", "replace"))

    def list_tools(self) -> tuple[str, list[Json]]:
        """Open the session and read all pages of tools."""
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "collect", "version": "1"}}
        server = self.request("initialize", hello).get("serverInfo") or {}
        self.send({"method": "notifications/initialized"})
        tools: list[Json] = []
        cursor: Any = None
        for _ in range(MAX_PAGES):
            page = self.request("tools/list", {"cursor": cursor} if cursor else {})
            tools += [tool for tool in page.get("tools") or [] if isinstance(tool, dict) and tool.get("name")]
            cursor = page.get("nextCursor")
            if not cursor:
                break
        return str(server.get("name", "")), tools


def speak(command: list[str], env: dict[str, str], seconds: float) -> Session:
    """Start a server, list its tools, end it."""
    session = Session()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            sandbox(command),
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        client = Client(process, time.monotonic() + seconds)
        try:
            session.server, session.tools = client.list_tools()
        except (EOFError, BrokenPipeError):
            session.died = True
        except (TimeoutError, ValueError, OSError) as error:
            client.noise.append(str(error))
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        errors.seek(0)
        session.said = errors.read(100_000).decode("utf-8", "replace") + "".join(client.noise)
    return session
