"""Real clients at `gatelodge pharo`: directly over standard streams and HTTP, by `wrap`, and through the gateway.

Claude Code lists it as connected, by entries that its own command makes and by the one that `gatelodge connect` writes.
Claude Desktop is not run; the program in its entry is.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

from clients import CLAUDE, HERE, free_port, run, talk, wait_for
from init import QUIET, is_connected
from peers import HELLO, Lines
from pharo_amber import TOOLS

PAGE = Path(__file__).resolve().parent.parent / "docs/pharo.md"
SUM = ["eval", {"code": "3 + 4"}]
MODERN, LEGACY = "2026-07-28", "2025-11-25"
# Each with the revision that it comes to speak.
CLIENTS = {
    "TypeScript SDK, auto": (["NODE", str(HERE / "typescript.mjs"), "URL", "TOKEN", "auto", "CALLS"], MODERN),
    "TypeScript SDK, legacy": (["NODE", str(HERE / "typescript.mjs"), "URL", "TOKEN", "legacy", "CALLS"], LEGACY),
    "Python SDK": ([sys.executable, str(HERE / "python_sdk.py"), "URL", "TOKEN", "CALLS"], LEGACY),
}


def check_clients(findings, house) -> None:
    if not CLAUDE.exists():
        sys.exit(f"error: {CLAUDE} is missing; npm ci in {HERE} brings it")
    port = free_port()
    alone = subprocess.Popen([*house.server, "--http", f"127.0.0.1:{port}"], stdout=house.log, stderr=house.log)
    try:
        wait_for(port, alone, "gatelodge pharo --http")
        direct = f"http://127.0.0.1:{port}/mcp"
        check_sdks(findings, house, direct)
        check_compat(findings, house)
        check_claude_code(findings, house, direct)
        check_claude_desktop(findings, house)
    finally:
        alone.terminate()
        alone.wait(20)


def wrapped(house) -> list[str]:
    """The entry of the page for Claude Desktop and Cursor, with the policy, the port and the data of here."""
    entries = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL) if "mcpServers" in block]
    entry = entries[0]["mcpServers"]["pharo"]
    places = {"/home/ada/pharo/recommended.json": str(house.folder / "gate/recommended.json"), "gatelodge": house.program}
    words = [places.get(word, word) for word in [entry["command"], *entry["args"]]]
    return [*words[:2], "--data", str(house.folder / "wrapped"), *words[2:], "--port", str(house.image)]


def check_sdks(findings, house, direct: str) -> None:
    hidden = {"eval", "import_package", "run_class_test", "run_package_test"}
    ours, gated = "there is no tool `eval_code`", "Unknown tool: eval_code (not available to this grant)"
    # Where it is, by which token, what is listed, whether a sum is computed, and what is said of a tool that is not there.
    ways = {
        "over standard streams": (json.dumps(house.server), "", TOOLS, True, ours),
        "over HTTP": (direct, "", TOOLS, True, ours),
        "by wrap": (json.dumps(wrapped(house)), "", TOOLS, True, gated),
        "through the gateway, by recommended": (house.url, house.tokens["developer"], TOOLS, True, gated),
        "through the gateway, by strict": (house.url, house.tokens["reader"], TOOLS - hidden, False, gated),
    }
    for client, (command, version) in CLIENTS.items():
        command = [house.node if word == "NODE" else word for word in command]
        for way, (url, token, tools, has_sum, words) in ways.items():
            said = talk(command, url, token, [SUM, ["eval_code", {"code": "3 + 4"}]])
            findings.same(f"{client} {way}", (version, sorted(tools)), (said["version"], sorted(said["tools"])))
            value, code = said["results"]
            found = value.get("structuredContent") if has_sum else "Unknown tool: eval" in value.get("message", "")
            findings.same(f"{client} {way}: 3 + 4", {"success": True, "result": 7} if has_sum else True, found)
            findings.same(f"{client} {way}: eval_code", True, words in code.get("message", "") or code)


def check_compat(findings, house) -> None:
    """A failure is an ordinary result there, which no client may refuse for what the list says of results."""
    server = json.dumps([*house.server, "--compat"])
    for client, (command, _) in CLIENTS.items():
        command = [house.node if word == "NODE" else word for word in command]
        failed, summed = talk(command, server, "", [["eval", {"code": "nil foo"}], SUM])["results"]
        said = failed.get("structuredContent", {}).get("success", failed), failed.get("isError")
        findings.same(f"{client} with --compat: a failure", (False, False), said)
        findings.same(f"{client} with --compat: 3 + 4", {"success": True, "result": 7}, summed.get("structuredContent"))


def check_claude_code(findings, house, direct: str) -> None:
    """Nobody is logged in, and nothing is reached but this machine."""
    home = house.folder / "home"
    home.mkdir()
    environment = house.environment | QUIET | {"HOME": str(home), "GATELODGE_TOKEN": house.tokens["developer"]}

    def claude(*words: str) -> str:
        return run([str(CLAUDE), "mcp", *words], env=environment, cwd=home, stdin=subprocess.DEVNULL)

    claude("add", "--scope", "user", "streams", "--", *house.server)
    claude("add", "--scope", "user", "wrapped", "--", *wrapped(house))
    claude("add", "--scope", "user", "--transport", "http", "direct", direct)
    run([house.program, "connect", "claude-code", "--url", house.url, "--name", "gated", "--home", str(home), "--write", "--yes"],
        env=environment)
    listed = claude("list")
    for name in ("streams", "wrapped", "direct", "gated"):
        findings.same(f"Claude Code at {name}", True, is_connected(listed, name) or listed)
    environment["GATELODGE_TOKEN"] = "glt_none"
    findings.same("Claude Code at gated, by a token of nobody", False, is_connected(claude("list"), "gated"))


def check_claude_desktop(findings, house) -> None:
    home, token = house.folder / "desk", house.folder / "desk.token"
    home.mkdir()
    token.touch(0o600)
    token.write_text(house.tokens["developer"])
    run([house.program, "connect", "claude-desktop", "--url", house.url, "--token-file", str(token), "--home", str(home),
         "--write", "--yes"], env=house.environment)
    entry = json.loads((home / ".config/Claude/claude_desktop_config.json").read_text())["mcpServers"]["pharo"]
    # Such clients hand on few variables.
    peer = Lines([entry["command"], *entry["args"]], house.log, env={"HOME": str(home), "PATH": house.environment["PATH"]})
    peer.ask("initialize", HELLO)
    peer.note("notifications/initialized", {})
    tools = json.loads(peer.ask("tools/list", {}))["result"]["tools"]
    findings.same("the entry of Claude Desktop", sorted(TOOLS), sorted(tool["name"] for tool in tools))
    said = json.loads(peer.call(*SUM))["result"]
    findings.same("3 + 4 by the entry of Claude Desktop", "7", said["content"][0]["text"])
    findings.same("its end", 0, peer.end())
