"""The operators: which `value` each takes, its result for one value that is present,
and its result for an absent one. Numbers are Decimals, so comparison is exact.
"""

from decimal import Decimal

import re2

from jsontext import is_whole
from paths import ABSENT, FALSE, MISMATCH, TRUE
from places import host_is_member, host_member, normal_path, url_host

SCALARS = (str, Decimal, bool)


class OperatorError(ValueError):
    """Unknown operator, or invalid value for it."""


def _need(good, what):
    if not good:
        raise OperatorError(what)


def _scalar(value):
    _need(type(value) in SCALARS, "a scalar is needed")


def _scalars(value):
    _need(type(value) is list and value, "a list that is not empty is needed")
    for member in value:
        _scalar(member)


def _same(a, b):
    # Compare the types first: in Python True equals 1.
    return type(a) is type(b) and a == b


def _answer(flag):
    return TRUE if flag else FALSE


def _membership(members, wanted):
    types = {type(member) for member in members}

    def test(value):
        if type(value) not in types:
            return MISMATCH
        return _answer(any(_same(value, m) for m in members) is wanted)
    return test


def _eq(value):
    _scalar(value)
    return _membership([value], True)


def _neq(value):
    _scalar(value)
    return _membership([value], False)


def _in(value):
    _scalars(value)
    return _membership(value, True)


def _not_in(value):
    _scalars(value)
    return _membership(value, False)


def _ordering(compare):
    def make(value):
        _need(type(value) is Decimal, "a number is needed")
        return lambda v: _answer(compare(v, value)) if type(v) is Decimal else MISMATCH
    return make


def _contains(value):
    _scalar(value)

    def test(v):
        if type(v) is list:
            return _answer(any(_same(element, value) for element in v))
        if type(v) is str and type(value) is str:
            return _answer(value in v)
        return MISMATCH
    return test


def _of_string(check):
    def make(value):
        _need(type(value) is str, "a string is needed")
        return lambda v: _answer(check(v, value)) if type(v) is str else MISMATCH
    return make


def _regex(value):
    _need(type(value) is str, "a string is needed")
    options = re2.Options()
    options.log_errors = False
    try:
        pattern = re2.compile(value, options)
    except re2.error:
        raise OperatorError("not a regex") from None
    return lambda v: _answer(pattern.search(v)) if type(v) is str else MISMATCH


def _exists(value):
    _need(type(value) is bool, "a bool is needed")
    return lambda v: _answer(value)


def _exists_absent(value):
    return _answer(not value)


def _length_lte(value):
    _need(type(value) is Decimal and value >= 0 and is_whole(value),
          "a whole number is needed")
    return lambda v: _answer(len(v) <= value) if type(v) in (str, list) else MISMATCH


def _subset_of(value):
    _scalars(value)

    def test(v):
        if type(v) is not list:
            return MISMATCH
        return _answer(v and all(any(_same(e, m) for m in value) for e in v))
    return test


def _path_within(value):
    _need(type(value) is str, "a string is needed")
    directory = normal_path(value)
    _need(directory is not None, "an absolute directory is needed")

    def test(v):
        path = normal_path(v) if type(v) is str else None
        if path is None:
            return MISMATCH
        return _answer(path[:len(directory)] == directory)
    return test


def _host_in(value):
    _need(type(value) is list and value, "a list that is not empty is needed")
    members = [host_member(m) if type(m) is str else None for m in value]
    _need(None not in members, "a member is [*.]host[:port]")

    def test(v):
        url = url_host(v) if type(v) is str else None
        return MISMATCH if url is None else _answer(host_is_member(url, members))
    return test


# The order is that of the documentation.
OPERATORS = {
    "eq": _eq,
    "neq": _neq,
    "in": _in,
    "not_in": _not_in,
    "lt": _ordering(lambda a, b: a < b),
    "lte": _ordering(lambda a, b: a <= b),
    "gt": _ordering(lambda a, b: a > b),
    "gte": _ordering(lambda a, b: a >= b),
    "contains": _contains,
    "starts_with": _of_string(str.startswith),
    "ends_with": _of_string(str.endswith),
    "regex": _regex,
    "exists": _exists,
    "length_lte": _length_lte,
    "subset_of": _subset_of,
    "path_within": _path_within,
    "host_in": _host_in,
}
# Operators for which an absent value is not a result of its own.
ABSENT_RESULTS = {"exists": _exists_absent}


def absent_result(op, value):
    """Return the result of an operator for a value that is absent or null."""
    return ABSENT_RESULTS[op](value) if op in ABSENT_RESULTS else ABSENT
