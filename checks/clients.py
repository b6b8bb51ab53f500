#!/usr/bin/env python3
"""Tests real clients and real servers with the gateway between them.

    clients.py --gatelodge PROGRAM --node PROGRAM [--rmcp PROGRAM]

Each client lists and calls tools directly and through the gateway. The lists must be equal byte by byte, except for tools
that the policy hides, and deterministic calls must give equal results. Nothing is skipped: a client or server that cannot
be started fails the run.
"""

import argparse
import base64
import contextlib
import http.client
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent / "clients"
EVERYTHING = HERE / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
CLAUDE = HERE / "node_modules/@anthropic-ai/claude-code-linux-x64/claude"
# The last version with only the old revisions, which npm installs for an old Node.
OLD_CLAUDE = HERE / "node_modules/claude-code-2.1.197/claude"
# Version, and the revision it negotiates with a gateway that supports all.
CLAUDES = {"2.1.325": (CLAUDE, "2026-07-28"), "2.1.197": (OLD_CLAUDE, "2025-11-25")}

# Deterministic calls, and a tool that the strict policy hides.
CALLS = {
    "notes": [["read_note", {"id": "1"}], ["write_note", {"id": "3", "text": "ünïcode ✓"}], ["count", {"to": 3}],
              ["read_note", {"id": "none"}], ["delete_note", {"id": "1"}]],
    "sums": [["add", {"a": 1.5, "b": 2}], ["fail", {"why": "because"}]],
    "everything": [["echo", {"message": "hello"}], ["get-sum", {"a": 2, "b": 3}], ["get-tiny-image", {}],
                   ["get-structured-content", {"location": "Chicago"}], ["get-annotated-message", {"messageType": "error"}]],
}
MODERN = "2026-07-28"
HIDDEN = {"notes": "delete_note", "sums": "fail", "everything": "echo"}
# The same server with only HTTP+SSE.
OLD = "old"
CALLS[OLD], HIDDEN[OLD] = CALLS["everything"], HIDDEN["everything"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_token() -> str:
    """Return a token in the gateway's format: 256 bits and their CRC-32, five bits per character."""
    secret = secrets.token_bytes(32)
    raw = secret + zlib.crc32(secret).to_bytes(4, "big")
    plain = base64.b32encode(raw).decode().rstrip("=")
    table = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghjkmnpqrstvwxyz")
    return "glt_" + plain.translate(table)


def wait_for(port: int, process: subprocess.Popen, what: str) -> None:
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"error: {what} ended with {process.returncode} before it listened")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    sys.exit(f"error: {what} did not listen within a minute")


class Raw:
    """A stateful client that keeps the raw bytes."""

    def __init__(self, url: str, token: str):
        self.host, _, path = url.removeprefix("http://").partition("/")
        self.path, self.session = "/" + path, None
        self.headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}
        self.ask("initialize", hello)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message: dict) -> str:
        connection = http.client.HTTPConnection(self.host, timeout=30)
        connection.request("POST", self.path, json.dumps(message), self.headers)
        response = connection.getresponse()
        if session := response.getheader("mcp-session-id"):
            self.headers["Mcp-Session-Id"] = session
            self.headers["MCP-Protocol-Version"] = "2025-11-25"
        text = response.read().decode()
        if response.getheader("content-type", "").startswith("text/event-stream"):
            text = [line[6:] for line in text.splitlines() if line.startswith("data: ") and '"id":' in line][-1]
        return text

    def ask(self, method: str, params: dict) -> str:
        return self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    def tools(self) -> dict[str, str]:
        """Return the raw text of each tool."""
        text = self.ask("tools/list", {})
        decoder, tools = json.JSONDecoder(), {}
        at = text.index("[", text.index('"tools"')) + 1
        while text[at] != "]":
            if text[at] in ", \n":
                at += 1
                continue
            tool, end = decoder.raw_decode(text, at)
            tools[tool["name"]] = text[at:end]
            at = end
        return tools


