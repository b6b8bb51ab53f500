#!/usr/bin/env python3
"""Compares our JSON reader with those of CPython and Node, so that a policy evaluates what a server reads.

Generates corner cases from a seed. If our reader accepts a text, both others must read the same tree;
if it is a request, they must read that tree from the bytes that we forward. If both others accept a
text and we refuse it, this script must find the reason in the text.

    json_differential.py [--count N] [--seed S]   checks N texts
    json_differential.py --self-test              tests that deliberate disagreements are found
"""

import argparse
import collections
import json
import multiprocessing
import os
import random
import subprocess
import sys
import tempfile
import unicodedata
from decimal import Decimal
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from json_corner_cases import CLASSES, make  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
ROUND = 50_000

MAX_BYTES, MAX_NESTING_LEVELS, MAX_MEMBERS, MAX_DIGITS = 4 << 20, 64, 10_000, 1_000

# Members whose values are evaluated, by location.
ENVELOPE = {"jsonrpc", "id", "method", "params", "result", "error"}
PARAMS = {"_meta", "name", "arguments", "uri", "cursor", "ref", "taskId", "requestState", "inputResponses"}


# ---- CPython's reading -------------------------------------------------------------------------

def no_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def number(text: str) -> dict:
    return {"n": text}


def read(text: bytes) -> object:
    """Return the tree of a text, with the spelling of numbers and the order of members. Raises ValueError."""
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=lambda pairs: {"o": pairs},
                          parse_int=number, parse_float=number, parse_constant=no_constant)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def written(tree: object) -> str:
    return json.dumps(tree, separators=(",", ":"))


# ---- reasons for refusing what others accept -----------------------------------------------------

def values(tree: object, depth: int = 0):
    """Yield each value with its nesting depth."""
    yield tree, depth
    if isinstance(tree, list):
        for element in tree:
            yield from values(element, depth + 1)
    elif isinstance(tree, dict) and "o" in tree:
        for _, member in tree["o"]:
            yield from values(member, depth + 1)


def texts(tree: object):
    for value, _ in values(tree):
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict) and "o" in value:
            yield from (key for key, _ in value["o"])


def objects(tree: object):
    return (value["o"] for value, _ in values(tree) if isinstance(value, dict) and "o" in value)


def numbers(tree: object):
    return (value["n"] for value, _ in values(tree) if isinstance(value, dict) and "n" in value)


def is_long(text: str) -> bool:
    mantissa, _, exponent = text.lower().partition("e")
    fits = not exponent or -(1 << 63) <= int(exponent) < 1 << 63
    return sum(map(str.isdigit, mantissa)) > MAX_DIGITS or not fits


def is_large(text: str) -> bool:
    mantissa, _, exponent = text.lower().partition("e")
    if len(exponent) > 8:
        return not exponent.startswith("-") and any(digit in "123456789" for digit in mantissa)
    return Decimal(text).copy_abs() > Decimal("1e308")


def is_deep(tree: object) -> bool:
    return any(depth >= MAX_NESTING_LEVELS for value, depth in values(tree) if isinstance(value, (list, dict)) and value != {}
               and not (isinstance(value, dict) and "n" in value))


# Reasons to refuse a text that others accept, and how to find them in its tree.
REASONS = {
    "repeated-key": lambda text, tree: any(len({key for key, _ in pairs}) < len(pairs) for pairs in objects(tree)),
    "lone-surrogate": lambda text, tree: any("\ud800" <= c <= "\udfff" for string in texts(tree) for c in string),
    "too-deep": lambda text, tree: is_deep(tree),
    "long-number": lambda text, tree: any(map(is_long, numbers(tree))),
    "large-number": lambda text, tree: any(map(is_large, numbers(tree))),
    "too-many-members": lambda text, tree: any(len(pairs) > MAX_MEMBERS for pairs in objects(tree)),
    "too-large": lambda text, tree: len(text) > MAX_BYTES,
}

# All error kinds of our reader; each must occur in a run.
KINDS = [*REASONS, "empty", "not-utf-8", "byte-order-mark", "ended", "expected", "trailing-comma", "trailing-text",
         "comment", "open-comment", "control-character", "bad-escape", "bad-number"]


# ---- lenient readers -----------------------------------------------------------------------------

def lenient(key: str) -> str:
    """Normalize a key like a reader that ignores case, compatibility forms, separators and invisible characters."""
    normalized = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", key).casefold())
    return "".join(c for c in normalized if unicodedata.category(c) not in ("Cc", "Cf") and c not in "_- ")


