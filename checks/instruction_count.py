#!/usr/bin/env python3
"""Counts the instructions of the steps of a call, so that a later change cannot slow them down unnoticed.

    instruction_count.py --program PROGRAM [--write]

Each step runs under `valgrind --tool=callgrind` with two numbers of repetitions; the difference is the cost of the
repetitions. Instructions are counted instead of time, so other load on the machine does not matter. The ledger has threads
of its own, whose scheduling differs a little from run to run: the least of three counts applies.

The counts are compared with `bench/instruction_counts.json`; `--write` updates it.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

COUNTS_FILE = Path(__file__).resolve().parent.parent / "bench/instruction_counts.json"
# Step: the two numbers of repetitions, the number of counts, and the allowed ratio to the stored count.
STEPS = {
    "decide": (1_000, 3_000, 1, 1.05),
    "read": (1_000, 3_000, 1, 1.05),
    "ledger": (20, 120, 3, 1.05),
}


def counted(program: Path, step: str, times: int) -> int:
    """Return the instructions of a run with `times` repetitions of a step."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, step, str(times)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not found:
        sys.exit(f"error: {step} cannot be counted:\n{run.stderr}")
    return int(found[1])


def measured(program: Path, step: str) -> int:
    """Return the instructions of one step."""
    few, many, counts, _ = STEPS[step]
    return min((counted(program, step, many) - counted(program, step, few)) // (many - few) for _ in range(counts))


def main() -> None:
    """Count instructions and compare them with the stored counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, required=True)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    counts = {step: measured(arguments.program, step) for step in STEPS}
    if arguments.write:
        COUNTS_FILE.write_text(json.dumps(counts, indent=2) + "\n")
    stored = json.loads(COUNTS_FILE.read_text())
    slower = []
    for step, count in counts.items():
        most = stored[step] * STEPS[step][3]
        print(f"{step}: {count:,} instructions, stored {stored[step]:,}, at most {most:,.0f}")
        if count > most:
            slower.append(step)
    if slower:
        sys.exit(f"error: more instructions than before: {', '.join(slower)}; find out why, or store the new counts with --write")


main()
