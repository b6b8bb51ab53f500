"""Compares a program with the evaluator on random policies and calls.

    python compare.py --pairs N --seed S --jobs J --subject PATH [--min-count M] [--json]

Exit 0: no difference and every cell has enough hits; 1: a difference or too few hits; 2: usage error;
3: the program died, hung or broke the protocol.
"""

import argparse
import json
import multiprocessing
import os
import queue
import sys
import time
from collections import Counter

import table
from gen_faults import KINDS
from generate import CALLS
from worker import work

MOST = 20  # maximum number of differences shown


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--pairs", type=int, required=True, help="number of calls to decide")
    parser.add_argument("--seed", default="1", help="cases are the same for the same seed")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--subject", required=True, help="the program to compare with")
    parser.add_argument("--min-count", type=int, default=1, help="hits each cell must have")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    found = parser.parse_args()  # exits with 2 on a usage error
    if found.pairs < 1 or found.jobs < 1 or found.min_count < 0:
        parser.error("--pairs and --jobs are at least 1, --min-count at least 0")
    if not os.access(found.subject, os.X_OK) or os.path.isdir(found.subject):
        parser.error(f"{found.subject} is not a program")
    return found


def progress(done, total, started, last=False):
    taken = max(time.monotonic() - started, 1e-9)
    rate = done / taken
    left = max(0, total - done) / rate if rate else 0
    print(f"\r{done:,} of {total:,} pairs, {rate:,.0f} a second, {left:,.0f} s left   ",
          end="\n" if last else "", file=sys.stderr, flush=True)


def run(options):
    """Return (counts, codes, cells, faults, differences, error)."""
    jobs = min(options.jobs, -(-options.pairs // CALLS))
    reports = multiprocessing.Queue()
    subject = os.path.abspath(options.subject)
    workers = [multiprocessing.Process(target=work, args=(
        n, jobs, subject, options.seed, -(-options.pairs // jobs), reports,
        -(-MOST // jobs))) for n in range(jobs)]
    for worker in workers:
        worker.start()
    totals = [Counter() for _ in range(4)]
    differences, error, running = [], None, jobs
    started = time.monotonic()
    shown = 0.0
    while running and error is None:
        try:
            kind, *content = reports.get(timeout=5)
        except queue.Empty:
            if not any(worker.is_alive() for worker in workers):
                error = "a worker ended without a report"
            continue
        if kind == "counts":
            for total, part in zip(totals, content):
                total.update(part)
            if time.monotonic() - shown > 1:
                shown = time.monotonic()
                progress(totals[0]["pairs"], options.pairs, started)
        elif kind == "difference":
            differences.append(content[0])
        elif kind == "error":
            error = content[0]
        else:
            running -= 1
    progress(totals[0]["pairs"], options.pairs, started, last=True)
    for worker in workers:
        if error is not None:
            worker.terminate()
        worker.join()
    return (*totals, differences[:MOST], error)


def show_difference(number, difference):
    print(f"difference {number}: seed {difference['seed']}, policy {difference['policy_index']}, "
          f"call {difference['call_index']}"
          + (f", inserted error: {difference['fault']}" if difference["fault"] else ""))
    for key in ("note", "policy", "call"):
        if difference.get(key) is not None:
            print(f"  {key + ':':<11}{difference[key]}")
    for key in ("evaluator", "subject"):
        print(f"  {key + ':':<11}{json.dumps(difference[key], ensure_ascii=False)}")


def main():
    options = arguments()
    counts, codes, cells, faults, differences, error = run(options)
    if error is not None:
        print(f"error: {error}", file=sys.stderr)
        return 3
    # After a difference the run ends early, so the counts mean nothing.
    thin = [] if differences else table.thin(codes, cells, KINDS, faults, options.min_count)
    if options.json:
        print(json.dumps({
            "pairs": counts["pairs"], "policies": counts["policies"],
            "refused": counts["refused"], "differences": differences, "codes": codes,
            "cells": {" ".join(cell): hits for cell, hits in sorted(cells.items())},
            "faults": faults, "thin": thin,
            "impossible": {**{" ".join(c): why for c, why in table.IMPOSSIBLE_CELLS.items()},
                           **table.IMPOSSIBLE_CODES}}, ensure_ascii=False))
    else:
        for number, difference in enumerate(differences, 1):
            show_difference(number, difference)
        print(table.text(codes, cells, faults))
        print(f"\n{counts['pairs']:,} pairs, {counts['policies']:,} policies "
              f"({counts['refused']:,} refused), {len(differences)} differences")
        for line in thin:
            print("too few: " + line)
    return 1 if differences or thin else 0


if __name__ == "__main__":
    sys.exit(main())
