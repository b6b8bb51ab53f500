#!/usr/bin/env python3
"""Runs `cargo-mutants` on the JSON reader and on the evaluation of policies.

`mutants.py` runs bugs that were written by hand. This tool generates them: it replaces operators and function bodies one
by one and runs the tests of the crate. `.cargo/mutants.toml` says which files it changes.

    cargo_mutants.py --shard-by-date       one of SHARDS parts, another one every day
    cargo_mutants.py --shard K/N           part K (from 0) of N
    cargo_mutants.py --in-diff FILE        only the lines that a diff changes

It stops after MINUTES and counts the results until then. It fails if too many mutants survive; with `--in-diff`,
if any does. `cargo-mutants` is installed into `.tools` if it is not there.
"""

import argparse
import datetime
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TOOL = ROOT / ".tools/bin/cargo-mutants"
VERSION = "27.1.0"
SHARDS = 20
MINUTES = 28
# Survivors of a shard that are accepted, as a share: some mutants change nothing that can be observed.
ACCEPTED_SURVIVORS = 0.10


def install() -> None:
    if TOOL.exists():
        return
    command = ["cargo", "install", "cargo-mutants", "--version", VERSION, "--locked", "--root", str(ROOT / ".tools")]
    if subprocess.run(command, cwd=ROOT).returncode != 0:
        sys.exit("error: cargo-mutants cannot be installed")


def is_in_mutant(place: str) -> bool:
    """Return whether a mutation is in the branch of a mutant, which is dead code in the tested build."""
    found = re.match(r"(.+?):(\d+):\d+: ", place)
    if not found:
        return False
    lines = (ROOT / found[1]).read_text(encoding="utf-8").splitlines()
    return "mutant!(" in lines[int(found[2]) - 1]


def run(arguments: list[str], output: Path) -> int:
    """Run the tool until it ends or the time limit is reached. Return its exit code."""
    environment = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    # `--workspace`: otherwise only the default members of the workspace are searched.
    command = [str(TOOL), "mutants", "--workspace", "--output", str(output), "--colors", "never", "--no-times",
               "--sharding", "round-robin", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        return process.wait(timeout=MINUTES * 60)
    except subprocess.TimeoutExpired:
        print(f"stopped after {MINUTES} minutes", flush=True)
        process.send_signal(signal.SIGINT)
        process.wait()
        return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    chosen = parser.add_mutually_exclusive_group(required=True)
    chosen.add_argument("--shard-by-date", action="store_true", help="one part, chosen by the date")
    chosen.add_argument("--shard", metavar="K/N", help="part K, from 0, of N")
    chosen.add_argument("--in-diff", metavar="FILE", help="only the lines that a diff changes")
    options = parser.parse_args()
    install()
    if options.in_diff:
        arguments = ["--in-diff", str(Path(options.in_diff).resolve())]
    else:
        shard = options.shard or f"{datetime.date.today().toordinal() % SHARDS}/{SHARDS}"
        arguments = ["--shard", shard]
        print(f"shard {shard}", flush=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    target.mkdir(parents=True, exist_ok=True)
    code = run(arguments, target)
    results = target / "mutants.out"

    def listed(name: str) -> list[str]:
        path = results / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    # 0: all caught, 2: some survived, 3: some ran into the time limit; all others: it did not work.
    if code not in (0, 2, 3):
        sys.exit(f"error: cargo-mutants failed with {code}; see {results}")
    caught = listed("caught.txt") + listed("timeout.txt")
    survived = [place for place in listed("missed.txt") if not is_in_mutant(place)]
    print("".join(f"survived: {place}\n" for place in survived)
          + f"{len(caught)} mutants caught, {len(survived)} survived, {len(listed('unviable.txt'))} did not build")
    if options.in_diff:
        return 1 if survived else 0
    if not caught:
        sys.exit("error: no mutant was tested")
    return 1 if len(survived) > ACCEPTED_SURVIVORS * (len(caught) + len(survived)) else 0


sys.exit(main())
