#!/usr/bin/env python3
"""An MCP server over stdio that misbehaves as requested.

    misbehaving_server.py [start=WORD] [family=WORD] [deaf] [stubborn]

`start` is its start behavior: `hang` (never answers), `slow` (answers after two seconds), `exit` (exits at once with
code 3), `leave` (exits right after `initialize`), `noise` (prints garbage first), `early` (answers before the request).
`family` is what it starts: `fork` (a process that holds its pipes), `daemon` (a double-forked process in its own session
that ignores all catchable signals), `chain` (a process that forks and exits repeatedly).
`deaf` does not exit at the end of its input; `stubborn` ignores SIGTERM.

The name of a called tool decides what it does. Nothing that it starts lives longer than a minute.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

LIFE = 60
TOOLS = ["echo", "garbage", "endless", "complain", "die", "twice", "wrong", "wrong_first", "shut_input", "shut_output",
         "batch", "bytes", "early", "secret", "secret_death", "flood", "many"]


def out(text: str | bytes) -> None:
    left = memoryview(text if isinstance(text, bytes) else text.encode())
    while left:
        left = left[os.write(1, left):]


def complain(text: str) -> None:
    left = memoryview(text.encode())
    while left:
        left = left[os.write(2, left):]


def reply(number: object, result: dict) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}) + "\n"


def said(number: object, text: str) -> str:
    return reply(number, {"content": [{"type": "text", "text": text}]})


def start_family(kind: str) -> None:
    if kind == "fork" and os.fork() == 0:
        time.sleep(LIFE)
        os._exit(0)
    if kind not in ("daemon", "chain") or os.fork() != 0:
        return
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    for pipe in (0, 1, 2):
        os.close(pipe)
    end = time.monotonic() + LIFE
    while kind == "chain" and time.monotonic() < end:
        time.sleep(0.001)
        if os.fork() != 0:
            os._exit(0)
    time.sleep(LIFE)
    os._exit(0)


def call(number: object, name: str, arguments: dict) -> None:
    text = arguments.get("text", "")
    secret = os.environ.get("ODD_TOKEN", "")
    if name == "garbage":
        for line in ("Listening on stdio!", "{\"jsonrpc\":", "[1,2", "null", "{}", "\x1b[31mred\x1b[0m", " ", "{\"id\":1}"):
            out(line + "\n")
    elif name == "endless":
        piece = b"x" * (1 << 20)
        for _ in range(200):
            out(piece)
    elif name == "complain":
        line = "it went wrong again " * 50 + "\n"
        for _ in range(50 * (1 << 20) // len(line)):
            complain(line)
    elif name == "die":
        complain("out of luck\n")
        os._exit(7)
    elif name == "twice":
        out(said(number, text))
        out(said(number, "a second answer"))
        return
    elif name in ("wrong", "wrong_first"):
        for other in (f"{number}0", str(number)[:-1], 1, "1", None, [number]):
            out(said(other, "not yours"))
        if name == "wrong":
            return
    elif name == "shut_input":
        os.close(0)
        out(said(number, text))
        time.sleep(LIFE)
        os._exit(0)
    elif name == "shut_output":
        os.close(1)
        time.sleep(LIFE)
        os._exit(0)
    elif name == "batch":
        out("[" + said(number, "one of many").strip() + "]\n")
    elif name == "bytes":
        out(b'{"jsonrpc":"2.0","id":"' + str(number).encode() + b'","result":{"content":[],"odd":"\xff\xfe"}}\n')
    elif name == "early":
        # Answers the next requests in advance, by guessing their ids.
        digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        for digit in digits:
            out(said(str(number)[:-1] + digit, "guessed") if digit != str(number)[-1] else "")
    elif name in ("secret", "secret_death"):
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in secret)
        complain(f"my token is {secret}\n")
        # Repeated at all offsets, so that it crosses any place where a line could be split.
        for before in range(960, 1030):
            complain("y" * before + secret + "\n")
        complain("z" * 5000 + secret)
        out(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": secret}}) + "\n")
        out(f"token {secret}\n")
        if name == "secret_death":
            os._exit(9)
        out(f'{{"jsonrpc":"2.0","id":"{number}","result":{{"content":[{{"type":"text","text":"{secret} {escaped}"}}]}}}}\n')
        return
    elif name == "flood":
        # Large unsolicited messages while no request is pending; then a file shows that all are written.
        out(said(number, text))
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "n" * (4 << 20)}})
        for _ in range(14):
            out(note + "\n")
        Path(arguments["done"]).touch()
        return
    elif name == "many":
        note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "n"}})
        out((note + "\n") * 5000)
    out(said(number, text))


def main() -> None:
    words = dict(word.split("=") if "=" in word else (word, "yes") for word in sys.argv[1:])
    start = words.get("start")
    if "stubborn" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    start_family(words.get("family", ""))
    if start == "exit":
        complain("no configuration found\n")
        sys.exit(3)
    if start == "noise":
        out("Starting up\n\n{\"level\":\"info\"}\n" + "=" * 80 + "\n")
    if start == "early":
        for number in (0, 1, "0", "1", None):
            out(said(number, "before you ask"))
    if start == "slow":
        time.sleep(2)
    buffer = b""
    while True:
        while b"\n" not in buffer:
            piece = os.read(0, 65536)
            if not piece:
                if "deaf" in words:
                    time.sleep(LIFE)
                return
            buffer += piece
        line, _, buffer = buffer.partition(b"\n")
        message = json.loads(line)
        number, method, params = message.get("id"), message.get("method"), message.get("params", {})
        if number is None or method is None or start == "hang":
            continue
        if method == "initialize":
            out(reply(number, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "odd", "version": "1"}}))
            if start == "leave":
                return
        elif method == "tools/list":
            out(reply(number, {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}))
        elif method == "tools/call":
            call(number, params["name"], params.get("arguments", {}))
        elif method == "ping":
            out(reply(number, {}))
        else:
            out(json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "unknown"}}) + "\n")


main()
