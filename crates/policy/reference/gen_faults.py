"""Inserted errors: each kind turns a document that loads into one that must not.
An error is inserted where it is certain to be one, whatever else is in the document.
"""

from gen_values import pick
from jsontext import Pairs, Raw

ONE = Raw("1")
COND = {"path": "args.x", "op": "eq", "value": "a"}
LIMIT = {"counter": "fault", "window": "minute", "max": Raw("5")}
DIGITS_1001 = Raw("1" + "0" * 300 + "." + "0" * 700)


def cond(path="args.x", op="eq", value="a"):
    return {"deny_if": [{"path": path, "op": op, "value": value}]}


def limit(**changes):
    return {"limits": [{**LIMIT, **changes}]}


def without(doc, key):
    return {k: v for k, v in doc.items() if k != key}


# A rule block with one error; it is inserted under a tool, a category or all_tools.
BLOCKS = {
    "unknown field in a block": [{"requires": []}, {"Action": "deny"}, {"on_deny": "x"}],
    "action": [{"action": "hide"}, {"action": "Deny"}, {"action": True}, {"action": ""}],
    "reason": [{"reason": ONE}, {"reason": ["x"]}],
    "list wanted": [{"require": COND}, {"deny_if": {}}, {"approve_if": "x"}, {"limits": LIMIT}],
    "null": [{"require": None}, cond(value=None), cond(op="in", value=["a", None]),
             {"action": None}, limit(scope=None), {"reason": None},
             {"deny_if": [{"conditions": [], "on_deny": None}]}],
    "predicate": [{"require": ["x"]}, {"deny_if": [{}]}, {"deny_if": [{"on_deny": "x"}]},
                  {"require": [{"conditions": COND}]}, {"require": [{"conditions": ["x"]}]},
                  {"require": [{"conditions": [COND], "path": "args.x"}]},
                  {"require": [{"conditions": [{"conditions": []}]}]},
                  {"require": [{"conditions": [{**COND, "on_deny": "x"}]}]}],
    "on_deny": [{"deny_if": [{"conditions": [], "on_deny": ONE}]},
                {"deny_if": [{**COND, "on_deny": False}]}, limit(on_deny=[])],
    "condition fields": [{"deny_if": [without(COND, k)]} for k in COND]
                        + [{"deny_if": [{**COND, "values": ["a"]}]},
                           {"deny_if": [{"conditions": [{**COND, "not": True}]}]}],
    "op": [cond(op="equals"), cond(op="EQ"), cond(op=""), cond(op=ONE), cond(op="matches")],
    "path": [cond(path=p) for p in (
        "", "x", "arg.x", "Args.x", "args.", "args..x", ".x", "args.x.", "args[", "args[]",
        "args[01]", "args[-1]", "args[x]", "args[* ]", "args[**]", "args['x']", 'args["x]',
        'args["x"', 'args["x"]y', "args[0", "args[1.5]", 'args.x"y', "args]", "args[0]x",
        'args["\\x"]', 'args["\\ud800"]', "args[00]", "args[+1]", 'args[ "x"]', "argsx", " args.x",
        "args.x]", 'args["a"b"]')] + [cond(path=ONE), cond(path=["args", "x"])],
    "field of a root": [cond(path=p) for p in (
        "tool", "tool.nam", "tool.Name", "server", "server.url", "grant", "grant.labels",
        "grant.team", "client", "client.title", "time", "time.minute", "time.hours", "tool[0]",
        "server[*]", "grant.labels[0]", "grant.labels[*]", "tool.name.x", "time.hour[0]",
        "grant.labels.a.b", "grant.label.x", "session.id", "resource.uri")],
    "scalar value": [cond(op=op, value=v) for op in ("eq", "neq", "contains")
                     for v in (["a"], {}, {"a": "b"}, [])],
    "list value": [cond(op=op, value=v) for op in ("in", "not_in", "subset_of")
                   for v in ("a", ONE, [], {}, [["a"]], [{}], True)],
    "number value": [cond(op=op, value=v) for op in ("lt", "lte", "gt", "gte")
                     for v in ("1", True, [ONE], {})],
    "string value": [cond(op=op, value=v) for op in ("starts_with", "ends_with", "regex")
                     for v in (ONE, True, ["a"], {})],
    "regex": [cond(op="regex", value=v) for v in (
        "(", "[a", "*a", "a)", "(?=a)", "(?!a)", "\\1", "a{2,1}", "[z-a]", "(?<=a)b", "\\",
        "((a{100}){100}){100}", "(?P<n", "\\p{Nope}")],
    "exists value": [cond(op="exists", value=v) for v in ("true", ONE, Raw("0"), [], {})],
    "length_lte value": [cond(op="length_lte", value=v) for v in (
        Raw("-1"), Raw("1.5"), "1", True, [], Raw("-0.5"), Raw("1e-1"))],
    "path_within value": [cond(op="path_within", value=v) for v in (
        "", "home/a", "./a", "../a", "~/a", "/a\0", "/a\\b", "\\a", ["/a"], ONE, True)],
    "host_in value": [cond(op="host_in", value=v) for v in (
        "example.com", [], [ONE], [True], [["example.com"]], {})],
    "host_in member": [cond(op="host_in", value=["example.org", v]) for v in (
        "", "https://example.com", "example.com/", "example.com/x", "*", "*.", "a.*.com",
        "*example.com", "example.com.", ".example.com", "a..com", "exam ple.com", "u@example.com",
        "example.com:", "example.com:0443", "example.com:x", "example.com:65536", "bücher.example",
        "ex%61mple.com", "127.1", "0x7f000001", "2130706433", "1.2.3.256", "[::1", "::1",
        "example.com?x", "example.com#x", "**.example.com", " example.com", "example.com\\x",
        "[0:0:0:0:0:0:0:1]", "127.0.0.01", "*.*.example.com", "a_b.example.com", "_", "example.com:0",
        "[::1]:0", "*.example.com:00", "[::ffff:1.2.3.4]", "[::ffff:102:304]", "[::FFFF:1.2.3.4]",
        "[2001:DB8::1]", "*.[::1]", "*.127.0.0.1", "a\tb.com", "example.com:８０", "\u212a.com")],
    "limit fields": [{"limits": [without(LIMIT, k)]} for k in LIMIT] +
                    [limit(name="x"), limit(key="x"), {"limits": ["x"]}, {"limits": [[]]},
                     limit(increment=ONE)],
    "counter": [limit(counter=v) for v in ("", ONE, [], True)],
    "window": [limit(window=v) for v in (
        "second", "year", "Minute", "", "m", "15", "60", "015m", "0m", "0s", "1.5h", "-1m", "15 m",
        "15min", "15M", "367d", "31622401s", "8785h", "1w", Raw("0"), Raw("-60"), Raw("1.5"),
        Raw("0.5"), Raw("31622401"), True, [Raw("60")], {}, "minutes", "+15m", "1e2s", "week ")],
    "max": [limit(max=v) for v in (
        Raw("0"), Raw("-1"), Raw("-0"), Raw("1.5"), "5", True, [], Raw("1000000000000000000"),
        Raw("1e18"), Raw("0.5"))],
    "max of amounts": [limit(max=v, amount="args.n") for v in (
        Raw("0"), Raw("-0.5"), Raw("0.0000000001"), Raw("1e18"), "5", Raw("0.0"),
        Raw("1.0000000001"))],
    "scope": [limit(scope=v) for v in ("user", "Grant", "organization", "", ONE, "global")],
    "align": [limit(align=v) for v in ("fixed", "Rolling", "", True)],
    "rolling month": [limit(window="month", align="rolling")],
    "amount": [limit(amount=v) for v in (
        "n", "tool.name", "args.items[*].n", "args[*]", "args.", "", ONE, "time.hour", "args",
        "grant.labels.n")],
    "amount twice": [limit(amount="args.n", increment_from="args.n")],
    "increment_from": [limit(increment_from=v) for v in ("n", "args.a[*]", ONE)],
    "rate_limit": [{"rate_limit": v} for v in (
        "10", "/minute", "10/", "010/minute", "0/minute", "-1/minute", "10/minutes", "10/015m",
        "10 / minute", "10/Minute", "1.5/minute", "1e1/minute", "+1/minute", "10/minute/1", "",
        "10/0", "10/060", "10/31622401", "10/367d", "ten/minute", " 10/minute", "10/minute ",
        "1000000000000000000/minute", ONE, True, [], ["10/minute"], {}, {"max": ONE},
        {"window": "minute"}, {"max": Raw("0"), "window": "minute"},
        {"max": Raw("1.5"), "window": "minute"}, {"max": "10", "window": "minute"},
        {"max": ONE, "window": "015m"}, {"max": ONE, "window": "minute", "counter": "x"},
        {"max": ONE, "window": "minute", "scope": "x"},
        {"max": ONE, "window": "minute", "align": "rolling"},
        {"max": ONE, "window": "minute", "on_deny": "x"}, {"max": Raw("1e18"), "window": "minute"},
        {"max": ONE, "window": "60"})],
    "validate_arguments": [{"validate_arguments": v} for v in ("true", ONE, [], {})],
    "same counter disagrees in a block": [
        {"limits": [LIMIT, {**LIMIT, **c}]} for c in (
            {"window": "hour"}, {"window": Raw("61")}, {"scope": "session"},
            {"align": "rolling"}, {"amount": "args.n"})] +
        [{"limits": [{**LIMIT, "window": "week"}, {**LIMIT, "window": Raw("604800")}]},
         {"limits": [{**LIMIT, "amount": "args.n"}, {**LIMIT, "amount": "args.m"}]}],
    "number too large": [cond(op="gt", value=Raw("1e309")), cond(op="eq", value=Raw("-1.1e308")),
                         cond(op="in", value=["a", Raw("1" + "0" * 309)])],
    "number too long": [cond(op="gt", value=DIGITS_1001),
                        cond(op="eq", value=Raw("0." + "0" * 999 + "1"))],
    "repeated key": [Pairs([("action", "allow"), ("action", "allow")]),
                     {"deny_if": [Pairs([*COND.items(), ("op", "eq")])]}],
}

