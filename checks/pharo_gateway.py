#!/usr/bin/env python3
"""Tests `gatelodge pharo` behind the gateway, with the policies of `examples/pharo` and Amber Smalltalk.

    pharo_gateway.py --gatelodge PROGRAM --node PROGRAM

One gateway runs `examples/pharo/gatelodge.toml` with other ports and directories, and with grants for the seed policies.
Each seed policy must allow only its one tool, up to its limit; every case of the example policies must have its expected
decision; real clients list and call tools directly, with `wrap` and through the gateway.
Nothing is skipped: a program that cannot be started fails the run.
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
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pharo_clients  # noqa: E402
from clients import free_port, make_token, wait_for  # noqa: E402
from peers import META, StdioPeer, Peer, HttpPeer  # noqa: E402
from pharo_amber import TOOLS, amber  # noqa: E402
from pharo_cases import Findings  # noqa: E402

EXAMPLES = Path(__file__).resolve().parent.parent / "examples/pharo"
LIMITS = {"eval": 10, "run_package_test": 10, "run_class_test": 10, "export_package": 30, "import_package": 30}
# Grants of the case files, by policy. The first two are in the example itself.
CALLERS = {"strict": "reader", "recommended": "developer", "permissive": "trusted"}
# Enough time for all calls of a limit and one more.
SECONDS = 15


@dataclass
class TestSetup:
    """Programs, ports and folders of the test."""

    program: str
    node: str
    folder: Path
    image: int
    gate: int
    tokens: dict[str, str]
    environment: dict[str, str]
    log: object

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gate}/mcp/pharo"

    @property
    def room(self) -> Path:
        """Return the folder that replaces `/tmp` in policies and cases."""
        return self.folder / "room"

    @property
    def server(self) -> list[str]:
        return [self.program, "pharo", "--port", str(self.image)]

    def peer(self, label: str, stateless: bool = False) -> "GatewayClient":
        return GatewayClient(HttpPeer(self.url, self.tokens[label], stateless), stateless)

    def run(self, *words: str) -> subprocess.CompletedProcess:
        return subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True, timeout=60)


class GatewayClient:
    """A client of one protocol generation."""

    def __init__(self, peer: Peer, stateless: bool = False) -> None:
        self.peer, self.meta = peer, {"_meta": META} if stateless else {}
        if not stateless:
            peer.hello()

    def ask(self, method: str, **params: object) -> dict:
        return json.loads(self.peer.ask(method, params | self.meta))

    def tools(self) -> list[str]:
        return sorted(tool["name"] for tool in self.ask("tools/list")["result"]["tools"])

    def call(self, tool: str, arguments: dict) -> dict:
        return self.ask("tools/call", name=tool, arguments=arguments)


def unknown(tool: str) -> dict:
    return {"code": -32602, "message": f"Unknown tool: {tool} (not available to this grant)"}


def text_of(answer: dict) -> str:
    return answer["result"]["content"][0]["text"] if "result" in answer else json.dumps(answer.get("error"))


def refusal(answer: dict) -> dict:
    return answer.get("result", {}).get("_meta", {}).get("gatelodge/refusal", {})


def within_a_minute(calls: list) -> tuple[list[dict], float]:
    """Make all calls within one minute of the clock, because counters reset every minute. Returns the answers and the second."""
    for _ in range(3):
        if 60 - time.time() % 60 < SECONDS:
            time.sleep(60.5 - time.time() % 60)
        minute = time.time() // 60
        said = [call() for call in calls]
        if time.time() // 60 == minute:
            return said, time.time() % 60
        # The counters of this minute are partly used up.
        time.sleep(60.5 - time.time() % 60)
    sys.exit(f"error: {len(calls)} calls took more than {SECONDS} s three times")


def check_limit_reached(findings: Findings, tool: str, answer: dict, at: float) -> None:
    """Check that the refusal names the rule, the reason and the remaining time."""
    found, text = refusal(answer), text_of(answer)
    wanted = (True, "limit", f"/tools/{tool}/limits/0")
    findings.same(f"{tool}: one too many", wanted, (answer.get("result", {}).get("isError"), found.get("code"), found.get("rule")))
    seconds = found.get("retry_after_seconds", -1)
    findings.same(f"{tool}: seconds to wait at second {at:.0f}", True, 0 < seconds <= 60 and abs(60 - at - seconds) <= 3)
    wait = "1 min" if seconds == 60 else f"{seconds} s"
    words = rf"\[POLICY DENIED\] limit `{tool}_rate`: {LIMITS[tool]} per minute, resets in {wait}"
    findings.same(f"{tool}: the words", True, bool(re.fullmatch(words, text)) or text)


def check_seeds(findings: Findings, setup: TestSetup) -> None:
    out, never = str(setup.room / "out"), setup.room / "never"
    # Arguments, result, and a last call whose effect would be visible.
    comment = {"code": "LodgeGate comment: 'one too many'"}
    rows = {
        "eval": ({"code": "3 + 4"}, "7", comment),
        "export_package": ({"package_name": "Lodge", "path": out}, f"Lodge exported to: {out}", {"package_name": "Lodge", "path": str(never)}),
        "import_package": ({"package_name": "Lodge", "path": out}, f"Lodge imported from: {out}", None),
        "run_package_test": ({"package_name": "Lodge-Tests"}, "7 ran, 5 passed", None),
        "run_class_test": ({"class_name": "LodgeGateTest"}, "4 ran, 4 passed", None),
    }
    for tool, (arguments, wanted, last) in rows.items():
        caller = setup.peer(f"seed-{tool}")
        findings.same(f"the list by the seed for {tool}", [tool], caller.tools())
        calls = [arguments] * LIMITS[tool] + [last or arguments]
        said, at = within_a_minute([lambda given=given: caller.call(tool, given) for given in calls])
        for number, answer in enumerate(said[:-1], 1):
            good = not answer.get("result", {}).get("isError") and text_of(answer).startswith(wanted)
            findings.same(f"{tool}: call {number}", True, good or text_of(answer))
        check_limit_reached(findings, tool, said[-1], at)
        for is_stateless in (False, True):
            stranger = setup.peer(f"seed-{tool}", is_stateless)
            for other in sorted(TOOLS - {tool}) + ["eval_code", "no_such_tool"]:
                findings.same(f"{other} by the seed for {tool}", unknown(other), stranger.call(other, {}).get("error"))
    findings.same("the last export left nothing", False, never.exists())
    direct = GatewayClient(StdioPeer(setup.server, setup.log))
    said = text_of(direct.call("get_class_comment", {"class_name": "LodgeGate"}))
    findings.same("the last eval changed nothing", True, said.startswith("I let visitors in"))
    direct.call("eval", comment)
    said = text_of(direct.call("get_class_comment", {"class_name": "LodgeGate"}))
    findings.same("where it is not refused, it changes the comment", "one too many", said)
    findings.same("its end", 0, direct.peer.end())


def offered(findings: Findings, setup: TestSetup, *options: str) -> list[dict]:
    """Return the server's own list of tools."""
    direct = GatewayClient(StdioPeer([*setup.server, *options], setup.log))
    tools = direct.ask("tools/list")["result"]["tools"]
    findings.same("its end", 0, direct.peer.end())
    return tools


