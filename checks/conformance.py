#!/usr/bin/env python3
"""Runs the official conformance suite against a server, directly and through the gateway.

    conformance.py --gatelodge PROGRAM --node PROGRAM --rmcp PROGRAM [--fixture rmcp|python]… [--revision REVISION]…
    conformance.py --self-test   tests that deliberate differences are found

Each check of the suite must have the same outcome both ways. The server behind the gateway is a fixture, with a policy
that allows everything. The direct counts must be exactly those in `TOTALS`, so that a suite that runs fewer checks is
noticed. Known differences are in `conformance/expected-<revision>.txt`; an entry that no longer differs fails. With
`--cross` the server only supports the other protocol generation, so that the gateway has to translate; known differences
are then in `conformance/expected-cross-<revision>.txt`.
"""

import argparse
import collections
import contextlib
import json
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent))
import relay  # noqa: E402
from clients import free_port, make_token, wait_for  # noqa: E402

HERE = Path(__file__).resolve().parent / "conformance"
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"

REVISIONS = {
    "2025-06-18": ["--suite", "all", "--spec-version", "2025-06-18"],
    "2025-11-25": ["--requirements", "2025-11-25"],
    "2026-07-28": ["--requirements", "2026-07-28"],
}
# Passed and failed checks of a fixture without the gateway. They differ because one replies with streams, the other with JSON.
TOTALS = {
    ("rmcp", "2025-06-18"): (56, 0),
    ("rmcp", "2025-11-25"): (83, 0),
    ("rmcp", "2026-07-28"): (197, 0),
    ("python", "2025-06-18"): (56, 0),
    ("python", "2025-11-25"): (84, 0),
    ("python", "2026-07-28"): (196, 0),
}

# Outcomes of each check of a scenario. A check may occur several times.
Outcomes = dict[tuple[str, str], list[str]]


@dataclass
class Run:
    """One fixture at one revision."""

    fixture: str
    revision: str
    direct: Outcomes
    through: Outcomes
    # Each check that differs, with both outcomes and the message of the suite.
    differences: list[dict] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def counts(outcomes: Outcomes) -> tuple[int, int]:
    """Return the number of passed and failed checks."""
    every = [status for statuses in outcomes.values() for status in statuses]
    return every.count("SUCCESS"), every.count("FAILURE")


