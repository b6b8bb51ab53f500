"""Paths into a call: their grammar, and how a test is applied to the values of a
path, with the possible results and the two meanings of `[*]`.
"""

import json
import re

TRUE, FALSE, ABSENT, MISMATCH = "true", "false", "absent", "mismatch"
STAR = object()

NAME = re.compile(r'\.([^.\[\]"]+)')
INDEX = re.compile(r"\[(0|[1-9][0-9]*)\]", re.ASCII)
FIELDS = {
    "tool": {"name", "category", "level"},
    "server": {"name"},
    "grant": {"label", "labels"},
    "client": {"name", "version"},
    "time": {"hour", "weekday", "date"},
}


class PathError(ValueError):
    """The text is not a path of the language."""


def parse_path(text):
    """(root, segments): a segment is a key (str), an index (int) or STAR."""
    root = re.match(r'[^.\[\]"]*', text).group()
    if root != "args" and root not in FIELDS:
        raise PathError("unknown root")
    segments = []
    at = len(root)
    while at < len(text):
        name = NAME.match(text, at)
        index = INDEX.match(text, at)
        if name:
            segments.append(name.group(1))
            at = name.end()
        elif index:
            segments.append(int(index.group(1)))
            at = index.end()
        elif text.startswith("[*]", at):
            segments.append(STAR)
            at += 3
        elif text.startswith('["', at):
            try:
                key, at = json.JSONDecoder().raw_decode(text, at + 1)
            except ValueError:
                raise PathError("not a JSON string in brackets") from None
            if any("\ud800" <= c <= "\udfff" for c in key) or not text.startswith("]", at):
                raise PathError("not a JSON string in brackets")
            segments.append(key)
            at += 1
        else:
            raise PathError("not a segment")
    if root != "args":
        _check_field(root, segments)
    return root, tuple(segments)


def _check_field(root, segments):
    """Check the fields of roots other than `args`; all of them are scalars."""
    if not segments or segments[0] not in FIELDS[root]:
        raise PathError("unknown field of " + root)
    wanted = 2 if segments[0] == "labels" else 1
    if len(segments) != wanted or not all(isinstance(s, str) for s in segments):
        raise PathError("no such field of " + root)


def walk(node, segments, test, when_absent, every, at=0):
    """Apply `test` at the end of the path. With `every`, `[*]` means every element, as in `require`."""
    while True:
        if node is None:
            return when_absent
        if at == len(segments):
            return test(node)
        segment = segments[at]
        at += 1
        if segment is STAR:
            if type(node) is not list:
                return MISMATCH
            answers = [walk(child, segments, test, when_absent, every, at) for child in node]
            return all_of(answers) if every else any_of(answers)
        if type(segment) is str:
            if type(node) is not dict:
                return MISMATCH
            node = node.get(segment)
        else:
            if type(node) is not list:
                return MISMATCH
            node = node[segment] if segment < len(node) else None


def all_of(answers):
    """Every element, at least one: false over mismatch over absent over true."""
    if not answers or FALSE in answers:
        return FALSE
    if MISMATCH in answers:
        return MISMATCH
    return ABSENT if ABSENT in answers else TRUE


def any_of(answers):
    """Any element: mismatch over true; else absent if one is absent."""
    for answer in (MISMATCH, TRUE, ABSENT):
        if answer in answers:
            return answer
    return FALSE


def conjunction(answers):
    """The conditions of one predicate; without conditions it holds."""
    for answer in (FALSE, MISMATCH, ABSENT):
        if answer in answers:
            return answer
    return TRUE