def check_page(findings: Findings, setup: TestSetup) -> None:
    """Check that the documented table of tools is the server's list, and that `--compat` only changes the output schemas."""
    listed, compat = offered(findings, setup), offered(findings, setup, "--compat")
    findings.same("the list with --compat", [tool | {"outputSchema": {"type": "object"}} for tool in listed], compat)
    cells = re.findall(r"^\| `(\w+)` \| (.*?) \| (Read|Write|Execute) \|", pharo_clients.PAGE.read_text(), re.MULTILINE)
    findings.same("the categories on the page", {"Read": 15, "Write": 3, "Execute": 4}, dict(Counter(cell[2] for cell in cells)))
    wanted = []
    for tool in listed:
        schema = tool["inputSchema"]
        names = [f"`{name}`" + ("\\*" if name in schema.get("required", []) else "") for name in schema["properties"]]
        wanted.append((tool["name"], names))
    found = [(name, re.findall(r"`\w+`(?:\\\*)?", parameters)) for name, parameters, _ in cells]
    findings.same("the tools on the page", wanted, found)


def check_eval_code(findings: Findings, setup: TestSetup) -> None:
    """Check a policy with a tool that the server does not have: it loads with a warning, and the tool is unknown."""
    tools, listed = offered(findings, setup), setup.folder / "tools.json"
    findings.same("the tools of the server itself", sorted(TOOLS), sorted(tool["name"] for tool in tools))
    listed.write_text(json.dumps({"tools": tools}))
    policy = setup.folder / "gate/eval_code.json"
    done = setup.run("policy", "check", "--json", "--tools", str(listed), str(policy))
    found = [(finding["severity"], finding["code"], finding["message"]) for finding in json.loads(done.stdout)]
    findings.same("the check of a policy with eval_code", (0, [("warning", "not-offered", "the server has no tool `eval_code`")]),
                  (done.returncode, found))
    for name in CALLERS:
        done = setup.run("policy", "check", "--strict", "--json", "--tools", str(listed), str(setup.folder / f"gate/{name}.json"))
        findings.same(f"the check of {name}.json", (0, []), (done.returncode, json.loads(done.stdout)))
    caller = setup.peer("eval-code")
    findings.same("the list by a policy with eval_code", ["eval"], caller.tools())
    findings.same("eval by it", "7", text_of(caller.call("eval", {"code": "3 + 4"})))
    findings.same("eval_code by it", unknown("eval_code"), caller.call("eval_code", {"code": "3 + 4"}).get("error"))
    warned = "policy `eval_code` names the tool `eval_code`, which `pharo` does not list"
    findings.same("the gateway's word on it", True, warned in (setup.folder / "log").read_text() or "no warning")