# Changes to the top level.
TOP = {
    "version": [{"version": v} for v in ("2", ONE, "", "1.0", None, True)],
    "default": [{"default": v} for v in ("approve", "Deny", None, True, {}, "hide")],
    "unknown field": [{"tool": {}}, {"name": "x"}, {"all": {}}, {"Tools": {}}, {"rules": []}],
    "description": [{"description": ONE}, {"$schema": True}, {"description": None}],
    "hide": [{"hide": v} for v in ("a", {}, [ONE], [None], [["a"]], True)],
    "map": [{key: v} for key in ("tools", "resources", "prompts", "categories", "methods",
                                 "client_requests", "all_tools") for v in ([], "allow", True, None)],
    "block": [{key: {"zz": v}} for key in ("tools", "resources", "prompts")
              for v in ("allow", "deny", True, [], None)],
    "category": [{"categories": {k: "allow"}} for k in ("Read", "admin", "", "*", "low")],
    "category word": [{"categories": {"read": v}} for v in ("Allow", "ask", "", True, [], None)],
    "methods": [{"methods": {k: "allow"}} for k in (
        "initialize", "ping", "tools/list", "resources/list", "resources/templates/list",
        "prompts/list", "server/discover", "logging/setLevel", "subscriptions/listen",
        "notifications/initialized", "notifications/cancelled", "notifications/progress",
        "notifications/roots/list_changed", "tools/call", "tasks/get", "tasks/*", "tasks/result",
        "resources/read", "resources/subscribe", "resources/unsubscribe", "prompts/get",
        "completion/complete", "sampling/createMessage", "elicitation/create", "roots/list")],
    "method glob": [{"methods": {k: "deny"}} for k in ("*", "x*", "*/x", "x/*/y", "x/y*", "a*/*",
                                                       "x/**", "*/*", "/*")],
    "method word": [{"methods": {"vendor/x": v}} for v in ("approve", "hide", {}, True, None, "")],
    "client_requests": [{"client_requests": v} for v in (
        {"sampling": "approve"}, {"sampling/createMessage": "allow"}, {"tools": "allow"},
        {"roots": {}}, {"elicitation": True}, {"Roots": "allow"}, {"roots": None})],
    "time_zone": [{"time_zone": v} for v in (
        "europe/berlin", "Europe/Nowhere", "", "+01:00", "Berlin", "utc", "Europe/Berlin ", ONE,
        "../UTC", "CEST", "EUROPE/BERLIN", "Mars/Phobos")],
    "tied globs": [{key: {a: {}, b: {}}} for key in ("tools", "resources", "prompts")
                   for a, b in (("a*", "*a"), ("*x*", "x*"), ("ab*", "a*b"), ("*", "**"),
                                ("é*", "*a"), ("a*c", "*ac"), ("🙂*", "*a"))],
    "tools only": [{key: {"zz": v}} for key in ("resources", "prompts") for v in (
        {"rate_limit": "10/minute"}, {"validate_arguments": True}, {"validate_arguments": False},
        cond(path="tool.name"), cond(path="tool.category"), cond(path='tool["level"]'))],
    "counter disagrees between blocks": [
        {"all_tools": {"limits": [LIMIT]}, key: {"zz": {"limits": [{**LIMIT, **c}]}}}
        for key in ("tools", "resources", "prompts")
        for c in ({"window": "day"}, {"scope": "server"}, {"align": "rolling"},
                  {"amount": "args.n"}, {"window": Raw("61")})],
    "amounts that meet": [
        {"all_tools": {"limits": [{**LIMIT, "amount": "args.n"}]},
         "tools": {"zz": {"limits": [{**LIMIT, "amount": "args.m"}]}}},
        {"all_tools": {"limits": [{**LIMIT, "amount": "args.n"}]},
         "categories": {"read": {"limits": [{**LIMIT, "amount": "args.n.m"}]}}}],
    "rate_limit and a limit with its counter": [
        {"tools": {"zz": {"rate_limit": "5/minute", "limits": [{**LIMIT, "counter": "zz_rate"}]}}},
        {"tools": {"z*": {"rate_limit": "5/minute", "limits": [{**LIMIT, "counter": "zz_rate"}]}}},
        {"categories": {"read": {"rate_limit": "5/minute",
                                 "limits": [{**LIMIT, "counter": "any_rate"}]}}},
        {"all_tools": {"rate_limit": "5/minute", "limits": [{**LIMIT, "counter": "all:zz_rate"}]}}],
    "rate_limit disagrees": [
        {"tools": {"zz": {"rate_limit": "5/minute"}},
         "all_tools": {"limits": [{**LIMIT, "counter": "zz_rate", **c}]}}
        for c in ({"window": "hour"}, {"scope": "session"}, {"align": "rolling"},
                  {"amount": "args.n"})] + [
        {"tools": {"z*": {"rate_limit": "5/minute"},
                   "q": {"limits": [{**LIMIT, "counter": "zebra_rate", "window": "day"}]}}},
        {"categories": {"read": {"rate_limit": "5/minute"}},
         "all_tools": {"limits": [{**LIMIT, "counter": "q_rate", "window": "day"}]}},
        {"all_tools": {"rate_limit": {"max": ONE, "window": "hour"}},
         "tools": {"q": {"limits": [{**LIMIT, "counter": "all:q_rate"}]}}},
        {"tools": {"zz": {"rate_limit": {"max": ONE, "window": "minute", "scope": "server"}}},
         "resources": {"q": {"limits": [{**LIMIT, "counter": "zz_rate"}]}}}],
}
VARIANTS = [(kind, v) for kinds in (BLOCKS, TOP) for kind in kinds for v in kinds[kind]]
KINDS = list(BLOCKS) + list(TOP) + ["missing", "repeated top key", "not an object"]


def plant(rng, doc, number):
    """Return (kind, the document with that error). Consecutive numbers go through all kinds and
    all variants, so that none depends on chance."""
    variant = None
    kind = KINDS[number // 2 % len(KINDS)]
    if number % 2:
        kind, variant = VARIANTS[number // 2 % len(VARIANTS)]
    if kind == "missing":
        return kind, without(doc, pick(rng, ["version", "default"]))
    if kind == "repeated top key":
        return kind, Pairs([*doc.items(), ("default", doc["default"])])
    if kind == "not an object":
        return kind, pick(rng, [[], "deny", None, True, ONE, [doc]])
    if kind in TOP:
        return kind, {**doc, **(pick(rng, TOP[kind]) if variant is None else variant)}
    block = pick(rng, BLOCKS[kind]) if variant is None else variant
    place = pick(rng, ["tools", "tools", "categories", "all_tools"])
    if place == "all_tools":
        return kind, {**doc, "all_tools": block}
    key = "zz_fault" if place == "tools" else "write"
    return kind, {**doc, place: {**doc.get(place, {}), key: block}}
