#!/usr/bin/env python3
"""Runs the client scenarios of the official conformance suite, directly and through the gateway.

    conformance_client.py --gatelodge PROGRAM --node PROGRAM [--revision REVISION]… [--scenario NAME] [--json]

The suite acts as a server and checks the requests it gets. A client built with the TypeScript SDK connects directly, and
then through a gateway in front of this server: so the checks test the gateway as a client. Each must have the same
outcome both ways. Known differences are in `conformance/expected-client-<revision>.txt`.

Everything runs in a network namespace with only a loopback interface, because the suite listens on every address.
Scenarios about authorization are not included.
"""

import argparse
import contextlib
import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from conformance import HERE, SUITE, Run, compare, expected, evaluate, read_results, report, start_gateway  # noqa: E402

CLIENT = HERE / "client.mjs"

SCENARIOS = {
    "2025-11-25": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry",
                   "json-schema-2020-12-preservation"],
    "2026-07-28": ["tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers",
                   "http-custom-headers", "http-invalid-tool-headers", "json-schema-ref-no-deref",
                   "json-schema-2020-12-preservation"],
}
# Passed and failed checks of the client without the gateway.
TOTALS = {"2025-11-25": (20, 0), "2026-07-28": (64, 0)}


def run_one(arguments: argparse.Namespace, revision: str, folder: Path) -> Run:
    results = []
    for route in ("direct", "through"):
        out = folder / route
        out.mkdir(parents=True)
        # The suite splits a command at spaces, so it gets one without any.
        command = folder / f"{route}.sh"
        words = [arguments.node, str(CLIENT)]
        if route == "through":
            words = [sys.executable, __file__, "--run_through_gateway", arguments.gatelodge, *words]
        command.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in words) + ' "$@"\n')
        command.chmod(0o755)
        for scenario in [arguments.scenario] if arguments.scenario else SCENARIOS[revision]:
            suite = [arguments.node, str(SUITE), "client", "--command", str(command), "--scenario", scenario,
                     "--spec-version", revision, "-o", str(out)]
            done = subprocess.run(suite, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
            with (out / "suite.log").open("a") as log:
                log.write(done.stdout + done.stderr)
        results.append(read_results(out))
    run = Run("client", revision, results[0][0], results[1][0], compare(*results))
    partial = arguments.scenario is not None
    evaluate(run, {} if partial else expected(f"client-{revision}", "client"), None if partial else TOTALS[revision])
    return run


def run_through_gateway(gatelodge: str, command: list[str]) -> int:
    """Run a client against a gateway in front of the server whose URL is the last argument."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        gate, token = start_gateway(stack, argparse.Namespace(gatelodge=gatelodge), command[-1], folder)
        url = f"http://127.0.0.1:{gate}/mcp/fixture"
        done = subprocess.run([*command[:-1], url], env=os.environ | {"GATELODGE_TOKEN": token})
        sys.stderr.write((folder / "gatelodge.log").read_text())
    return done.returncode


def enter_own_network() -> None:
    """Re-execute this program in a new network namespace and bring up its loopback interface."""
    if os.environ.get("GATELODGE_OWN_NETWORK") != "yes":
        words = ["unshare", "--map-root-user", "--net", sys.executable, __file__, *sys.argv[1:]]
        if not shutil.which(words[0]):
            sys.exit("error: `unshare` is missing; on Debian: apt-get install util-linux")
        os.execvpe(words[0], words, os.environ | {"GATELODGE_OWN_NETWORK": "yes"})
    get_flags, set_flags, up = 0x8913, 0x8914, 0x1
    with socket.socket() as any_socket:
        flags = struct.unpack_from("h", fcntl.ioctl(any_socket, get_flags, struct.pack("40s", b"lo")), 16)[0]
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh22x", b"lo", flags | up))
    if others := [name for _, name in socket.if_nameindex() if name != "lo"]:
        sys.exit(f"error: the network namespace has other interfaces: {others}")


def main() -> None:
    if sys.argv[1:2] == ["--run_through_gateway"]:
        sys.exit(run_through_gateway(sys.argv[2], sys.argv[3:]))
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge", required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--revision", action="append", choices=list(SCENARIOS), help="default: all")
    parser.add_argument("--scenario", help="run one scenario")
    parser.add_argument("--keep", type=Path, help="new folder for all results")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    if not SUITE.exists():
        sys.exit(f"error: {SUITE} is missing; run `npm ci` in {HERE}")
    enter_own_network()
    with contextlib.ExitStack() as stack:
        folder = (arguments.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))).resolve()
        runs = [run_one(arguments, revision, folder / revision) for revision in arguments.revision or SCENARIOS]
    report(runs, arguments.json)


if __name__ == "__main__":
    main()
