#!/usr/bin/env python3
"""Finds the functions that calls run through, so that they stand side by side in the program.

    layout.py --programs FOLDER [--write]

FOLDER has release builds of `gatelodge` and `road`. The gateway runs under `valgrind --tool=callgrind` while `road` calls
it. What calls enter again and again is on the list, `crates/cli/layout.txt`, which `--write` writes anew. Of the functions
there nine of ten must be in the program, and so many must stand side by side. Names hold a hash of what the compiler was
told, so a new compiler, another profile, other versions of libraries or of our own want a new list.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

KEPT = Path(__file__).resolve().parent.parent / "crates/cli/layout.txt"
# Small calls are most calls, so what they need comes first.
CASES = ["small-16", "stateless-16", "events-16", "list-20", "large-16"]
# Entered at least once for each call.
ANCHOR = re.compile(r"gatelodge_gateway.*http.*mcp.*serve.*closure")
# Of these entries, so many make a function one of calls: the ledger puts rows into the database 64 at a time.
ENOUGH = 0.01
# So long the gateway takes to start under `valgrind`, and calls to warm up.
START = 5
MUST_BE_THERE = 0.9


class Function(NamedTuple):
    """Where a function stands in a program, and how many bytes it has."""

    at: int
    size: int


def functions(program: Path) -> dict[str, Function]:
    """All functions of a program."""
    told = subprocess.run(["nm", "--print-size", program], capture_output=True, text=True, check=False)
    if told.returncode != 0:
        sys.exit(f"error: {told.stderr.strip()}; build it first: cargo build --release -p gatelodge")
    lines = (line.split() for line in told.stdout.splitlines())
    of_code = (parts for parts in lines if len(parts) == 4 and parts[2] in "tTwW")
    return {name: Function(int(at, 16), int(size, 16)) for at, size, _, name in of_code}


def side_by_side(found: list[Function]) -> int:
    """How many of these stand where all could stand with as much between them as they have themselves."""
    middle = sorted(function.at for function in found)[len(found) // 2]
    room = sum(function.size for function in found)
    return sum(abs(function.at - middle) <= room for function in found)


def counts(counted: Path) -> tuple[Counter[str], Counter[str]]:
    """How often each function was entered, and how many instructions it ran itself, by what `callgrind` wrote."""
    names: dict[str, str] = {}
    entered: Counter[str] = Counter()
    ran: Counter[str] = Counter()
    own = callee = ""
    is_of_callee = False
    for line in counted.read_text().splitlines():
        if found := re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line):
            is_callee, number, name = found.groups()
            if name:
                # A function that calls itself is told apart from the one that is called first.
                names[number] = re.sub(r"'\d+$", "", name)
            if is_callee:
                callee = names[number]
            else:
                own = names[number]
        elif found := re.match(r"calls=(\d+)", line):
            entered[callee] += int(found[1])
            is_of_callee = True
        elif found := re.match(r"[+\-*\d]\S* (\d+)$", line):
            ran[own] += 0 if is_of_callee else int(found[1])
            is_of_callee = False
    return entered, ran


def of_calls(programs: Path, case: str, folder: Path) -> set[str]:
    """The functions that calls of a case enter."""
    counted, pid = folder / case, folder / f"{case}.pid"
    wrapper = folder / "gatelodge"
    valgrind = f"valgrind --tool=callgrind --instr-atstart=no --demangle=no --callgrind-out-file={counted}"
    gatelodge = shlex.quote(str(programs / "gatelodge"))
    wrapper.write_text(f'#!/bin/sh\necho $$ >{pid}\nexec {valgrind} {gatelodge} "$@"\n')
    wrapper.chmod(0o755)
    command = [programs / "road", case, "--only", "before", "--against", wrapper, "--rounds", "1", "--seconds", "6"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as road:
        while not pid.exists() and road.poll() is None:
            time.sleep(0.1)
        time.sleep(START)
        if road.poll() is not None:
            sys.exit(f"error: {case} ended too early:\n{road.stdout.read()}")
        subprocess.run(["callgrind_control", "-i", "on", pid.read_text().strip()], capture_output=True, check=True)
        told, _ = road.communicate()
    if not counted.exists():
        sys.exit(f"error: {case} could not be counted:\n{told}")
    entered, ran = counts(counted)
    calls = max((count for name, count in entered.items() if ANCHOR.search(name)), default=0)
    if calls < 100:
        sys.exit(f"error: {case}: {calls} entries of what answers a call; is it still called so?")
    # The loop of a thread is entered once, and runs for ever.
    return {name for name in entered | ran if entered[name] >= ENOUGH * calls or ran[name] >= calls}


def main() -> None:
    """Find them, and hold them against the list."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=lambda path: Path(path).resolve(), required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    there = functions(arguments.programs / "gatelodge")
    if arguments.write:
        found: dict[str, None] = {}
        with tempfile.TemporaryDirectory() as folder:
            for case in CASES:
                own = of_calls(arguments.programs, case, Path(folder)) & there.keys()
                found |= dict.fromkeys(sorted(own, key=lambda name: there[name].at))
                print(f"{case}: {len(own)} functions, {len(found)} so far")
        KEPT.write_text("".join(f"{name}\n" for name in found))
        print(f"{KEPT.name} is written; build again")
        return
    kept = KEPT.read_text().split()
    in_program = [there[name] for name in kept if name in there]
    near = side_by_side(in_program) if in_program else 0
    print(f"{len(kept)} functions are on the list, {len(in_program)} of them in the program, {near} side by side")
    if len(in_program) < MUST_BE_THERE * len(kept):
        sys.exit("error: too few are in the program: find out why, or write the list anew with --write")
    if near < MUST_BE_THERE * len(kept):
        sys.exit("error: too few are side by side: does the linker know `--symbol-ordering-file`?")


main()