LENIENT_ENVELOPE = {lenient(key): key for key in ENVELOPE}
LENIENT_PARAMS = {lenient(key): key for key in PARAMS}


def mistakable(request: dict) -> list[str]:
    """Return members of a request that a lenient reader takes for an evaluated one."""
    found = [key for key, _ in request["o"] if LENIENT_ENVELOPE.get(lenient(key), key) != key]
    params = dict(request["o"]).get("params")
    if isinstance(params, dict) and "o" in params:
        found += [key for key, _ in params["o"] if LENIENT_PARAMS.get(lenient(key), key) != key]
    return found


# ---- the comparison ------------------------------------------------------------------------------

def run(command: list[str], lines: list[str]) -> list[str]:
    """Return one answer per line of input. Uses files, so that neither side blocks the other."""
    with tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("w+") as answered:
        asked.writelines(f"{line}\n" for line in lines)
        asked.seek(0)
        done = subprocess.run(command, stdin=asked, stdout=answered, text=True)
        if done.returncode != 0:
            sys.exit(f"error: {' '.join(command)} failed")
        answered.seek(0)
        answers = answered.read().split("\n")[:-1]
    if len(answers) != len(lines):
        sys.exit(f"error: {' '.join(command)} gave {len(answers)} answers to {len(lines)} lines")
    return answers


Claim = collections.namedtuple("Claim", "text kind tree is_sent")


def claims(text: bytes, answer: str) -> list[Claim]:
    """Return the claims of our reader about a text, and about the bytes that are forwarded."""
    said, _, rest = answer.partition(" ")
    if said == "refused":
        return [Claim(text, rest, "", False)]
    tree, *message = rest.split("\t")
    found = [Claim(text, "", tree, False)]
    if len(message) == 2:
        found.append(Claim(bytes.fromhex(message[0]), "", message[1], True))
    return found


def evaluate_claim(claim: Claim, node: str) -> str | None:
    """Return the error of a claim, or None; `node` is the letter that json_differential.js printed."""
    try:
        tree, refused = read(claim.text), False
    except ValueError:
        tree, refused = None, True
    if claim.kind:
        both_accept = not refused and node == "a"
        if both_accept and not REASONS.get(claim.kind, lambda *_: False)(claim.text, tree):
            return f"refused as {claim.kind}, although CPython and Node accept it, without a reason in the text"
        return None
    if refused:
        return "accepted, alalthough CPython refuses it"
    if node == "r":
        return "accepted, although Node refuses it"
    if written(tree) != claim.tree:
        return f"CPython reads\n    {written(tree)[:1000]}\n  but we read\n    {claim.tree[:1000]}"
    if node != "s":
        return f"Node reads another tree than we do\n    {claim.tree[:1000]}"
    if claim.is_sent and (found := mistakable(tree)):
        return f"forwarded with {found}, which a lenient reader takes for evaluated members"
    return None


def compare(texts_: list[bytes], answers: list[str]) -> tuple[list[str], collections.Counter]:
    """Return findings, and how often each outcome occurred."""
    all_claims = [claim for text, answer in zip(texts_, answers) for claim in claims(text, answer)]
    node = run(["node", str(ROOT / "checks/json_differential.js")], [f"{c.text.hex()}\t{c.tree}" for c in all_claims])
    findings, seen = [], collections.Counter()
    for claim, letter in zip(all_claims, node):
        if wrong := evaluate_claim(claim, letter):
            findings.append(f"{claim.text[:300]!r}\n  {wrong}")
        seen["sent on" if claim.is_sent else f"refused: {claim.kind}" if claim.kind else "accepted"] += 1
        if claim.kind in REASONS and letter == "a":
            seen[f"accepted by others: {claim.kind}"] += 1
    return findings, seen


# ---- a run ---------------------------------------------------------------------------------------

def build() -> list[str]:
    subprocess.run(["cargo", "build", "--quiet", "--profile", "quick", "--locked", "--workspace", "--example", "reading"],
                   cwd=ROOT, check=True)
    return [str(TARGET / "quick/examples/reading")]


def one_round(ours: list[str], seed: str, count: int) -> tuple[list[str], collections.Counter]:
    made = make(random.Random(seed), count)
    answers = run(ours, [text.hex() for _, text in made])
    findings, seen = compare([text for _, text in made], answers)
    for (name, text), answer in zip(made, answers):
        accepted = answer.startswith("tree")
        seen[f"class {name}: {'accepted' if accepted else 'refused'}"] += 1
        if CLASSES[name].accepted not in (None, accepted):
            findings.append(f"{text[:300]!r}\n  generated as `{name}`, but the answer is {answer[:200]}")
    return findings, seen


