"""Values for the generator, for each operator: a valid rule value, and call values
that give the wanted result. `OPERATORS` in `operators.py` has the same keys.
"""

from decimal import Decimal
from typing import Callable, NamedTuple

from gen_values import BAD_FILES, BAD_URLS, DIRECTORIES, FILES, GOOD_URLS, MEMBERS, REGEXES, STRINGS, \
    anything, chance, nudge, number, pick, respell, scalar, string
from jsontext import Raw


class Samples(NamedTuple):
    """How values for one operator are generated."""

    rule_value: Callable  # (rng): a valid rule value
    call_value: Callable  # (rng, rule value, hold): of the right type; should make it true or false
    wrong_value: Callable  # (rng, rule value): cannot be compared


def same(rng, value):
    """Return a value that is equal."""
    return respell(rng, value) if type(value) is Raw else value


def other(rng, value):
    """Return a value of the same type that is not equal."""
    if type(value) is Raw:
        return nudge(rng, value, chance(rng, 0.5))
    if type(value) is bool:
        return not value
    changed = pick(rng, [value + "x", value.upper(), value[1:], " " + value, string(rng)])
    return changed if changed != value else value + "\0"


def _any_wrong(rng, _value):
    return pick(rng, [number(rng), True, [], ["/"], {}, {"x": "y"}, string(rng)])


def _near_wrong(rng, value):
    """Return the value in another type, or wrapped, or any other wrong value."""
    if chance(rng, 0.5):
        if type(value) is Raw:
            return pick(rng, [str(value), [value], {"to": value}, True])
        if type(value) is str:
            return pick(rng, [[value], {"to": value}, Raw("1"), False])
        return pick(rng, ["true", Raw("1"), [value], {}])
    return _any_wrong(rng, value)


def _listed(wrong, part):
    """Return a function that often picks from a list of values that cannot be compared."""
    return lambda rng, value: pick(rng, wrong) if chance(rng, part) else _any_wrong(rng, value)


def _not_text_or_list(rng, value):
    return pick(rng, [number(rng), True, {}, {"a": value}])


def _scalars(rng):
    size = 1 + int(rng.random() * 3)
    if chance(rng, 0.5):
        kind = pick(rng, [string, number])
        return [kind(rng) for _ in range(size)]
    return [scalar(rng) for _ in range(size)]


def _equality(wanted):
    def call_value(rng, value, hold):
        return same(rng, value) if hold is wanted else other(rng, value)
    return Samples(scalar, call_value, _near_wrong)


def _membership(wanted):
    def call_value(rng, value, hold):
        member = pick(rng, value)
        return same(rng, member) if hold is wanted else other(rng, member)

    def wrong_value(rng, value):
        return pick(rng, [list(value), {}, [], number(rng), string(rng), True])
    return Samples(_scalars, call_value, wrong_value)


def _order(is_greater, or_equal):
    def call_value(rng, value, hold):
        if chance(rng, 0.4) and or_equal is hold:
            return respell(rng, value)
        return nudge(rng, value, is_greater is hold)
    return Samples(number, call_value, _near_wrong)


def _containing(rng, value, hold):
    if type(value) is str and chance(rng, 0.5):
        return string(rng) + value + string(rng) if hold else value[1:]
    rest = [pick(rng, [anything(rng), [value], other(rng, value)]) for _ in range(2)]
    return rest[:1] + [same(rng, value)] + rest[1:] if hold else rest[:int(rng.random() * 3)]


def _starting(rng, value, hold):
    return value + string(rng) if hold else string(rng) + value


def _ending(rng, value, hold):
    return string(rng) + value if hold else value + string(rng)


def _matching(rng, value, hold):
    fitting = [r for r in REGEXES if r[0] == value]
    return pick(rng, (fitting[0][1] if hold else fitting[0][2]) or STRINGS)


def _of_length(rng, value, hold):
    size = max(0, int(Decimal(value)) + (0 if hold else 1) + pick(rng, [0, 0, -1 if hold else 1]))
    if chance(rng, 0.6):
        return "".join(pick(rng, ["a", "🙂", "é", "\u0301"]) for _ in range(size))
    return [anything(rng, 2) for _ in range(size)]


def _subset(rng, members, all_in):
    size = 1 + int(rng.random() * 3)
    result = [same(rng, pick(rng, members)) for _ in range(size)]
    if not all_in:
        extra = pick(rng, [other(rng, pick(rng, members)), [pick(rng, members)], None, {}])
        result.insert(int(rng.random() * (size + 1)), extra)
        if chance(rng, 0.2):
            return []
    return result


def _file(rng, value, hold):
    if hold and chance(rng, 0.5):
        return pick(rng, ["", "/", "//"]) + value + pick(rng, ["", "/", "/f", "/x/../y"])
    return pick(rng, FILES)


def _url(rng, value, hold):
    if chance(rng, 0.5):
        host = pick(rng, value).replace("*", pick(rng, ["a", "a.b"]) if hold else "")
        return pick(rng, ["https://", "http://"]) + host + pick(rng, ["", "/", "/a?b", "#c"])
    return pick(rng, GOOD_URLS)


SAMPLES = {
    "eq": _equality(True),
    "neq": _equality(False),
    "in": _membership(True),
    "not_in": _membership(False),
    "lt": _order(is_greater=False, or_equal=False),
    "lte": _order(is_greater=False, or_equal=True),
    "gt": _order(is_greater=True, or_equal=False),
    "gte": _order(is_greater=True, or_equal=True),
    "contains": Samples(scalar, _containing, _not_text_or_list),
    "starts_with": Samples(string, _starting, _any_wrong),
    "ends_with": Samples(string, _ending, _any_wrong),
    "regex": Samples(lambda rng: pick(rng, REGEXES)[0], _matching, _any_wrong),
    "exists": Samples(lambda rng: chance(rng, 0.5), lambda rng, _value, _hold: anything(rng), _any_wrong),
    "length_lte": Samples(lambda rng: Raw(pick(rng, ["0", "1", "2", "3", "5", "1e1"])), _of_length,
                          _not_text_or_list),
    "subset_of": Samples(_scalars, _subset,
                         lambda rng, value: pick(rng, [pick(rng, value), {}, string(rng), Raw("0")])),
    "path_within": Samples(lambda rng: pick(rng, DIRECTORIES), _file, _listed(BAD_FILES, 0.6)),
    "host_in": Samples(lambda rng: [pick(rng, MEMBERS) for _ in range(1 + int(rng.random() * 3))], _url,
                       _listed(BAD_URLS, 0.7)),
}


def rule_value(rng, op):
    """Return a valid rule value for the operator."""
    return SAMPLES[op].rule_value(rng)


def call_value(rng, op, value, hold):
    """Return a value of the right type that should make the operator true or false."""
    return SAMPLES[op].call_value(rng, value, hold)


def wrong_value(rng, op, value):
    """Return a value that the operator cannot compare."""
    return SAMPLES[op].wrong_value(rng, value)