def check_cases(findings: Findings, setup: TestSetup) -> None:
    """Send every case of the case files through the gateway."""
    files = [str(path) for path in sorted((setup.folder / "gate").rglob("*.cases.yaml"))]
    done = setup.run("policy", "test", *files)
    findings.same("policy test", 0, done.returncode)
    print(f"  policy test: {done.stdout.strip()}")
    for name, label in CALLERS.items():
        cases = yaml.safe_load((setup.folder / f"gate/{name}.cases.yaml").read_text())["cases"]
        caller = setup.peer(label)
        for case in (case for case in cases if "policy" not in case):
            call, expect = case["call"], case["expect"]
            answer = caller.call(call["tool"], call.get("arguments", {}))
            findings.same(f"{name}: {case['name']}", expected(call["tool"], expect), decided(answer, expect))
    names = {"strict": TOOLS - {"eval", "import_package", "run_class_test", "run_package_test"}}
    for name, label in CALLERS.items():
        for is_stateless in (False, True):
            findings.same(f"the list by {name}", sorted(names.get(name, TOOLS)), setup.peer(label, is_stateless).tools())
    # An allowed call reaches the image, which may still refuse it.
    project = {"project_name": "Mine", "repository_url": "github://mumez/Mine:main/src"}
    said = text_of(setup.peer("developer").call("install_project", project))
    findings.same("an installation that may be", True, "There is no Metacello in Amber" in said or said)
    looping = setup.peer("looping")
    said, at = within_a_minute([lambda: looping.call("eval", {"code": "3 + 4"})] * (LIMITS["eval"] + 1))
    findings.same("ten evaluations by recommended", ["7"] * 10, [text_of(answer) for answer in said[:-1]])
    check_limit_reached(findings, "eval", said[-1], at)


def expected(tool: str, expect: dict) -> tuple:
    code = expect.get("code")
    if expect["decision"] == "allow":
        return ("allow",)
    if code in ("hidden", "not_listed"):
        return ("unknown", unknown(tool))
    # There is no person to ask.
    code = "approval_unavailable" if expect["decision"] == "approve" else code
    message = expect.get("message") if expect["decision"] == "deny" else None
    return ("refused", code, expect["rule"], f"[POLICY DENIED] {message}" if message else None)