def run(command: list[str], **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    if done.returncode != 0:
        sys.exit(f"error: {command[0]} {command[1]} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def clients(arguments: argparse.Namespace) -> dict[str, list[str]]:
    python = sys.executable
    every = {
        "TypeScript SDK, legacy": [arguments.node, str(HERE / "typescript.mjs"), "URL", "TOKEN", "legacy", "CALLS"],
        "TypeScript SDK, auto": [arguments.node, str(HERE / "typescript.mjs"), "URL", "TOKEN", "auto", "CALLS"],
        "Python SDK": [python, str(HERE / "python_sdk.py"), "URL", "TOKEN", "CALLS"],
        "FastMCP": [python, str(HERE / "fastmcp_client.py"), "URL", "TOKEN", "CALLS"],
    }
    if arguments.rmcp:
        every["rmcp"] = [arguments.rmcp, "URL", "TOKEN", "CALLS"]
    return every


def sse_clients(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Return the clients that also support HTTP+SSE."""
    every = clients(arguments)
    return {name: [*every[name], "sse"] for name in ("TypeScript SDK, legacy", "TypeScript SDK, auto", "Python SDK", "FastMCP")}


def talk(command: list[str], url: str, token: str, calls: list) -> dict:
    values = {"URL": url, "TOKEN": token, "CALLS": json.dumps(calls)}
    return json.loads(run([values.get(word, word) for word in command]).splitlines()[-1])


class Findings:
    def __init__(self) -> None:
        self.checked, self.failed = 0, 0

    def same(self, what: str, direct: object, through: object) -> None:
        self.checked += 1
        if direct != through:
            self.failed += 1
            print(f"FAILED {what}\n  direct:  {direct}\n  through: {through}")


def alike(findings: Findings, what: str, direct: dict, through: dict) -> None:
    """Compare results except for the revision: the gateway offers the newest one for every server."""
    expected = MODERN if "auto" in what else direct.get("version")
    findings.same(f"{what}: the revision", expected, through.get("version"))
    findings.same(what, direct | {"version": expected}, through | {"version": expected})


def compare(findings: Findings, arguments: argparse.Namespace, direct: dict, gate: str, tokens: dict) -> None:
    for server, url in direct.items():
        through = f"{gate}/mcp/{server}"
        ours, theirs = Raw(through, tokens[server, "all"]), Raw(url, "")
        findings.same(f"{server}: the list, tool by tool", theirs.tools(), ours.tools())
        for name, args in CALLS[server]:
            call = {"name": name, "arguments": args}
            findings.same(f"{server}: {name}, byte by byte", theirs.ask("tools/call", call), ours.ask("tools/call", call))
        strict = Raw(through, tokens[server, "strict"]).tools()
        rest = {name: text for name, text in theirs.tools().items() if name != HIDDEN[server]}
        findings.same(f"{server}: the list without hidden tools", rest, strict)
        for name, command in clients(arguments).items():
            direct_result, gateway_result = talk(command, url, "", CALLS[server]), talk(command, through, tokens[server, "all"], CALLS[server])
            alike(findings, f"{name} at {server}", direct_result, gateway_result)
            refused = talk(command, through, tokens[server, "strict"], [[HIDDEN[server], {}]])
            findings.same(f"{name} at {server}: hidden tools", HIDDEN[server] in refused["tools"], False)
            said = json.dumps(refused["results"])
            findings.same(f"{name} at {server}: calling it", f"Unknown tool: {HIDDEN[server]}" in said, True)


def compare_sse(findings: Findings, arguments: argparse.Namespace, direct: dict, gate: str, tokens: dict) -> None:
    """Compare HTTP+SSE on either side of the gateway, and on both."""
    for name, command in sse_clients(arguments).items():
        direct_result = talk(command, direct[OLD], "", CALLS[OLD])
        for server in ("everything", OLD):
            gateway_result = talk(command, f"{gate}/mcp/{server}", tokens[server, "all"], CALLS[server])
            findings.same(f"{name} by HTTP+SSE at {server}", direct_result, gateway_result)
            refused = talk(command, f"{gate}/mcp/{server}", tokens[server, "strict"], [[HIDDEN[server], {}]])
            findings.same(f"{name} by HTTP+SSE at {server}: hidden tools", HIDDEN[server] in refused["tools"], False)
            said = json.dumps(refused["results"])
            findings.same(f"{name} by HTTP+SSE at {server}: calling it", f"Unknown tool: {HIDDEN[server]}" in said, True)
        gateway_result = talk(clients(arguments)[name], f"{gate}/mcp/{OLD}", tokens[OLD, "all"], CALLS[OLD])
        alike(findings, f"{name} at a server that speaks only HTTP+SSE", direct_result, gateway_result)


def compare_all(findings: Findings, arguments: argparse.Namespace, direct: dict, gate: str, token: str) -> None:
    """Compare the aggregate endpoint: tools are prefixed by their server, and calls give the same results."""
    calls = [(server, name, args) for server in sorted(direct) for name, args in CALLS[server]]
    for name, command in clients(arguments).items():
        gateway_result = talk(command, f"{gate}/mcp", token, [[f"{server}__{tool}", args] for server, tool, args in calls])
        every = {server: talk(sse_clients(arguments)["Python SDK"] if server == OLD else command, url, "", CALLS[server])
                 for server, url in direct.items()}
        names = [f"{server}__{tool}" for server in sorted(direct) for tool in sorted(every[server]["tools"])]
        findings.same(f"{name} at all servers: the list", names, gateway_result["tools"])
        if name == "Python SDK" or "TypeScript" in name:
            own = {server: direct_result for server, direct_result in every.items() if server != OLD}
            results = [result for server in sorted(own) for result in own[server]["results"]]
            through = [result for (server, _, _), result in zip(calls, gateway_result["results"]) if server != OLD]
            findings.same(f"{name} at all servers: the results", results, through)


def claude_code(findings: Findings, version: str, gate: str, tokens: dict, home: str) -> None:
    """Check that Claude Code connects and lists servers without a login."""
    claude, _ = CLAUDES[version]
    if not claude.exists():
        sys.exit(f"error: {claude} is missing; run `npm ci` in {HERE}")
    environment = {"HOME": home, "PATH": os.environ["PATH"], "CLAUDE_CONFIG_DIR": f"{home}/.claude",
                   "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1"}
    said = run([str(claude), "--version"], env=environment, cwd=home, stdin=subprocess.DEVNULL)
    findings.same("the version of Claude Code", version, said.split()[0])
    for server in ("notes", "everything"):
        header = f"Authorization: Bearer {tokens[server, 'all']}"
        run([str(claude), "mcp", "add", "--transport", "http", server, f"{gate}/mcp/{server}", "--header", header],
            env=environment, cwd=home, stdin=subprocess.DEVNULL)
    listed = run([str(claude), "mcp", "list"], env=environment, cwd=home, stdin=subprocess.DEVNULL)
    for server in ("notes", "everything"):
        lines = [line for line in listed.splitlines() if line.startswith(f"{server}:")]
        findings.same(f"Claude Code {version} at {server}", len(lines) == 1 and "Connected" in lines[0], True)
        if findings.failed:
            print(listed)


def check_log(findings: Findings, program: str, data: Path) -> None:
    """Check that the call log has each Claude Code with its version and revision."""
    rows = run([program, "calls", "--data", str(data), "--all", "--last", "100000", "--json"]).splitlines()
    for version, (_, revision) in CLAUDES.items():
        seen = {row.get("revision") for row in map(json.loads, rows) if row.get("client") == f"claude-code {version}"}
        findings.same(f"the revision of Claude Code {version}", {revision}, seen - {None})


def configuration(folder: Path, direct: dict, tokens: dict, ports: tuple[int, int]) -> Path:
    allow = {"version": "1", "default": "allow"}
    (folder / "all.json").write_text(json.dumps(allow))
    text = f'[gateway]\nlisten = "127.0.0.1:{ports[0]}"\n[admin]\nlisten = "127.0.0.1:{ports[1]}"\n[store]\ndata = "data"\n'
    text += '[[policies]]\nname = "all"\nfile = "all.json"\n'
    (folder / "together.token").write_text(tokens["together"])
    every = ", ".join(f'{server} = "all"' for server in direct)
    for server, url in direct.items():
        (folder / f"{server}.json").write_text(json.dumps(allow | {"hide": [HIDDEN[server]]}))
        text += f'[[policies]]\nname = "{server}"\nfile = "{server}.json"\n[[servers]]\nname = "{server}"\nurl = "{url}"\n'
        for policy, label in ((server, "strict"), ("all", "all")):
            (folder / f"{server}-{label}.token").write_text(tokens[server, label])
            text += f'[[grants]]\nlabel = "{server}-{label}"\ntoken_file = "{server}-{label}.token"\n'
            text += f'server = "{server}"\npolicy = "{policy}"\n'
    text += f'[[grants]]\nlabel = "together"\ntoken_file = "together.token"\nservers = {{ {every} }}\n'
    path = folder / "gatelodge.toml"
    path.write_text(text)
    return path


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--rmcp")
    arguments = parser.parse_args()
    findings = Findings()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def start(what: str, port: int, command: list[str], **options) -> None:
            log = stack.enter_context((folder / f"{what}.log").open("w"))
            process = subprocess.Popen(command, stdout=log, stderr=log, **options)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            wait_for(port, process, what)

        ports = {server: free_port() for server in CALLS}
        paths = {OLD: "sse"}
        direct = {server: f"http://127.0.0.1:{port}/{paths.get(server, 'mcp')}" for server, port in ports.items()}
        start("notes", ports["notes"], [sys.executable, str(HERE / "notes_server.py"), str(ports["notes"])])
        start("sums", ports["sums"], [sys.executable, str(HERE / "sums_server.py"), str(ports["sums"])])
        loopback = ["--import", str(HERE / "loopback.mjs")]
        start("everything", ports["everything"], [arguments.node, *loopback, str(EVERYTHING), "streamableHttp"],
              env=os.environ | {"PORT": str(ports["everything"])})
        start(OLD, ports[OLD], [arguments.node, *loopback, str(EVERYTHING), "sse"],
              env=os.environ | {"PORT": str(ports[OLD])})
        tokens = {(server, label): make_token() for server in direct for label in ("all", "strict")}
        tokens["together"] = make_token()
        gate, admin = free_port(), free_port()
        path = configuration(folder, direct, tokens, (gate, admin))
        start("gatelodge", gate, [arguments.gatelodge, "serve", "--config", str(path)])
        url = f"http://127.0.0.1:{gate}"
        compare(findings, arguments, {server: at for server, at in direct.items() if server != OLD}, url, tokens)
        compare_sse(findings, arguments, direct, url, tokens)
        compare_all(findings, arguments, direct, url, tokens["together"])
        for version in CLAUDES:
            home = folder / f"home-{version}"
            home.mkdir()
            claude_code(findings, version, url, tokens, str(home))
        check_log(findings, arguments.gatelodge, folder / "data")
        if findings.failed:
            print((folder / "gatelodge.log").read_text()[-3000:])
    print(f"clients: {findings.checked - findings.failed} passed, {findings.failed} failed")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
