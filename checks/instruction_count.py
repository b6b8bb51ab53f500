#!/usr/bin/env python3
"""Counts the instructions of the steps of a call, so that a later change cannot slow them unseen.

    instruction_count.py --steps PROGRAM [--write]

Each step is run under `valgrind --tool=callgrind` with two numbers of repetitions; the difference is what the repetitions
take. Instructions are counted, not timed, so what else the machine does makes no difference. The ledger has threads of its
own, whose turns differ a little from run to run: of three counts the least is taken.

The counts are held against `bench/instruction_counts.json`. Fewer are welcome: `--write` keeps them.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

KEPT = Path(__file__).resolve().parent.parent / "bench/instruction_counts.json"
# What is run, how often, how many counts, and how far above what is kept a count may be.
STEPS = {
    "decide": (1_000, 3_000, 1, 1.05),
    "read": (1_000, 3_000, 1, 1.05),
    "ledger": (20, 120, 3, 1.05),
}


def counted(program: Path, step: str, times: int) -> int:
    """How many instructions the program takes that runs a step so often."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, step, str(times)]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", told.stderr)
    if told.returncode != 0 or not found:
        sys.exit(f"error: {step} could not be counted:\n{told.stderr}")
    return int(found[1])


def measured(program: Path, step: str) -> int:
    """How many instructions one step takes."""
    few, many, counts, _ = STEPS[step]
    return min((counted(program, step, many) - counted(program, step, few)) // (many - few) for _ in range(counts))


def main() -> None:
    """Count, and hold the counts against those that are kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    counts = {step: measured(arguments.steps, step) for step in STEPS}
    if arguments.write:
        KEPT.write_text(json.dumps(counts, indent=2) + "\n")
    kept = json.loads(KEPT.read_text())
    slower = []
    for step, count in counts.items():
        most = kept[step] * STEPS[step][3]
        print(f"{step}: {count:,} instructions, {kept[step]:,} are kept, at most {most:,.0f}")
        if count > most:
            slower.append(step)
    if slower:
        sys.exit(f"error: slower than they were: {', '.join(slower)}; find out why, or keep the new counts with --write")


main()
