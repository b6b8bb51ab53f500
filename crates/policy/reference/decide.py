"""Decides one call under one policy, in the evaluation order of the specification.
A pure function: the same policy and call, `at` included, give the same decision.
"""

from collections import Counter
from datetime import datetime
from decimal import Decimal

import globs
from errors import pointer
from jsontext import digits_around_point
from limits import rate_counter
from load import ALWAYS, CARRIERS, CLIENT_METHODS, COMPLETION
from paths import MISMATCH, TRUE, conjunction, walk
from places import unsafe_uri
from schemas import satisfied

LEVELS = {"read": "low", "write": "medium", "execute": "high", "destructive": "critical",
          "financial": "critical", "unknown": "high"}
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
ONE = Decimal(1)


class Tally:
    """Counts evaluated conditions by (op, polarity, result), and reason codes."""

    def __init__(self):
        self.cells = Counter()
        self.codes = Counter()


class Refused(Exception):
    def __init__(self, code, rule):
        super().__init__(code)
        self.code, self.rule = code, rule


def decide(policy, call, tally=None):
    """Return the decision with its code, rule and charges."""
    try:
        answer = _decide(policy, call, tally)
    except Refused as refusal:
        answer = _answer("deny", refusal.rule, refusal.code)
    if tally:
        tally.codes[answer["code"] or answer["decision"]] += 1
    return answer


def _answer(decision, rule, code=None, charges=()):
    return {"decision": decision, "code": code, "rule": rule, "charges": list(charges)}


def _decide(policy, call, tally):
    if "tool" in call:
        return _decide_tool(policy, call, tally)
    if "resource" in call:
        block = _resource_block(policy, call["resource"])
        return _decide_visible(policy, call, block, {"uri": call["resource"]}, tally)
    if "prompt" in call:
        block = _visible(policy, policy.prompts, call["prompt"])
        return _decide_visible(policy, call, block, call.get("arguments", {}), tally)
    return _decide_method(policy, call)


# Which block applies.

def _visible(policy, blocks, name):
    """Return the block of a resource or prompt, None if `default: allow` allows it."""
    key = globs.find(blocks, name)
    if key is None and policy.default == "deny":
        raise Refused("not_listed", "/default")
    return blocks.get(key)


def _resource_block(policy, uri):
    if unsafe_uri(uri) and (uri not in policy.resources or globs.is_glob(uri)):
        raise Refused("denied", None)
    return _visible(policy, policy.resources, uri)


def _tool_block(policy, name, category):
    """Do steps 2 and 3."""
    for n, entry in enumerate(policy.hide):
        if globs.matches(entry, name):
            raise Refused("hidden", f"/hide/{n}")
    key = globs.find(policy.tools, name)
    if key is not None:
        return policy.tools[key]
    block = policy.categories.get(category)
    if block == "hide":
        raise Refused("hidden", pointer("categories", category))
    if block is None and policy.default == "deny":
        raise Refused("not_listed", "/default")
    return block


# Tools, resources and prompts.

def _decide_tool(policy, call, tally):
    name = call["tool"]
    accepted = call.get("accepted", "yes")
    category = call.get("category", "unknown")
    if accepted in ("new", "not_offered"):
        category = "unknown"
    block = _tool_block(policy, name, category)
    if accepted == "not_offered":
        raise Refused("not_offered", None)
    blocks = [b for b in (block, policy.all_tools) if b is not None]
    _not_denied(blocks)
    if accepted == "new":
        raise Refused("not_accepted", None)
    if accepted == "changed":
        raise Refused("definition_changed", None)
    arguments = call.get("arguments", {})
    tool = {"name": name, "category": category, "level": LEVELS[category]}
    world = _world(policy, call, arguments, tool)
    for each in blocks:
        if each.validate and not satisfied(call.get("input_schema"), arguments):
            raise Refused("invalid_arguments", each.pointer + "/validate_arguments")
        _check_predicates(each, world, tally)
    return _finish(blocks, block, world, call, name, tally)


def _decide_visible(policy, call, block, arguments, tally):
    blocks = [block] if block else []
    _not_denied(blocks)
    world = _world(policy, call, arguments, None)
    for each in blocks:
        _check_predicates(each, world, tally)
    return _finish(blocks, block, world, call, "", tally)


def _not_denied(blocks):
    for block in blocks:
        if block.action == "deny":
            raise Refused("denied", block.pointer)


