"""A local relay that adds one header to each request, or refuses those of one protocol generation.

It is for clients that cannot send a token. Everything else is passed on byte by byte, including odd hosts, repeated
headers and streams. A disconnect on one side is passed on to the other.
"""

import asyncio
import socket
import sys
import threading
from pathlib import Path

MAX_HEAD = 1 << 20


class Relay:
    """Listens on `port` and forwards everything to another local port."""

    def __init__(self, target: int, header: str | None = None, record: Path | None = None, generation: str | None = None) -> None:
        self.target, self.header, self.record, self.generation = target, header, record, generation
        self.port, self.count, self.refused = 0, 0, 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.listen(), self.loop).result(10)

    async def listen(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=MAX_HEAD)
        self.port = self.server.sockets[0].getsockname()[1]

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self.disconnect(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    async def disconnect(self) -> None:
        self.server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self.target, limit=MAX_HEAD)
        except OSError:
            writer.transport.abort()
            return
        self.count += 1
        tap = TrafficRecorder(self.record / f"{self.count:04}.txt" if self.record else None)
        back = Direction(writer, tap, "<<<")
        ways = [asyncio.create_task(self.ask(reader, Direction(requests, tap, ">>>"), back)),
                asyncio.create_task(answer(answers, back))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The relay ends; asyncio would report a cancelled task as an error.
            return
        finally:
            for direction in ways:
                direction.cancel()
            for end in (requests, writer):
                end.close()
            tap.end()

    async def ask(self, reader: asyncio.StreamReader, direction: "Direction", back: "Direction") -> None:
        """Forward requests until the client disconnects."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, rest = head.split(b"\r\n", 1)
                if self.generation and generation_of(rest) != self.generation:
                    await body(reader, Direction(None, direction.tap, ">>>"), rest)
                    self.refused += 1
                    await back.write(UNKNOWN)
                    continue
                added = f"{self.header}\r\n".encode() if self.header else b""
                await direction.write(first + b"\r\n" + added + rest)
                await body(reader, direction, rest)
        except (OSError, asyncio.IncompleteReadError):
            return


# Reply of a server that does not support the other generation.
REFUSAL = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"unsupported protocol version"}}'
UNKNOWN = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(REFUSAL), REFUSAL)


def generation_of(head: bytes) -> str:
    """Return the protocol generation of a request."""
    return "stateless" if b"mcp-protocol-version: 2026-07-28" in head.lower() else "stateful"


async def body(reader: asyncio.StreamReader, direction: "Direction", head: bytes) -> None:
    fields = [line.split(b":", 1) for line in head.lower().split(b"\r\n") if b":" in line]
    lengths = {name.strip(): value.strip() for name, value in fields}
    if lengths.get(b"transfer-encoding") == b"chunked":
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            await direction.write(line + await reader.readexactly(size + 2))
            if size == 0:
                return
    await direction.write(await reader.readexactly(int(lengths.get(b"content-length", b"0"))))


async def answer(reader: asyncio.StreamReader, direction: "Direction") -> None:
    """Forward responses as they arrive."""
    try:
        while part := await reader.read(1 << 16):
            await direction.write(part)
    except OSError:
        return


class TrafficRecorder:
    """Records the traffic of a connection in a file, if there is one."""

    def __init__(self, path: Path | None) -> None:
        self.file = path.open("wb") if path else None

    def write(self, mark: str, part: bytes) -> None:
        if self.file and part:
            self.file.write(f"{mark} ".encode() + part + b"\n")
            self.file.flush()

    def end(self) -> None:
        if self.file:
            self.file.close()
            self.file = None


class Direction:
    """One direction of a connection."""

    def __init__(self, writer: asyncio.StreamWriter | None, tap: TrafficRecorder, mark: str) -> None:
        self.writer, self.tap, self.mark = writer, tap, mark

    async def write(self, part: bytes) -> None:
        self.tap.write(self.mark, part)
        if self.writer is None:
            return
        self.writer.write(part)
        await self.writer.drain()


def self_test() -> None:
    """Check that odd requests arrive unchanged except for one header, and that responses arrive unchanged."""
    asked = [b"POST /a HTTP/1.1\r\nHost: evil.example\r\nX: 1\r\nx:  2\r\nContent-Length: 3\r\n\r\nabc",
             b"POST /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n0\r\n\r\n",
             b"GET /c HTTP/1.1\r\nORIGIN: null\r\n\r\n"]
    answer = b"HTTP/1.1 200 OK\r\nOdd:  x\r\n\r\ndata: 1\n\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        between = Relay(listener.getsockname()[1], "Added: yes")
        with socket.create_connection(("127.0.0.1", between.port), 10) as client:
            server, _ = listener.accept()
            server.settimeout(10)
            for request in asked:
                expected = request.replace(b"\r\n", b"\r\nAdded: yes\r\n", 1)
                client.sendall(request)
                received = take(server, len(expected))
                server.sendall(answer)
                said = take(client, len(answer))
                if received != expected or said != answer:
                    sys.exit(f"error: the relay forwarded {request} as {received}, and {answer} as {said}")
        if server.recv(1) != b"":
            sys.exit("error: a client disconnected, but the relay did not")
        server.close()
        between.end()


    generation_test()


def generation_test() -> None:
    """Check that requests of the other generation get a reply of the relay and are not forwarded."""
    requests = {generation: b"POST / HTTP/1.1\r\n%bContent-Length: 2\r\n\r\n{}" % head
                for generation, head in (("stateless", b"MCP-Protocol-Version: 2026-07-28\r\n"), ("stateful", b""))}
    for generation, other in (("stateless", "stateful"), ("stateful", "stateless")):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            between = Relay(listener.getsockname()[1], generation=generation)
            with socket.create_connection(("127.0.0.1", between.port), 10) as client:
                server, _ = listener.accept()
                server.settimeout(10)
                client.sendall(requests[other])
                said = take(client, len(UNKNOWN))
                client.sendall(requests[generation])
                received = take(server, len(requests[generation]))
                if said != UNKNOWN or received != requests[generation] or between.refused != 1:
                    sys.exit(f"error: a server of {generation} received {received}, and a client of {other} {said}")
            server.close()
            between.end()


def take(end: socket.socket, size: int) -> bytes:
    taken = b""
    while len(taken) < size and (part := end.recv(size - len(taken))):
        taken += part
    return taken
