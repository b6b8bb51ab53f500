#!/usr/bin/env python3
"""Tests real clients after `gatelodge init`, and their files after `gatelodge init --undo`.

    init.py --gatelodge PROGRAM --node PROGRAM

A home directory has configuration files of Claude Code, Gemini CLI, OpenCode and Claude Desktop with stdio servers.
`init` moves these behind the gateway; then each client that can run here must list the gateway as connected with the
tokens of `init`, and not with other tokens. No client is logged in, and none reaches the network.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from clients import CLAUDE, EVERYTHING, HERE, OLD_CLAUDE, Findings, free_port, make_token, run, wait_for

MODULES = HERE / "node_modules"
GEMINI = MODULES / "@google/gemini-cli/bundle/gemini.js"
OPENCODE = MODULES / "opencode-linux-x64/bin/opencode"
CLOCK = HERE / "clock_server.py"
# Nothing listens there, so that requests to the outside fail at once.
NOWHERE = "http://127.0.0.1:9"
QUIET = {
    "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost", "NO_COLOR": "1",
    "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true", "GEMINI_CLI_NO_RELAUNCH": "true",
    "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
}


def write_client_files(home: Path, node: str) -> None:
    """Write realistic files: comments, odd spaces, a last line without a line end."""
    python, clock, everything = (json.dumps(text) for text in (sys.executable, str(CLOCK), str(EVERYTHING)))
    node = json.dumps(node)
    files = {
        ".claude.json": f'{{"numStartups": 3,\n  "mcpServers": {{\n    "clock": {{"type": "stdio", "command": {python}, '
                        f'"args": [{clock}], "env": {{}}}},\n    "everything": {{"command": {node}, '
                        f'"args": [{everything}, "stdio"]}}\n  }}\n}}',
        ".gemini/settings.json": f'{{\n\t// mine\n\t"mcpServers": {{ "clock": {{ "command": {python}, '
                                 f'"args": [{clock}], "timeout": 30000 }} }},\n\t"ui": {{ "hideTips": true }}\n}}\n',
        ".config/opencode/opencode.json": f'{{\r\n  "mcp": {{\r\n    /* local */\r\n    "clock": {{"type": "local", '
                                          f'"command": [{python}, {clock}], "enabled": true}}\r\n  }}\r\n}}\r\n',
        ".config/Claude/claude_desktop_config.json": f'{{"mcpServers": {{"clock": {{"command": {python}, '
                                                     f'"args": [{clock}]}}}}}}\n',
    }
    for name, text in files.items():
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def tree(folder: Path) -> dict[str, tuple[bytes, int]]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in files}


def exported(script: Path) -> dict[str, str]:
    """Return the environment of a shell after the line that `init` prints."""
    said = run(["bash", "-c", '. "$0"; env -0', str(script)], env={"PATH": os.environ["PATH"]})
    return dict(pair.split("=", 1) for pair in said.split("\0") if pair.startswith("GATELODGE_"))


class Clients:
    def __init__(self, home: Path, project: Path, node: str):
        self.home, self.project, self.node = home, project, node
        self.commands = {
            "Claude Code 2.1.325": ([str(CLAUDE)], ["clock", "everything"]),
            "Claude Code 2.1.197": ([str(OLD_CLAUDE)], ["clock", "everything"]),
            "Gemini CLI 0.61.0": ([node, str(GEMINI)], ["clock"]),
            "OpenCode 1.18.33": ([str(OPENCODE)], ["clock"]),
        }

    def listed(self, client: str, tokens: dict[str, str], copy: Path) -> str:
        """Return a client's list of its servers."""
        return self.said(client, ["mcp", "list"], tokens, copy)

    def said(self, client: str, words: list[str], tokens: dict[str, str], copy: Path) -> str:
        """Return the output of a client. It runs on a copy of the home, because clients change their files."""
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.home, copy, symlinks=True)
        environment = {"HOME": str(copy), "PATH": f"{Path(self.node).parent}:{os.environ['PATH']}"} | QUIET | tokens
        command = [*self.commands[client][0], *words]
        # Some clients print to stderr.
        done = subprocess.run(command, env=environment, cwd=self.project, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", done.stdout)


def is_connected(said: str, server: str) -> bool:
    """Return whether a line says that the server is connected: `clock: … - ✓ Connected`, `✓ clock connected`."""
    lines = [line for line in said.splitlines() if re.search(rf"\b{server}\b", line)]
    good = [line for line in lines if re.search(r"(?<!dis)\bconnected\b", line, re.IGNORECASE)]
    return any("not connected" not in line.lower() for line in good)


def check_clients(findings: Findings, clients: Clients, tokens: dict[str, str], copy: Path) -> None:
    strangers = {name: make_token() for name in tokens}
    for client, (_, servers) in clients.commands.items():
        version = re.search(r"\d+\.\d+\.\d+", clients.said(client, ["--version"], {}, copy))
        findings.same(f"the version of {client}", client.split()[-1], version and version[0])
        good, bad = clients.listed(client, tokens, copy), clients.listed(client, strangers, copy)
        for server in servers:
            findings.same(f"{client} at {server}", True, is_connected(good, server))
            findings.same(f"{client} at {server}, with an unknown token", False, is_connected(bad, server))
        if findings.failed:
            print(f"--- {client} says:\n{good}\n--- and with an unknown token:\n{bad}")


def check_bridge(findings: Findings, home: Path) -> None:
    """Run the entry of Claude Desktop, which itself does not run here, with the few variables that such clients pass on."""
    entry = json.loads((home / ".config/Claude/claude_desktop_config.json").read_text())["mcpServers"]["clock"]
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "desk", "version": "1"}}
    messages = [{"id": 1, "method": "initialize", "params": hello}, {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/list"}]
    process = subprocess.Popen([entry["command"], *entry["args"]], text=True, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, env={"HOME": str(home), "PATH": os.environ["PATH"]})
    # A process that does not answer is killed, which ends its output.
    kill_timer = threading.Timer(30, process.kill)
    kill_timer.start()
    answers = []
    for message in messages:
        process.stdin.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
        process.stdin.flush()
        if "id" in message:
            answers.append(json.loads(process.stdout.readline() or "{}"))
    process.stdin.close()
    kill_timer.cancel()
    findings.same("the bridge's end", 0, process.wait(timeout=20))
    tools = [tool["name"] for tool in answers[-1].get("result", {}).get("tools", [])]
    findings.same("the tools through the bridge", ["noon"], tools)


def check_log(findings: Findings, program: str, data: Path) -> None:
    """Check that each client used the grant that was created for it."""
    rows = run([program, "calls", "--data", str(data), "--all", "--last", "1000", "--json"]).splitlines()
    labels = {row.get("label") for row in map(json.loads, rows)} - {None}
    wanted = {"claude-code-clock", "claude-code-everything", "gemini-clock", "opencode-clock", "claude-desktop-clock"}
    findings.same("the grants in the log", wanted, labels)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    parser.add_argument("--node", required=True)
    arguments = parser.parse_args()
    for needed in (CLAUDE, OLD_CLAUDE, GEMINI, OPENCODE, EVERYTHING):
        if not needed.exists():
            sys.exit(f"error: {needed} is missing; run `npm ci` in {HERE}")
    program, findings = str(Path(arguments.gatelodge).resolve()), Findings()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        home, project, gate = folder / "home", folder / "project", folder / "gate"
        for made in (home, project, gate):
            made.mkdir()
        write_client_files(home, arguments.node)
        ports = free_port(), free_port()
        config = gate / "gatelodge.toml"
        config.write_text(f'[gateway]\nlisten = "127.0.0.1:{ports[0]}"\n[admin]\nlisten = "127.0.0.1:{ports[1]}"\n'
                          f'[store]\ndata = "{folder}/data"\n')
        before = tree(home) | tree(gate)
        init = [program, "init", "--home", str(home), "--project", str(project), "--config", str(config)]
        run([*init, "--all", "--rewrite", "--yes"])
        changed = [name for name, file in (tree(home) | tree(gate)).items() if before.get(name, file) != file]
        findings.same("the files that init changed", 5, len(changed))

        log = stack.enter_context((folder / "gatelodge.log").open("w"))
        process = subprocess.Popen([program, "serve", "--config", str(config)], stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        wait_for(ports[0], process, "gatelodge")
        clients = Clients(home, project, arguments.node)
        check_clients(findings, clients, exported(gate / "tokens/export.sh"), folder / "copy")
        check_bridge(findings, home)
        check_log(findings, program, folder / "data")

        run([*init, "--undo", "--yes"])
        findings.same("the files after undo", before, tree(home) | tree(gate))
        if findings.failed:
            print((folder / "gatelodge.log").read_text()[-3000:])
    print(f"init: {findings.checked - findings.failed} passed, {findings.failed} failed")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
