"""Test clients that keep the raw bytes, over the stdio of a process and over HTTP."""

import http.client
import json
import subprocess
import threading
import time

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"}}


class NoAnswer(Exception):
    """There was no message in time, or the output has ended."""


def is_answer(text: str) -> bool:
    try:
        message = json.loads(text)
    except ValueError:
        return False
    return isinstance(message, dict) and "id" in message and "method" not in message


class Peer:
    """Base of both clients: numbers requests and counts the answers to each."""

    def __init__(self) -> None:
        self.last, self.lock = 0, threading.Lock()
        # All messages, and the answers by request number.
        self.received: list[str] = []
        self.answers: dict[object, list[str]] = {}

    def request(self, method: str, params: dict) -> dict:
        with self.lock:
            self.last += 1
            return {"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}

    def hear(self, text: str) -> None:
        with self.lock:
            self.received.append(text)
            if is_answer(text):
                self.answers.setdefault(json.loads(text)["id"], []).append(text)

    def hello(self, within: float = 60) -> str:
        text = self.ask("initialize", HELLO, within)
        if "error" not in json.loads(text):
            self.note("notifications/initialized", {})
        return text

    def call(self, name: str, arguments: dict, within: float = 60) -> str:
        return self.ask("tools/call", {"name": name, "arguments": arguments}, within)

    def answered_more_than_once(self) -> list[object]:
        with self.lock:
            return [number for number, texts in self.answers.items() if len(texts) != 1]


class StdioPeer(Peer):
    """A client over the stdio of a process."""

    def __init__(self, command: list[str], errors: object = subprocess.DEVNULL, **options) -> None:
        super().__init__()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, **options)
        self.is_over, self.news = False, threading.Condition(self.lock)
        threading.Thread(target=self.read, daemon=True).start()

    def read(self) -> None:
        for line in self.process.stdout:
            self.hear(line.decode(errors="replace").removesuffix("\n"))
            with self.news:
                self.news.notify_all()
        with self.news:
            self.is_over = True
            self.news.notify_all()

    def send(self, message: dict) -> None:
        self.send_text(json.dumps(message))

    def send_text(self, line: str) -> None:
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise NoAnswer(f"the input of the process is closed: {error}") from error

    def note(self, method: str, params: dict) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: dict, within: float = 60) -> str:
        request = self.request(method, params)
        self.send(request)
        return self.answer_to(request, within)

    def answer_to(self, request: dict, within: float = 60) -> str:
        end = time.monotonic() + within
        with self.news:
            while request["id"] not in self.answers:
                if self.is_over or not self.news.wait(max(0, end - time.monotonic())):
                    raise NoAnswer(f"no answer to {request['method']} within {within} s"
                                  + (", its output ended" if self.is_over else ""))
            return self.answers[request["id"]][0]

    def end(self, within: float = 20) -> int:
        """Close the input of the process and wait until it ends."""
        try:
            self.process.stdin.close()
        except OSError:
            pass
        code = self.process.wait(within)
        self.process.stdout.close()
        return code


class HttpPeer(Peer):
    """A client over HTTP."""

    def __init__(self, url: str, token: str, stateless: bool = False) -> None:
        super().__init__()
        self.host, _, path = url.removeprefix("http://").partition("/")
        self.path, self.stateless = "/" + path, stateless
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                        "Authorization": f"Bearer {token}"}

    def send(self, message: dict, within: float = 60, verb: str = "POST") -> list[str]:
        """Send a message and return the received messages as texts."""
        connection = http.client.HTTPConnection(self.host, timeout=within)
        headers = dict(self.headers)
        if self.stateless:
            headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": message["method"]}
            if name := message["params"].get("name") or message["params"].get("uri"):
                headers["Mcp-Name"] = name
        try:
            connection.request(verb, self.path, json.dumps(message).encode() if message else None, headers)
            response = connection.getresponse()
            if session := response.getheader("mcp-session-id"):
                self.headers |= {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
            text = response.read().decode(errors="replace")
        except (OSError, http.client.HTTPException) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        finally:
            connection.close()
        if response.getheader("content-type", "").startswith("text/event-stream"):
            return [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        return [text] if text else []

    def note(self, method: str, params: dict) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: dict, within: float = 60) -> str:
        request = self.request(method, params)
        for text in self.send(request, within):
            self.hear(text)
        with self.lock:
            if request["id"] not in self.answers:
                raise NoAnswer(f"no answer to {method}")
            return self.answers[request["id"]][0]

    def end(self) -> None:
        """End the session."""
        if "Mcp-Session-Id" in self.headers:
            self.send({}, 20, "DELETE")
