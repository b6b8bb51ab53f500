"""Limits: windows, `max`, `rate_limit`, and the rules by which the limits of
one policy that share a counter have to agree.
"""

import re
from dataclasses import dataclass
from decimal import Decimal

import globs
from errors import LoadError, fields, need
from jsontext import digits_around_point, is_whole
from paths import STAR, PathError, parse_path

WORDS = ("minute", "hour", "day", "week", "month")
SECONDS_AS_WORD = {60: "minute", 3600: "hour", 86400: "day"}
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = 366 * 86400
SCOPES = ("grant", "session", "server", "organisation")
WHOLE = re.compile(r"[1-9][0-9]{0,17}\Z", re.ASCII)
WITH_UNIT = re.compile(r"([1-9][0-9]{0,11})([smhd])\Z", re.ASCII)


@dataclass
class Limit:
    pointer: str
    counter: str | None   # None: given by the called tool's name, see rate_counter
    window: object        # a word, or seconds as int
    max: Decimal
    scope: str
    align: str
    amount: tuple | None  # segments under `args`
    prefix: str = ""      # of a rate_limit's counter


def rate_counter(limit, tool):
    return limit.counter if limit.counter is not None else limit.prefix + tool + "_rate"


def _seconds(number, where):
    need(1 <= number <= LONGEST, where, "a window is 1 s to 366 d")
    return SECONDS_AS_WORD.get(int(number), int(number))


def read_window(value, where):
    if type(value) is Decimal:
        need(is_whole(value), where, "a window is a whole number of seconds")
        return _seconds(value, where)
    need(type(value) is str, where, "not a window")
    if value in WORDS:
        return value
    found = WITH_UNIT.match(value)
    need(found, where, "not a window")
    return _seconds(int(found.group(1)) * UNITS[found.group(2)], where)


def read_max(value, where, decimals):
    need(type(value) is Decimal and value > 0, where, "max is a number above 0")
    before, after = digits_around_point(value)
    need(before <= 18 and after <= 9, where, "max has too many digits")
    need(decimals or is_whole(value), where, "max of calls is whole")
    return value


def read_limit(doc, where):
    fields(doc, where, required=("counter", "window", "max"),
           optional=("scope", "amount", "increment_from", "align", "on_deny"))
    need(type(doc["counter"]) is str and doc["counter"], where, "counter is a name")
    need(type(doc.get("on_deny", "")) is str, where, "on_deny is text")
    need(not ("amount" in doc and "increment_from" in doc), where,
         "increment_from and amount cannot be used together")
    amount = None
    if "amount" in doc or "increment_from" in doc:
        amount = _read_amount(doc.get("amount", doc.get("increment_from")), where)
    window = read_window(doc["window"], where)
    scope = doc.get("scope", "grant")
    align = doc.get("align", "calendar")
    need(scope in SCOPES, where, "not a scope")
    need(align in ("calendar", "rolling"), where, "not an align")
    need(not (align == "rolling" and window == "month"), where, "month cannot roll")
    maximum = read_max(doc["max"], where, decimals=amount is not None)
    return Limit(where, doc["counter"], window, maximum, scope, align, amount)


def _read_amount(value, where):
    need(type(value) is str, where, "amount is a path")
    try:
        root, segments = parse_path(value)
    except PathError as fault:
        raise LoadError(f"{where}: {fault}") from None
    need(root == "args" and segments and STAR not in segments, where,
         "amount is a path under args without [*]")
    return segments


def read_rate_limit(value, where, prefix):
    if type(value) is str:
        count, slash, window = value.partition("/")
        need(slash and WHOLE.match(count), where, "rate_limit is like 10/minute")
        # The specification allows the same after the slash, so also a bare number of seconds.
        seconds = Decimal(window) if WHOLE.match(window) else window
        return Limit(where, None, read_window(seconds, where), Decimal(count),
                     "grant", "calendar", None, prefix)
    fields(value, where, required=("max", "window"), optional=("scope",))
    scope = value.get("scope", "grant")
    need(scope in SCOPES, where, "not a scope")
    return Limit(where, None, read_window(value["window"], where),
                 read_max(value["max"], where, decimals=False),
                 scope, "calendar", None, prefix)


def could_give(block, counter):
    """Return whether the rate_limit of the block uses this counter for some tool."""
    prefix = block.rate.prefix
    if not (counter.startswith(prefix) and counter.endswith("_rate")):
        return False
    if len(counter) < len(prefix) + len("_rate"):
        return False
    tool = counter[len(prefix):-len("_rate")]
    return block.kind != "tools" or globs.matches(block.key, tool)


def _agree(a, b):
    return (a.window, a.scope, a.align, a.amount is None) == \
           (b.window, b.scope, b.align, b.amount is None)


def _can_meet(a, b):
    """Return whether both blocks can apply to one call."""
    if a is b:
        return True
    kinds = {a.kind, b.kind}
    return "all_tools" in kinds and bool(kinds & {"tools", "categories"})


def check_counters(blocks):
    """Check that limits of one policy with the same counter agree."""
    named = [(block, limit) for block in blocks for limit in block.limits]
    for n, (block, limit) in enumerate(named):
        for other_block, other in named[n + 1:]:
            if limit.counter != other.counter:
                continue
            need(_agree(limit, other), other.pointer, "limits of one counter disagree")
            if limit.amount != other.amount:
                need(not _can_meet(block, other_block), other.pointer,
                     "limits that can meet name different amounts")
    for block in blocks:
        if block.rate is None:
            continue
        for other_block, limit in named:
            if could_give(block, limit.counter):
                need(other_block is not block, limit.pointer,
                     "a rate_limit of the same block gives this counter")
                need(_agree(block.rate, limit), limit.pointer,
                     "a rate_limit that gives this counter disagrees")