def suite(arguments: argparse.Namespace, url: str, revision: str, folder: Path) -> tuple[Outcomes, dict]:
    """Runs the suite."""
    command = [arguments.node, str(SUITE), "server", "--url", url, *REVISIONS[revision], "-o", str(folder)]
    if arguments.scenario:
        command = [arguments.node, str(SUITE), "server", "--url", url, "--scenario", arguments.scenario,
                   "--spec-version", revision, "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL)
    (folder / "suite.log").write_text(done.stdout + done.stderr)
    return read_results(folder)


def read_results(folder: Path) -> tuple[Outcomes, dict]:
    """Return the outcome of each check, and the messages of those that did not pass."""
    outcomes, said = collections.defaultdict(list), collections.defaultdict(list)
    for path in sorted(folder.glob("*/checks.json")):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", path.parent.name).removeprefix("server-")
        for check in json.loads(path.read_text()):
            key = scenario, check["id"]
            # Informational entries, such as messages of a stream, are not outcomes.
            if check["status"] != "INFO":
                outcomes[key].append(check["status"])
            if check["status"] != "SUCCESS":
                said[key].append(check.get("errorMessage") or check["description"])
    if not outcomes:
        sys.exit(f"error: the suite gave no results\n{(folder / 'suite.log').read_text()[-4000:]}")
    return {key: sorted(statuses) for key, statuses in outcomes.items()}, said


def compare(direct: tuple[Outcomes, dict], through: tuple[Outcomes, dict]) -> list[dict]:
    differences = []
    for key in sorted(direct[0].keys() | through[0].keys()):
        ends = direct[0].get(key, []), through[0].get(key, [])
        if ends[0] != ends[1]:
            differences.append({"scenario": key[0], "check": key[1], "direct": ends[0], "through": ends[1],
                                "said": through[1].get(key) or direct[1].get(key, [])})
    return differences


def expected(revision: str, fixture: str) -> dict[str, str]:
    """Return the known differences as `scenario:check-id`, each with its reason."""
    path = HERE / f"expected-{revision}.txt"
    return read_expected(path.read_text(), fixture)


def read_expected(text: str, fixture: str) -> dict[str, str]:
    """Reads lines of `[fixture] scenario:check-id  # reason`. Without a fixture, an entry applies to all."""
    entries = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("#"):
            continue
        entry, _, reason = line.partition("#")
        *only, name = entry.split()
        if not reason.strip() or ":" not in name or len(only) > 1:
            sys.exit(f"error: `{line}` is not `[fixture] scenario:check-id  # reason`")
        if fixture in (only or [fixture]):
            entries[name] = reason.strip()
    return entries


def evaluate(run: Run, known: dict[str, str], total: tuple[int, int] | None) -> None:
    """Record the errors of a run."""
    if total and counts(run.direct) != total:
        passed, failed = counts(run.direct)
        run.faults.append(f"directly {passed} passed and {failed} failed, not {total[0]} and {total[1]}")
    for (scenario, check), statuses in run.direct.items():
        if "FAILURE" in statuses and run.fixture != "url":
            run.faults.append(f"{scenario}:{check}: fails directly")
    found = {f"{entry['scenario']}:{entry['check']}" for entry in run.differences}
    for entry in run.differences:
        name = f"{entry['scenario']}:{entry['check']}"
        if name not in known:
            said = "; ".join(text for text in entry["said"] if text)
            run.faults.append(f"{name}: directly {words(entry['direct'])}, through {words(entry['through'])}: {said}")
    run.faults += [f"{name} is expected to differ and does not" for name in known if name not in found]


def words(statuses: list[str]) -> str:
    return ", ".join(status.lower() for status in statuses) or "nothing"


def configuration(folder: Path, url: str, token: str, ports: tuple[int, int]) -> Path:
    (folder / "all.json").write_text(json.dumps({"version": "1", "default": "allow"}))
    (folder / "token").write_text(token)
    path = folder / "gatelodge.toml"
    path.write_text(
        f'[gateway]\nlisten = "127.0.0.1:{ports[0]}"\n[admin]\nlisten = "127.0.0.1:{ports[1]}"\n[store]\ndata = "data"\n'
        '[[policies]]\nname = "all"\nfile = "all.json"\n'
        f'[[servers]]\nname = "fixture"\nurl = "{url}"\n'
        '[[grants]]\nlabel = "suite"\ntoken_file = "token"\nserver = "fixture"\npolicy = "all"\n')
    return path


def start_fixture(stack: contextlib.ExitStack, command: list[str], log: Path) -> int:
    """Start a server, which prints its port when it is ready."""
    errors = stack.enter_context(log.open("w"))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    line = process.stdout.readline()
    if not line:
        sys.exit(f"error: {command[0]} ended with {process.wait()} before it listened\n{log.read_text()[-2000:]}")
    return json.loads(line)["port"]


def start_gateway(stack: contextlib.ExitStack, arguments: argparse.Namespace, url: str, folder: Path) -> tuple[int, str]:
    token, gate = make_token(), free_port()
    path = configuration(folder, url, token, (gate, free_port()))
    log = stack.enter_context((folder / "gatelodge.log").open("w"))
    process = subprocess.Popen([arguments.gatelodge, "serve", "--config", str(path)], stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    wait_for(gate, process, "gatelodge")
    return gate, token


def run_one(arguments: argparse.Namespace, fixture: str, revision: str, folder: Path) -> Run:
    """Run the suite directly and through the gateway, each time with a new fixture, so that no state is shared."""
    results, bridged = [], 0
    for route in ("direct", "through"):
        out = folder / route
        out.mkdir(parents=True)
        with contextlib.ExitStack() as stack:
            if fixture == "url":
                url = arguments.url
            else:
                port = start_fixture(stack, arguments.commands[fixture], out / "fixture.log")
                url = f"http://127.0.0.1:{port}/mcp"
            record = out / "wire" if arguments.keep else None
            if record:
                record.mkdir()
            if route == "through" and arguments.cross:
                other = "stateful" if revision == "2026-07-28" else "stateless"
                only = relay.Relay(int(url.split(":")[2].split("/")[0]), generation=other)
                stack.callback(only.end)
                url = f"http://127.0.0.1:{only.port}/mcp"
            if route == "through":
                gate, token = start_gateway(stack, arguments, url, out)
                between = relay.Relay(gate, f"Authorization: Bearer {token}", record)
                stack.callback(between.end)
                url = f"http://127.0.0.1:{between.port}/mcp/fixture"
            elif record:
                address, _, path = url.removeprefix("http://").partition("/")
                between = relay.Relay(int(address.split(":")[1]), None, record)
                stack.callback(between.end)
                url = f"http://127.0.0.1:{between.port}/{path}"
            results.append(suite(arguments, url, revision, out))
            bridged = only.refused if route == "through" and arguments.cross else 0
    run = Run(fixture, revision, results[0][0], results[1][0], compare(*results))
    if arguments.cross and not bridged:
        run.faults.append("the server got no request of the other generation, so nothing was translated")
    partial = arguments.scenario is not None
    name = f"cross-{revision}" if arguments.cross else revision
    evaluate(run, {} if partial else expected(name, fixture), None if partial else TOTALS.get((fixture, revision)))
    return run


def table(runs: list[Run]) -> str:
    lines = [f"{'fixture':9}{'revision':12}{'direct':>12}{'through':>12}{'differ':>8}"]
    for run in runs:
        direct, through = ("/".join(map(str, counts(outcomes))) for outcomes in (run.direct, run.through))
        lines.append(f"{run.fixture:9}{run.revision:12}{direct:>12}{through:>12}{len(run.differences):>8}")
    return "\n".join(lines)


def report(runs: list[Run], as_json: bool) -> NoReturn:
    """Print the result and exit."""
    if as_json:
        print(json.dumps([{"fixture": run.fixture, "revision": run.revision, "direct": counts(run.direct),
                           "through": counts(run.through), "differences": run.differences, "faults": run.faults}
                          for run in runs], indent=1))
    else:
        for run in runs:
            for fault in run.faults:
                print(f"FAILED {run.fixture} {run.revision}: {fault}")
        print(table(runs))
    sys.exit(1 if any(run.faults for run in runs) else 0)


# ---- self-test -------------------------------------------------------------------------------

FINE = {("ping", "ping"): ["SUCCESS"], ("tasks-wire", "a"): ["FAILURE", "SUCCESS"]}
# Changed outcomes, known differences, totals, and part of the expected error.
DELIBERATE = [
    ({("ping", "ping"): ["FAILURE"]}, "", (2, 1), "ping:ping: directly success, through failure"),
    ({("ping", "ping"): []}, "", (2, 1), "ping:ping: directly success, through nothing"),
    ({("tasks-wire", "a"): ["SUCCESS", "SUCCESS"]}, "", (2, 1), "tasks-wire:a: directly failure, success"),
    ({("new", "b"): ["SUCCESS"]}, "", (2, 1), "new:b: directly nothing, through success"),
    ({}, "ping:ping  # once", (2, 1), "ping:ping is expected to differ and does not"),
    ({}, "url ping:ping  # once", (2, 1), "ping:ping is expected to differ and does not"),
    ({}, "", (3, 1), "directly 2 passed and 1 failed, not 3 and 1"),
]


def self_test() -> None:
    faults = []

    def found(fixture: str, direct: Outcomes, change: Outcomes, known: str, total: tuple[int, int]) -> list[str]:
        through = direct | change
        run = Run(fixture, "", direct, through, compare((direct, {}), (through, {})))
        evaluate(run, read_expected(known, fixture), total)
        return run.faults

    for clean in ("", "rmcp ping:ping  # of another fixture"):
        if listed := found("url", FINE, {}, clean, (2, 1)):
            faults.append(f"a clean run has faults: {listed}")
    if listed := found("url", FINE, {("ping", "ping"): ["FAILURE"]}, "ping:ping  # known", (2, 1)):
        faults.append(f"what is expected is a fault: {listed}")
    for change, known, total, expects in DELIBERATE:
        listed = found("url", FINE, change, known, total)
        if len(listed) != 1 or not listed[0].startswith(expects):
            faults.append(f"changed {change} {known}, found {listed}")
    listed = found("rmcp", FINE, {}, "", (2, 1))
    if listed != ["tasks-wire:a: fails directly"]:
        faults.append(f"a fixture that fails is not found: {listed}")
    if faults:
        sys.exit("\n".join(faults))
    relay.self_test()
    print(f"conformance: {len(DELIBERATE) + 1} deliberate differences found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--rmcp", help="the fixture in Rust")
    parser.add_argument("--fixture", action="append", choices=["rmcp", "python"], help="default: both")
    parser.add_argument("--url", help="a running server to use instead of a fixture")
    parser.add_argument("--revision", action="append", choices=list(REVISIONS), help="default: all")
    parser.add_argument("--cross", action="store_true", help="the server supports only the other protocol generation")
    parser.add_argument("--scenario", help="run one scenario")
    parser.add_argument("--keep", type=Path, help="new folder for all results and the recorded traffic")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    fixtures = ["url"] if arguments.url else arguments.fixture or ["rmcp", "python"]
    if "rmcp" in fixtures and not arguments.rmcp:
        parser.error("the fixture `rmcp` needs --rmcp PROGRAM")
    if not SUITE.exists():
        sys.exit(f"error: {SUITE} is missing; run `npm ci` in {HERE}")
    arguments.commands = {"rmcp": [arguments.rmcp, "0"], "python": [sys.executable, str(HERE / "python_server.py"), "0"]}
    runs = []
    with contextlib.ExitStack() as stack:
        folder = arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for fixture in fixtures:
            for revision in arguments.revision or list(REVISIONS):
                runs.append(run_one(arguments, fixture, revision, folder / f"{fixture}-{revision}"))
    report(runs, arguments.json)


if __name__ == "__main__":
    main()
