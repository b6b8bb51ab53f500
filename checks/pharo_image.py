"""A fake Pharo image that replies with given bytes and records requests.

It evaluates nothing; `pharo/amber` does. It uses raw sockets, because half of the replies are not valid HTTP.
"""

import contextlib
import socket
import threading
import time

REASONS = {200: "OK", 204: "No Content", 301: "Moved Permanently", 404: "Not Found", 500: "Internal Server Error"}
GOOD = '{"success": true, "result": "good"}'
# Replies without a length: these have no body.
BODILESS = (204, 304)


class Image:
    """Listens on a port of its own, which stays the same over `close` and `open`."""

    def __init__(self) -> None:
        self.port, self.answer, self.requests = 0, {}, []
        self.open_ones: set[socket.socket] = set()
        self.lock = threading.Lock()
        self.open()

    def open(self) -> None:
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def close(self) -> None:
        """Stop listening and close all connections."""
        # Closing alone does not wake the accepting thread.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            for connection in self.open_ones:
                # The other side may already have disconnected.
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        end = time.monotonic() + 10
        while self.open_ones and time.monotonic() < end:
            time.sleep(0.01)

    def accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self.lock:
                self.open_ones.add(connection)
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        try:
            while (request := read_request(connection)) and self.reply(connection, request):
                pass
        except OSError:
            pass
        finally:
            with self.lock:
                self.open_ones.discard(connection)
                connection.close()

    def reply(self, connection: socket.socket, request: dict) -> bool:
        """Reply, and return whether the connection stays open for another request, as in an image."""
        with self.lock:
            self.requests.append(request)
            answer = self.answer
        fault = answer.get("fault")
        if fault == "dropped":
            return False
        if fault == "stalled":
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 30\r\n\r\n{")
        if fault in ("silent", "stalled"):
            # Until the other side disconnects.
            connection.recv(1)
            return False
        connection.sendall(answer_bytes(answer))
        return "raw" not in answer

    def asked(self) -> list[dict]:
        """Return the requests since the last call."""
        with self.lock:
            asked, self.requests = self.requests, []
        return asked


def answer_bytes(answer: dict) -> bytes:
    if "raw" in answer:
        return answer["raw"].encode()
    status = answer.get("status", 200)
    # `bytes` is a string in which each character is one byte.
    body = answer["bytes"].encode("latin-1") if "bytes" in answer else answer.get("body", GOOD).encode()
    headers = answer.get("headers", {"content-type": "application/json"})
    if status in BODILESS:
        body = b""
    else:
        headers = headers | {"content-length": str(len(body))}
    head = f"HTTP/1.1 {status} {REASONS.get(status, 'Other')}\r\n"
    return (head + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n").encode() + body


def read_request(connection: socket.socket) -> dict | None:
    """Return method, path, type and body exactly as sent, or None at the end of the connection."""
    text = b""
    while b"\r\n\r\n" not in text:
        more = connection.recv(65536)
        if not more:
            return None
        text += more
    head, _, body = text.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        more = connection.recv(65536)
        if not more:
            return None
        body += more
    method, path, _ = first.split(" ")
    return {"method": method, "path": path, "type": headers.get("content-type"), "body": body.decode(errors="backslashreplace")}
