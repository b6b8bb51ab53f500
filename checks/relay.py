"""A relay on this machine: it adds one header to each request, or refuses those of an era, and changes nothing else.

For clients that cannot be told to send a token. What they write and what they hear stays as it is, byte by byte: odd
hosts, repeated headers and streams included. Who hangs up on one side is gone on the other.
"""

import asyncio
import socket
import sys
import threading
from pathlib import Path

MAX_HEAD = 1 << 20


class Relay:
    """Listens at `port` and hands everything to another port of this machine."""

    def __init__(self, target: int, header: str | None = None, record: Path | None = None, era: str | None = None) -> None:
        self.target, self.header, self.record, self.era = target, header, record, era
        self.port, self.count, self.refused = 0, 0, 0
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        asyncio.run_coroutine_threadsafe(self.listen(), self.loop).result(10)

    async def listen(self) -> None:
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=MAX_HEAD)
        self.port = self.server.sockets[0].getsockname()[1]

    def end(self) -> None:
        asyncio.run_coroutine_threadsafe(self.hang_up(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    async def hang_up(self) -> None:
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
        tap = Tap(self.record / f"{self.count:04}.txt" if self.record else None)
        back = Way(writer, tap, "<<<")
        ways = [asyncio.create_task(self.ask(reader, Way(requests, tap, ">>>"), back)),
                asyncio.create_task(answer(answers, back))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # The relay ends; a task that says so would be told of as a fault.
            return
        finally:
            for way in ways:
                way.cancel()
            for end in (requests, writer):
                end.close()
            tap.end()

    async def ask(self, reader: asyncio.StreamReader, way: "Way", back: "Way") -> None:
        """Hands on requests until the client hangs up."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, rest = head.split(b"\r\n", 1)
                if self.era and is_of(rest) != self.era:
                    await body(reader, Way(None, way.tap, ">>>"), rest)
                    self.refused += 1
                    await back.write(UNKNOWN)
                    continue
                added = f"{self.header}\r\n".encode() if self.header else b""
                await way.write(first + b"\r\n" + added + rest)
                await body(reader, way, rest)
        except (OSError, asyncio.IncompleteReadError):
            return


# What a server says that knows nothing of the other era.
SAID = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this server does not speak so"}}'
UNKNOWN = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(SAID), SAID)


def is_of(head: bytes) -> str:
    """The era of a request."""
    return "modern" if b"mcp-protocol-version: 2026-07-28" in head.lower() else "legacy"


async def body(reader: asyncio.StreamReader, way: "Way", head: bytes) -> None:
    fields = [line.split(b":", 1) for line in head.lower().split(b"\r\n") if b":" in line]
    lengths = {name.strip(): value.strip() for name, value in fields}
    if lengths.get(b"transfer-encoding") == b"chunked":
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            await way.write(line + await reader.readexactly(size + 2))
            if size == 0:
                return
    await way.write(await reader.readexactly(int(lengths.get(b"content-length", b"0"))))


async def answer(reader: asyncio.StreamReader, way: "Way") -> None:
    """Hands on whatever comes back, as it comes."""
    try:
        while part := await reader.read(1 << 16):
            await way.write(part)
    except OSError:
        return


class Tap:
    """What went over a connection, in a file, if anybody wants it."""

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


class Way:
    """One direction of a connection."""

    def __init__(self, writer: asyncio.StreamWriter | None, tap: Tap, mark: str) -> None:
        self.writer, self.tap, self.mark = writer, tap, mark

    async def write(self, part: bytes) -> None:
        self.tap.write(self.mark, part)
        if self.writer is None:
            return
        self.writer.write(part)
        await self.writer.drain()


def self_test() -> None:
    """Odd requests arrive as they were sent, with one line more; answers come back as they are."""
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
                heard = take(server, len(expected))
                server.sendall(answer)
                said = take(client, len(answer))
                if heard != expected or said != answer:
                    sys.exit(f"error: the relay made {heard} of {request}, and {said} of {answer}")
        if server.recv(1) != b"":
            sys.exit("error: a client hung up, and the relay did not")
        server.close()
        between.end()


    era_test()


def era_test() -> None:
    """Requests of the other era get an answer of the relay's, and go no further."""
    requests = {era: b"POST / HTTP/1.1\r\n%bContent-Length: 2\r\n\r\n{}" % head
                for era, head in (("modern", b"MCP-Protocol-Version: 2026-07-28\r\n"), ("legacy", b""))}
    for era, other in (("modern", "legacy"), ("legacy", "modern")):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            between = Relay(listener.getsockname()[1], era=era)
            with socket.create_connection(("127.0.0.1", between.port), 10) as client:
                server, _ = listener.accept()
                server.settimeout(10)
                client.sendall(requests[other])
                said = take(client, len(UNKNOWN))
                client.sendall(requests[era])
                heard = take(server, len(requests[era]))
                if said != UNKNOWN or heard != requests[era] or between.refused != 1:
                    sys.exit(f"error: a server of {era} heard {heard}, and a client of {other} {said}")
            server.close()
            between.end()


def take(end: socket.socket, size: int) -> bytes:
    taken = b""
    while len(taken) < size and (part := end.recv(size - len(taken))):
        taken += part
    return taken
