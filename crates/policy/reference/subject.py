#!/usr/bin/env python3
"""Serves the line protocol with this evaluator, to test the driver: one request
line `{"policy", "calls"}` in, one response line out.
"""

import sys

from evaluator import JsonError, LoadError, decide, load, read_json, write_json


def answer(line):
    try:
        request = read_json(line)
        policy = load(request["policy"])
    except (JsonError, LoadError):
        # A syntax error can only be in the policy: calls are well-formed.
        return {"load": "refused"}
    answers = []
    for call in request["calls"]:
        answers.append(decide(policy, call))
    return {"load": "ok", "answers": answers}


if __name__ == "__main__":
    for text in sys.stdin.buffer:
        print(write_json(answer(text.decode("utf-8"))), flush=True)
