"""Tests real clients with `gatelodge pharo`: directly over stdio and HTTP, with `wrap`, and through the gateway.

Claude Code must list it as connected, with entries of its own command and with the one that `gatelodge connect` writes.
Claude Desktop does not run here; only the program in its entry does.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from clients import CLAUDE, HERE, free_port, run, talk, wait_for
from init import QUIET, is_connected
from peers import HELLO, StdioPeer
from pharo_amber import TOOLS

PAGE = Path(__file__).resolve().parent.parent / "docs/pharo.md"
SUM = ["eval", {"code": "3 + 4"}]
MODERN, LEGACY = "2026-07-28", "2025-11-25"
# Each with the revision that it negotiates.
CLIENTS = {
    "TypeScript SDK, auto": (["NODE", str(HERE / "typescript.mjs"), "URL", "TOKEN", "auto", "CALLS"], MODERN),
    "TypeScript SDK, legacy": (["NODE", str(HERE / "typescript.mjs"), "URL", "TOKEN", "legacy", "CALLS"], LEGACY),
    "Python SDK": ([sys.executable, str(HERE / "python_sdk.py"), "URL", "TOKEN", "CALLS"], LEGACY),
}


def check_clients(findings, setup) -> None:
    if not CLAUDE.exists():
        sys.exit(f"error: {CLAUDE} is missing; run `npm ci` in {HERE}")
    port = free_port()
    alone = subprocess.Popen([*setup.server, "--http", f"127.0.0.1:{port}"], stdout=setup.log, stderr=setup.log)
    try:
        wait_for(port, alone, "gatelodge pharo --http")
        direct = f"http://127.0.0.1:{port}/mcp"
        check_sdks(findings, setup, direct)
        check_compat(findings, setup)
        check_claude_code(findings, setup, direct)
        check_claude_desktop(findings, setup)
    finally:
        alone.terminate()
        alone.wait(20)


def wrapped(setup) -> list[str]:
    """Return the documented entry for Claude Desktop and Cursor, with the policy, port and data folder of this test."""
    entries = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL) if "mcpServers" in block]
    entry = entries[0]["mcpServers"]["pharo"]
    places = {"/home/ada/pharo/recommended.json": str(setup.folder / "gate/recommended.json"), "gatelodge": setup.program}
    words = [places.get(word, word) for word in [entry["command"], *entry["args"]]]
    return [*words[:2], "--data", str(setup.folder / "wrapped"), *words[2:], "--port", str(setup.image)]


def check_sdks(findings, setup, direct: str) -> None:
    hidden = {"eval", "import_package", "run_class_test", "run_package_test"}
    ours, gated = "there is no tool `eval_code`", "Unknown tool: eval_code (not available to this grant)"
    # URL, token, number of listed tools, whether a sum is computed, and the error for an unknown tool.
    ways = {
        "over standard streams": (json.dumps(setup.server), "", TOOLS, True, ours),
        "over HTTP": (direct, "", TOOLS, True, ours),
        "by wrap": (json.dumps(wrapped(setup)), "", TOOLS, True, gated),
        "through the gateway, by recommended": (setup.url, setup.tokens["developer"], TOOLS, True, gated),
        "through the gateway, by strict": (setup.url, setup.tokens["reader"], TOOLS - hidden, False, gated),
    }
    for client, (command, version) in CLIENTS.items():
        command = [setup.node if word == "NODE" else word for word in command]
        for way, (url, token, tools, has_sum, words) in ways.items():
            said = talk(command, url, token, [SUM, ["eval_code", {"code": "3 + 4"}]])
            findings.same(f"{client} {way}", (version, sorted(tools)), (said["version"], sorted(said["tools"])))
            value, code = said["results"]
            found = value.get("structuredContent") if has_sum else "Unknown tool: eval" in value.get("message", "")
            findings.same(f"{client} {way}: 3 + 4", {"success": True, "result": 7} if has_sum else True, found)
            findings.same(f"{client} {way}: eval_code", True, words in code.get("message", "") or code)


def check_compat(findings, setup) -> None:
    """Check that clients accept a failure, which is an ordinary result in this mode, despite the output schema."""
    server = json.dumps([*setup.server, "--compat"])
    for client, (command, _) in CLIENTS.items():
        command = [setup.node if word == "NODE" else word for word in command]
        failed, summed = talk(command, server, "", [["eval", {"code": "nil foo"}], SUM])["results"]
        said = failed.get("structuredContent", {}).get("success", failed), failed.get("isError")
        findings.same(f"{client} with --compat: a failure", (False, False), said)
        findings.same(f"{client} with --compat: 3 + 4", {"success": True, "result": 7}, summed.get("structuredContent"))


def check_claude_code(findings, setup, direct: str) -> None:
    """Check Claude Code without a login and without network access."""
    home = setup.folder / "home"
    home.mkdir()
    environment = setup.environment | QUIET | {"HOME": str(home), "GATELODGE_TOKEN": setup.tokens["developer"]}

    def claude(*words: str) -> str:
        return run([str(CLAUDE), "mcp", *words], env=environment, cwd=home, stdin=subprocess.DEVNULL)

    claude("add", "--scope", "user", "streams", "--", *setup.server)
    claude("add", "--scope", "user", "wrapped", "--", *wrapped(setup))
    claude("add", "--scope", "user", "--transport", "http", "direct", direct)
    run([setup.program, "connect", "claude-code", "--url", setup.url, "--name", "gated", "--home", str(home), "--write", "--yes"],
        env=environment)
    listed = claude("list")
    for name in ("streams", "wrapped", "direct", "gated"):
        findings.same(f"Claude Code at {name}", True, is_connected(listed, name) or listed)
    environment["GATELODGE_TOKEN"] = "glt_none"
    findings.same("Claude Code at gated, with an unknown token", False, is_connected(claude("list"), "gated"))


def check_claude_desktop(findings, setup) -> None:
    home, token = setup.folder / "desk", setup.folder / "desk.token"
    home.mkdir()
    token.touch(0o600)
    token.write_text(setup.tokens["developer"])
    run([setup.program, "connect", "claude-desktop", "--url", setup.url, "--token-file", str(token), "--home", str(home),
         "--write", "--yes"], env=setup.environment)
    entry = json.loads((home / ".config/Claude/claude_desktop_config.json").read_text())["mcpServers"]["pharo"]
    # Such clients pass on few variables.
    peer = StdioPeer([entry["command"], *entry["args"]], setup.log, env={"HOME": str(home), "PATH": setup.environment["PATH"]})
    peer.ask("initialize", HELLO)
    peer.note("notifications/initialized", {})
    tools = json.loads(peer.ask("tools/list", {}))["result"]["tools"]
    findings.same("the entry of Claude Desktop", sorted(TOOLS), sorted(tool["name"] for tool in tools))
    said = json.loads(peer.call(*SUM))["result"]
    findings.same("3 + 4 by the entry of Claude Desktop", "7", said["content"][0]["text"])
    findings.same("its end", 0, peer.end())