def missing_outcomes(seen: collections.Counter) -> list[str]:
    """Return the outcomes that did not occur; without them the run proves too little."""
    wanted = ["accepted", "sent on"]
    wanted += [f"refused: {kind}" for kind in KINDS]
    wanted += [f"accepted by others: {kind}" for kind in REASONS]
    for name, kind in CLASSES.items():
        wanted += [f"class {name}: accepted"] if kind.accepted is not False else []
        wanted += [f"class {name}: refused"] if kind.accepted is not True else []
    return [f"never met: {name}" for name in wanted if not seen[name]]


def check(count: int, seed: int) -> None:
    ours = build()
    findings, seen = [], collections.Counter()
    rounds = [(ours, f"{seed}/{start}", min(ROUND, count - start)) for start in range(0, count, ROUND)]
    with multiprocessing.Pool() as workers:
        for found, met in workers.starmap(one_round, rounds, chunksize=1):
            findings += found
            seen += met
    for name, times in sorted(seen.items()):
        print(f"{times:9} {name}")
    findings += missing_outcomes(seen)
    if findings:
        sys.exit("\n".join(findings[:20]) + f"\nerror: {len(findings)} findings, seed {seed}")
    print(f"json-differential: {count} texts, seed {seed}: no disagreement")


# ---- self-test -----------------------------------------------------------------------------------

# A text, a wrong answer about it, and part of the expected finding.
DELIBERATE = [
    (b'{"a":1,"b":2}', 'tree {"o":[["b",{"n":"2"}],["a",{"n":"1"}]]}', "CPython reads"),
    (b"[1.10]", 'tree [{"n":"1.1"}]', "CPython reads"),
    (b'["\\u0061"]', 'tree ["b"]', "CPython reads"),
    (b'{"a":1,"a":2}', 'tree {"o":[["a",{"n":"1"}],["a",{"n":"2"}]]}', "Node reads another"),
    (b"[1,]", 'tree [{"n":"1"}]', "although CPython refuses it"),
    (b'{"a":1}', "refused repeated-key", "without a reason in the text"),
    (b'{"a":1}', "refused expected", "without a reason in the text"),
    (b'["\\ud83d\\ude00"]', "refused lone-surrogate", "without a reason in the text"),
    (b"[1e308]", "refused large-number", "without a reason in the text"),
    (b"[[[]]]", "refused too-deep", "without a reason in the text"),
    (b"[]", 'tree []\t' + b'{"Method":1}'.hex() + '\t{"o":[["Method",{"n":"1"}]]}', "a lenient reader takes"),
    (b"[]", 'tree []\t' + b'{"params":{"ta\xc5\xbfkId":1}}'.hex()
     + '\t{"o":[["params",{"o":[["ta\\u017fkId",{"n":"1"}]]}]]}', "a lenient reader takes"),
    (b"[]", 'tree []\t' + b'{"id":2}'.hex() + '\t{"o":[["id",{"n":"1"}]]}', "CPython reads"),
]

TRUE = [
    (b'{"a":[1.10,-0,"\\u00e9",null]}', 'tree {"o":[["a",[{"n":"1.10"},{"n":"-0"},"\\u00e9",null]]]}'),
    (b'{"a":1,"\\u0061":2}', "refused repeated-key"),
    (b'{"__proto__":1,"1":2,"0":3}', 'tree {"o":[["__proto__",{"n":"1"}],["1",{"n":"2"}],["0",{"n":"3"}]]}'),
    (b"[1e999]", "refused large-number"),
    (b"nul", "refused expected"),
]


def self_test() -> None:
    faults = []
    if findings := compare(*map(list, zip(*TRUE)))[0]:
        faults.append(f"true answers have findings: {findings}")
    for text, answer, expected in DELIBERATE:
        findings, _ = compare([text], [answer])
        if len(findings) != 1 or expected not in findings[0]:
            faults.append(f"answered {answer!r} for {text!r}\n  expected: {expected}\n  found: {findings}")
    nothing = missing_outcomes(collections.Counter())
    if len(nothing) < len(CLASSES) + len(KINDS):
        faults.append("an empty run passes")
    if faults:
        sys.exit("\n".join(faults))
    print(f"json-differential: {len(DELIBERATE)} deliberate disagreements found")


def main() -> None:
    parser = argparse.ArgumentParser(description="our JSON reader against CPython's and Node's")
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    self_test()
    if not arguments.self_test:
        check(arguments.count, arguments.seed)


if __name__ == "__main__":
    main()