def _world(policy, call, arguments, tool):
    """The values that paths refer to. A missing part is absent; missing arguments are an empty object."""
    world = {"args": arguments, "tool": tool, "server": call.get("server"),
             "grant": call.get("grant"), "client": call.get("client"), "time": None}
    if policy.uses_time:
        at = datetime.fromisoformat(call["at"].replace("Z", "+00:00")).astimezone(policy.zone)
        world["time"] = {"hour": Decimal(at.hour), "weekday": WEEKDAYS[at.weekday()],
                         "date": at.date().isoformat()}
    return world


def _holds(predicate, world, tally):
    answers = []
    for condition in predicate.conditions:
        answer = condition.answer(world)
        answers.append(answer)
        if tally:
            tally.cells[condition.cell + (answer,)] += 1
    answer = conjunction(answers)
    if answer == MISMATCH:
        raise Refused("type_mismatch", predicate.pointer)
    return answer == TRUE


def _check_predicates(block, world, tally):
    """Do steps 8 and 9 for one block."""
    for predicate in block.require:
        if not _holds(predicate, world, tally):
            raise Refused("require", predicate.pointer)
    for predicate in block.deny_if:
        if _holds(predicate, world, tally):
            raise Refused("deny_if", predicate.pointer)
    for predicate in block.approve_if:
        _holds(predicate, world, tally)  # at this step only mismatches matter


def _finish(blocks, block, world, call, name, tally):
    """Do steps 10 to 12."""
    charges = _charges(blocks, world["args"], call, name)
    for each in blocks:
        if each.action == "approve":
            return _answer("approve", each.pointer, None, charges)
        for predicate in each.approve_if:
            if _holds(predicate, world, None):
                return _answer("approve", predicate.pointer, None, charges)
    return _answer("allow", block.pointer if block else "/default", None, charges)


# Limits.

def _amount(limit, arguments):
    """Return the amount that a limit adds, or None if there is no valid amount."""
    if limit.amount is None:
        return ONE
    found = []
    walk(arguments, limit.amount, lambda v: found.append(v) or TRUE, MISMATCH, True)
    if not found or type(found[0]) is not Decimal or found[0] < 0:
        return None
    before, after = digits_around_point(found[0])
    return found[0] if before <= 18 and after <= 9 else None


def _charges(blocks, arguments, call, name):
    """Return the charges of the call, in the order of the limits that apply."""
    entries = []
    for limit in [limit for block in blocks for limit in block.all_limits()]:
        amount = _amount(limit, arguments)
        if amount is None:
            raise Refused("amount", limit.pointer)
        entries.append((rate_counter(limit, name), limit, amount))
    ruling = {}
    for counter, limit, _ in entries:
        if counter not in ruling or limit.max < ruling[counter].max:
            ruling[counter] = limit
    charges = []
    for counter, limit, amount in entries:
        if ruling[counter] is not limit:
            continue
        if amount > limit.max:
            raise Refused("limit", limit.pointer)
        scope = limit.scope
        if scope == "session" and call.get("session") is None:
            scope = "grant"
        charges.append({"rule": limit.pointer, "counter": counter, "scope": scope,
                        "window": limit.window, "align": limit.align,
                        "max": limit.max, "amount": amount})
    return charges


# Methods.

def _decide_method(policy, call):
    method = call["method"]
    if method in ALWAYS:
        return _answer("allow", None)
    if method in CARRIERS or method.startswith("tasks/"):
        raise Refused("not_listed", None)  # decided by their subject, which is not in the call
    if method == COMPLETION:
        return _decide_completion(policy, call)
    if method in CLIENT_METHODS:
        name = CLIENT_METHODS[method]
        return _word(policy, policy.client_requests, name, pointer("client_requests", name))
    key = method
    if policy.methods is not None and method not in policy.methods:
        fitting = [k for k in policy.methods if k.endswith("/*") and method.startswith(k[:-1])]
        key = max(fitting, key=len, default=method)
    return _word(policy, policy.methods, key, pointer("methods", key))


def _word(policy, words, key, where):
    if words is None and policy.default == "allow":
        return _answer("allow", "/default")
    if words is None or key not in words:
        raise Refused("not_listed", None)
    if words[key] == "deny":
        raise Refused("denied", where)
    return _answer("allow", where)


def _decide_completion(policy, call):
    reference = call.get("arguments", {}).get("ref")
    if type(reference) is not dict:
        raise Refused("not_listed", None)
    kind, name, uri = (reference.get(key) for key in ("type", "name", "uri"))
    if kind == "ref/prompt" and type(name) is str:
        block = _visible(policy, policy.prompts, name)
    elif kind == "ref/resource" and type(uri) is str:
        block = _resource_block(policy, uri)
    else:
        raise Refused("not_listed", None)
    _not_denied([block] if block else [])
    return _answer("allow", block.pointer if block else "/default")
