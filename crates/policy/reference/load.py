"""Turns a document into a policy. All errors of a document are found here, so
deciding a call never fails.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

import globs
from errors import LoadError, fields, need, pointer
from limits import check_counters, read_limit, read_rate_limit
from operators import OPERATORS, OperatorError, absent_result
from paths import PathError, parse_path, walk

CATEGORIES = ("read", "write", "execute", "destructive", "financial", "unknown")
ACTIONS = ("allow", "deny", "approve")
POLARITIES = ("require", "deny_if", "approve_if")
ALWAYS = frozenset("""initialize notifications/initialized ping server/discover tools/list
    resources/list resources/templates/list prompts/list logging/setLevel subscriptions/listen
    notifications/cancelled notifications/progress notifications/roots/list_changed""".split())
# Methods that are decided by their subject, not by their own name.
CARRIERS = frozenset("""tools/call resources/read resources/subscribe resources/unsubscribe
    prompts/get""".split())
COMPLETION = "completion/complete"
CLIENT_METHODS = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation",
                  "roots/list": "roots"}


class Condition:
    """One condition in one polarity."""

    def __init__(self, doc, where, polarity, inside):
        fields(doc, where, required=("path", "op", "value"))
        need(type(doc["path"]) is str, where, "path is text")
        need(type(doc["op"]) is str and doc["op"] in OPERATORS, where, "unknown op")
        try:
            self.root, self.segments = parse_path(doc["path"])
            self.test = OPERATORS[doc["op"]](doc["value"])
        except (PathError, OperatorError) as fault:
            raise LoadError(f"{where}: {fault}") from None
        need(self.root != "tool" or inside == "tools", where, "tool.* is for tools only")
        self.cell = (doc["op"], polarity)
        self.every = polarity == "require"
        self.when_absent = absent_result(doc["op"], doc["value"])

    def answer(self, world):
        return walk(world[self.root], self.segments, self.test, self.when_absent, self.every)


@dataclass
class Predicate:
    pointer: str
    conditions: list


@dataclass
class Block:
    pointer: str
    kind: str   # tools, categories, all_tools, resources or prompts
    key: str
    action: str = "allow"
    require: list = field(default_factory=list)
    deny_if: list = field(default_factory=list)
    approve_if: list = field(default_factory=list)
    limits: list = field(default_factory=list)
    rate: object = None
    validate: bool = False

    def all_limits(self):
        return self.limits + ([self.rate] if self.rate else [])


@dataclass
class Policy:
    default: str
    hide: list
    all_tools: Block | None
    categories: dict    # to a Block or the word "hide"
    tools: dict
    resources: dict
    prompts: dict
    methods: dict | None
    client_requests: dict | None
    zone: object
    uses_time: bool = False


def _read_predicate(doc, where, polarity, inside):
    need(type(doc) is dict, where, "an object is needed")
    need(type(doc.get("on_deny", "")) is str, where, "on_deny is text")
    if "conditions" in doc:
        fields(doc, where, required=("conditions",), optional=("on_deny",))
        need(type(doc["conditions"]) is list, where, "conditions is a list")
        found = [Condition(c, f"{where}/conditions/{n}", polarity, inside)
                 for n, c in enumerate(doc["conditions"])]
    else:
        bare = {key: value for key, value in doc.items() if key != "on_deny"}
        found = [Condition(bare, where, polarity, inside)]
    return Predicate(where, found)


def _read_block(doc, where, kind, key):
    inside = "tools" if kind in ("tools", "categories", "all_tools") else kind
    tool_only = ("rate_limit", "validate_arguments") if inside == "tools" else ()
    fields(doc, where, optional=("action", "reason", "limits") + POLARITIES + tool_only)
    block = Block(where, kind, key)
    block.action = doc.get("action", "allow")
    need(block.action in ACTIONS, where, "not an action")
    need(type(doc.get("reason", "")) is str, where, "reason is text")
    for name in POLARITIES + ("limits",):
        need(type(doc.get(name, [])) is list, where, f"{name} is a list")
    for polarity in POLARITIES:
        setattr(block, polarity,
                [_read_predicate(p, f"{where}/{polarity}/{n}", polarity, inside)
                 for n, p in enumerate(doc.get(polarity, []))])
    block.limits = [read_limit(limit, f"{where}/limits/{n}")
                    for n, limit in enumerate(doc.get("limits", []))]
    if "rate_limit" in doc:
        prefix = "all:" if kind == "all_tools" else ""
        block.rate = read_rate_limit(doc["rate_limit"], where + "/rate_limit", prefix)
    block.validate = doc.get("validate_arguments", False)
    need(type(block.validate) is bool, where, "validate_arguments is a bool")
    return block


def _read_map(doc, kind):
    entries = doc.get(kind, {})
    need(type(entries) is dict, "/" + kind, "an object is needed")
    need(globs.tied(entries) is None, "/" + kind, "two globs tie")
    return {key: _read_block(entry, pointer(kind, key), kind, key)
            for key, entry in entries.items()}


def _read_categories(doc):
    entries = doc.get("categories", {})
    fields(entries, "/categories", optional=CATEGORIES)
    result = {}
    for key, entry in entries.items():
        where = pointer("categories", key)
        if type(entry) is str:
            need(entry in ACTIONS + ("hide",), where, "not a word for a category")
            result[key] = entry if entry == "hide" else Block(where, "categories", key, entry)
        else:
            result[key] = _read_block(entry, where, "categories", key)
    return result


def _read_words(entries, where):
    need(type(entries) is dict, where, "an object is needed")
    for key, word in entries.items():
        need(type(word) is str and word in ("allow", "deny"), where, f"{key} is allow or deny")
    return entries


def _read_methods(doc):
    if "methods" not in doc:
        return None
    for key in _read_words(doc["methods"], "/methods"):
        need(key not in ALWAYS and key not in CARRIERS and key != COMPLETION
             and key not in CLIENT_METHODS and not key.startswith("tasks/"),
             "/methods", f"{key} belongs to another section")
        stem = key[:-2] if key.endswith("/*") else key
        need(stem and "*" not in stem, "/methods", f"{key} is neither a method nor x/*")
    return doc["methods"]


@lru_cache(maxsize=None)
def _zone_names():
    return frozenset(available_timezones())


def _read_zone(doc):
    name = doc.get("time_zone", "UTC")
    need(type(name) is str and name in _zone_names(), "/time_zone", "not an IANA name")
    return ZoneInfo(name)


def _no_null(value, where=""):
    need(value is not None, where, "null is no value")
    if type(value) is dict:
        for key, child in value.items():
            _no_null(child, where + pointer(key))
    elif type(value) is list:
        for n, child in enumerate(value):
            _no_null(child, f"{where}/{n}")


def load(document):
    """Return a Policy, or raise LoadError. The document comes from read_json."""
    fields(document, "", required=("version", "default"),
           optional=("description", "$schema", "hide", "all_tools", "categories", "tools",
                     "resources", "prompts", "methods", "client_requests", "time_zone"))
    _no_null(document)
    need(document["version"] == "1", "/version", 'only "1"')
    need(document["default"] in ("allow", "deny"), "/default", "allow or deny")
    for name in ("description", "$schema"):
        need(type(document.get(name, "")) is str, "/" + name, "text is needed")
    hide = document.get("hide", [])
    need(type(hide) is list and all(type(h) is str for h in hide), "/hide", "a list of names")
    client_requests = None
    if "client_requests" in document:
        fields(document["client_requests"], "/client_requests",
               optional=tuple(CLIENT_METHODS.values()))
        client_requests = _read_words(document["client_requests"], "/client_requests")
    all_tools = None
    if "all_tools" in document:
        all_tools = _read_block(document["all_tools"], "/all_tools", "all_tools", "")
    policy = Policy(document["default"], hide, all_tools, _read_categories(document),
                    _read_map(document, "tools"), _read_map(document, "resources"),
                    _read_map(document, "prompts"), _read_methods(document),
                    client_requests, _read_zone(document))
    blocks = [b for b in [all_tools, *policy.categories.values(), *policy.tools.values(),
                          *policy.resources.values(), *policy.prompts.values()]
              if isinstance(b, Block)]
    check_counters(blocks)
    policy.uses_time = any(c.root == "time" for b in blocks for name in POLARITIES
                           for p in getattr(b, name) for c in p.conditions)
    return policy