def decided(answer: dict, expect: dict) -> tuple:
    """Return the decision on a call. The text of a refusal is compared only if the case has one."""
    if "error" in answer:
        return ("unknown", answer["error"])
    found = refusal(answer)
    if not found:
        return ("allow",)
    has_words = "message" in expect and expect["decision"] == "deny"
    return ("refused", found.get("code"), found.get("rule"), text_of(answer) if has_words else None)


def write_configuration(folder: Path, ports: dict[str, int]) -> dict[str, str]:
    """Write the example with other ports and with directories of its own. Return the tokens by grant label."""
    gate = folder / "gate"
    shutil.copytree(EXAMPLES, gate)
    # Only at the start of a path: `/tmp/../etc` must still leave the folder.
    places = {"/tmp": str(folder / "room"), "/etc": str(folder / "elsewhere")}
    for path in [*gate.glob("*.json"), *gate.glob("*.cases.yaml")]:
        path.write_text(re.sub(r'(?<=[ "\[])/(tmp|etc)\b', lambda found: places[found[0]], path.read_text()))
    config = gate / "gatelodge.toml"
    text = config.read_text()
    for old, name in (("127.0.0.1:7420", "gate"), ("127.0.0.1:7421", "admin"), ('"8086"', "image")):
        if text.count(old) != 1:
            sys.exit(f"error: {config.name} has {old} {text.count(old)} times")
        text = text.replace(old, f'"{ports[name]}"' if name == "image" else f"127.0.0.1:{ports[name]}")
    (gate / "eval_code.json").write_text('{"version": "1", "default": "deny", "tools": {"eval": {}, "eval_code": {}}}')
    for name in ["eval_code", *(f"seeds/{tool}" for tool in LIMITS)]:
        text += f'\n[[policies]]\nname = "{name.replace("/", "-")}"\nfile = "{name}.json"\n'
    more = {"trusted": "pharo-permissive", "looping": "pharo-recommended", "eval-code": "eval_code"}
    more |= {f"seed-{tool}": f"seeds-{tool}" for tool in LIMITS}
    tokens = {label: make_token() for label in ["reader", "developer", *more]}
    for label, policy in more.items():
        (gate / f"{label}.token").write_text(tokens[label])
        text += f'\n[[grants]]\nlabel = "{label}"\ntoken_file = "{label}.token"\nserver = "pharo"\npolicy = "{policy}"\n'
    config.write_text(text)
    (folder / "room/pharo/deep/er").mkdir(parents=True)
    return tokens


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    parser.add_argument("--node", required=True)
    arguments = parser.parse_args()
    findings, since = Findings(), time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        log = stack.enter_context((folder / "log").open("w"))
        image = stack.enter_context(amber(arguments.node, folder, log))
        ports = {"image": image, "gate": free_port(), "admin": free_port()}
        tokens = write_configuration(folder, ports)
        # The example runs `gatelodge` by name.
        program = folder / "bin/gatelodge"
        program.parent.mkdir()
        program.symlink_to(Path(arguments.gatelodge).resolve())
        environment = {"HOME": str(folder), "PATH": f"{program.parent}:{os.environ['PATH']}"}
        secrets = {f"GATELODGE_{label.upper()}_TOKEN": tokens[label] for label in ("reader", "developer")}
        gateway = subprocess.Popen([str(program), "serve", "--config", str(folder / "gate/gatelodge.toml")],
                                   stdout=log, stderr=log, env=environment | secrets)
        stack.callback(gateway.wait)
        stack.callback(gateway.terminate)
        wait_for(ports["gate"], gateway, "gatelodge")
        setup = TestSetup(str(program), arguments.node, folder, image, ports["gate"], tokens, environment, log)
        for check in (check_page, check_seeds, check_eval_code, check_cases, pharo_clients.check_clients):
            began = time.monotonic()
            check(findings, setup)
            print(f"  {check.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        if findings.failed:
            print((folder / "log").read_text()[-3000:])
    print(f"pharo_gateway: {findings.checked - findings.failed} passed, {findings.failed} failed, {time.monotonic() - since:.0f} s")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
