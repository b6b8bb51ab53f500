#!/usr/bin/env python3
"""Tests `gatelodge pharo`, the MCP server for a Pharo image.

    pharo.py --gatelodge PROGRAM --recorded                      behaves like recordings of the original
    pharo.py --gatelodge PROGRAM --source DIR [--record FILE]    behaves like the original; DIR is a checkout of it
    pharo.py --gatelodge PROGRAM --amber --node PROGRAM          every tool works on real Smalltalk (Amber, not Pharo)
    pharo.py --gatelodge PROGRAM --live PORT                     reads from a running Pharo image
    pharo.py --self-test                                         tests that deliberate differences are found

The first two run `pharo --compat` with the cases of `pharo/cases.json` and a fake image that answers as the case says.
They compare requests to the image and results for the client. `--record` writes the behavior of the original; without
`--gatelodge` it does only that. The recordings are from Python 3.11: since 3.13, Python has another error message for a
trailing comma, which the original passes on.
"""

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pharo_amber  # noqa: E402
from pharo_cases import DIFFERENCES, HERE, RECORDED, RawClient, Findings  # noqa: E402
from pharo_cases import cases, differences, is_by_text, recordable, run_case  # noqa: E402
from pharo_image import Image  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TOOLS = 22


def ours(program: str, image: Image) -> RawClient:
    caller = RawClient([program, "pharo", "--compat", "--port", str(image.port), "--timeout", "2s"], sys.stderr)
    caller.hello()
    return caller


def original(source: Path, image: Image) -> RawClient:
    """Start the original with the versions of its lock file. Its time limit is fixed at 30 s."""
    if not (source / "pharo_smalltalk_interop_mcp_server/server.py").is_file():
        sys.exit(f"error: {source} is not a checkout of the original")
    if sys.version_info >= (3, 13):
        sys.exit("error: the comparison needs Python before 3.13")
    # Nothing is written into the checkout.
    environment = {"PATH": os.environ["PATH"], "HOME": str(ROOT / ".tools"), "PYTHONPATH": str(source),
                   "PYTHONDONTWRITEBYTECODE": "1", "PHARO_SIS_PORT": str(image.port)}
    command = [str(python_of_original()), "-m", "pharo_smalltalk_interop_mcp_server.server"]
    caller = RawClient(command, env=environment, cwd=ROOT / ".tools")
    caller.hello()
    return caller


def python_of_original() -> Path:
    folder, requirements = ROOT / ".tools/pharo-original", HERE / "requirements.txt"
    wanted = sys.version + requirements.read_text()
    stamp = folder / "stamp"
    if not stamp.is_file() or stamp.read_text() != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        subprocess.run([folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                        "-r", requirements], check=True)
        stamp.write_text(wanted)
    return folder / "bin/python"


def against_recorded(program: str, findings: Findings) -> None:
    recorded, image = read_recorded(findings), Image()
    caller = ours(program, image)
    for case in cases():
        if case["name"] in recorded:
            findings.compare(case, recorded[case["name"]], run_case(case, image, caller))
    findings.same("answers to one request", [], caller.answered_more_than_once())
    findings.same("its end", 0, caller.end())


def read_recorded(findings: Findings) -> dict[str, dict]:
    recorded, table = json.loads(RECORDED.read_text()), cases()
    findings.same("the cases that are recorded", sorted(case["name"] for case in table), sorted(recorded))
    tools = {case["tool"] for case in table if recorded.get(case["name"], {}).get("asked")}
    findings.same("tools that asked the image", TOOLS, len(tools))
    return recorded


def against_original(source: Path, program: str | None, record: Path | None, findings: Findings) -> None:
    image = Image()
    theirs, written = original(source, image), {}
    # One image for each, so that neither sees the connections of the other.
    our_image = Image()
    caller = ours(program, our_image) if program else None
    for case in cases():
        said = run_case(case, image, theirs)
        written[case["name"]] = recordable(case, said)
        if caller:
            findings.compare(case, said, run_case(case, our_image, caller))
    if record:
        lines = (f"{json.dumps(name)}: {json.dumps(said, ensure_ascii=False)}" for name, said in written.items())
        record.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(f"pharo: {len(written)} cases written to {record}")
    theirs.end()
    if caller:
        caller.end()


def self_test() -> None:
    """Check that a change of any part of any case is found."""
    recorded, count = json.loads(RECORDED.read_text()), 0
    for case in cases():
        theirs = recorded[case["name"]]
        ours = case.get("ours", theirs)
        if differences(case, theirs, ours):
            sys.exit(f"error: {case['name']} has a difference, although nothing was changed")
        if "ours" in case and not differences({"name": case["name"]}, theirs, ours):
            sys.exit(f"error: {case['name']} says that ours differs, but it does not")
        for change in changes(ours, case):
            count += 1
            if not differences(case, theirs, change):
                sys.exit(f"error: a deliberate difference is not found in {case['name']}: {change}")
    print(f"pharo: {count} deliberate differences found")


def changes(said: dict, case: dict) -> list[dict]:
    def changed(change) -> dict:
        other = copy.deepcopy(said)
        change(other)
        return other

    made = [changed(lambda other: other["reply"].update(isError=not other["reply"].get("isError"))),
            changed(lambda other: other.update(reply={"error": -32603})),
            changed(lambda other: other.update(reply={"silence": "no answer"})),
            changed(lambda other: other["asked"].append({"method": "GET", "path": "/", "type": None, "body": ""}))]
    if said["asked"]:
        made += [changed(lambda other, key=key: other["asked"][0].update({key: "other"})) for key in said["asked"][0]]
    if is_by_text(case):
        made.append(changed(lambda other: other["reply"].setdefault("content", []).append("more")))
        made.append(changed(lambda other: other["reply"].update(structured='{"other": 1}')))
    return made


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gatelodge")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--source", type=Path)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--amber", action="store_true")
    parser.add_argument("--node")
    parser.add_argument("--live", type=int)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    is_recording = arguments.source and arguments.record
    if not arguments.gatelodge and not is_recording:
        parser.error("--gatelodge is missing")
    findings, since = Findings(), time.monotonic()
    if arguments.recorded:
        against_recorded(arguments.gatelodge, findings)
    if arguments.source:
        against_original(arguments.source.resolve(), arguments.gatelodge, arguments.record, findings)
    if arguments.amber:
        if not arguments.node:
            parser.error("--node is missing")
        pharo_amber.on_amber(arguments.gatelodge, arguments.node, findings)
    if arguments.live:
        pharo_amber.on_live(arguments.gatelodge, arguments.live, findings)
    if not findings.checked and not is_recording:
        parser.error("use one of --recorded, --source, --amber and --live")
    if arguments.recorded or arguments.source:
        for name, why in DIFFERENCES.items():
            print(f"  {sum(case.get('differs') == name for case in cases())} cases differ: {why}")
    print(f"pharo: {findings.checked - findings.failed} passed, {findings.failed} failed, {time.monotonic() - since:.0f} s")
    sys.exit(1 if findings.failed else 0)


if __name__ == "__main__":
    main()
