"""Seeded cases: one policy document and calls for it, as JSON text, since the
spelling of numbers and strings is part of what is tested.
Run as a command it prints cases, one request line each.
"""

import random
import sys
from json.encoder import encode_basestring_ascii

from gen_calls import CallMaker
from gen_faults import plant
from gen_places import member, url, url_near
from gen_policy import PolicyMaker
from gen_values import chance, pick
from jsontext import utf8_string, write_json

CALLS = 40
FAULTY = 20  # one policy in this many has an inserted error
DOUBTFUL = 0.25  # probability of hosts that may or may not be valid


class Case:
    def __init__(self, policy, calls, fault=None, doubtful=False):
        self.policy = policy      # text
        self.calls = calls        # texts
        self.fault = fault        # kind of the inserted error, or None
        self.doubtful = doubtful  # it is not predicted whether it loads

    def line(self):
        return request_line(self.policy, self.calls)


def request_line(policy, calls):
    return '{"policy":' + policy + ',"calls":[' + ",".join(calls) + "]}\n"


def _escape_all(text):
    """Return the string with every character escaped."""
    units = text.encode("utf-16-be")
    return '"' + "".join("\\u%02x%02X" % (units[n], units[n + 1])
                         for n in range(0, len(units), 2)) + '"'


def _writer(rng):
    roll = rng.random()
    if roll < 0.5:
        return encode_basestring_ascii
    if roll < 0.94:
        return utf8_string
    return _escape_all


def _doubtful_case(rng):
    members = [member(rng) for _ in range(pick(rng, [1, 1, 2]))]
    condition = {"path": "args.url", "op": "host_in", "value": members}
    doc = {"version": "1", "default": "deny",
           "tools": {"t": {pick(rng, ["require", "deny_if", "approve_if"]): [condition]}}}
    caller = CallMaker(rng, doc, {})
    urls = [url_near(rng, members) if chance(rng, 0.8) else url(rng) for _ in range(10)]
    made = [write_json(caller.call_of("t", each), _writer(rng)) for each in urls]
    return Case(write_json(doc, _writer(rng)), made, doubtful=True)


def make_case(seed, index, calls=CALLS):
    """Return the case of this index. It depends only on seed and index."""
    rng = random.Random(f"{seed}/{index}")
    block, place = divmod(index, FAULTY)
    is_faulty = place == block % FAULTY  # a different position each time, so that each worker has some
    if not is_faulty and chance(rng, DOUBTFUL):
        return _doubtful_case(rng)
    maker = PolicyMaker(rng)
    doc = maker.document()
    fault = None
    if is_faulty:
        fault, faulty = plant(rng, doc, block)
        calls = 2  # a refused policy decides none
    caller = CallMaker(rng, doc, maker.paths)
    made = [write_json(caller.call(), _writer(rng)) for _ in range(calls)]
    return Case(write_json(faulty if fault else doc, _writer(rng)), made, fault)


if __name__ == "__main__":
    if len(sys.argv) != 3 or not sys.argv[2].isdigit():
        sys.exit("usage: python generate.py SEED COUNT")
    for n in range(int(sys.argv[2])):
        sys.stdout.write(make_case(sys.argv[1], n).line())
