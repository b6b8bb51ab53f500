"""Tests from the sentences of the specification, one per rule.
Run with `python -m unittest`.
"""

import json
import random
import re
import unittest
from decimal import Decimal
from pathlib import Path

import gen_faults
import gen_operators
import globs
from evaluator import JsonError, LoadError, decide, load, read_json, write_json
from generate import make_case
from jsontext import plain
from operators import OPERATORS
from places import host_member, unsafe_uri, url_host


def policy(**parts):
    return load(read_json(json.dumps({"version": "1", "default": "deny", **parts})))


def ask(loaded, **call):
    return decide(loaded, read_json(json.dumps({"at": "2026-11-15T12:00:00Z", **call})))


def short(answer):
    return answer["decision"], answer["code"], answer["rule"]


def condition(path, op, value):
    return {"path": path, "op": op, "value": value}


class Base(unittest.TestCase):
    def answers(self, polarity, conditions, arguments, expected):
        """Return the result of one predicate: ok, the code of the polarity, approve or type_mismatch."""
        loaded = policy(tools={"t": {polarity: [{"conditions": conditions}]}})
        answer = ask(loaded, tool="t", arguments=arguments)
        got = answer["code"] or {"allow": "ok"}.get(answer["decision"], answer["decision"])
        self.assertEqual(got, expected, (polarity, conditions, arguments))

    def all_three(self, cond, arguments, answer):
        """Check one condition, by its result, in the three polarities."""
        table = {"true": ("ok", "deny_if", "approve"), "false": ("require", "ok", "ok"),
                 "absent": ("require", "ok", "ok"), "mismatch": ("type_mismatch",) * 3}
        for polarity, expected in zip(("require", "deny_if", "approve_if"), table[answer]):
            self.answers(polarity, [cond], arguments, expected)

    def refused(self, **parts):
        with self.assertRaises(LoadError, msg=str(parts)):
            policy(**parts)


class Reading(Base):
    def test_numbers_are_exact(self):
        self.assertEqual(read_json("[1, 1.0, 1e0]"), [Decimal(1)] * 3)
        self.assertNotEqual(read_json("9007199254740993"), read_json("9007199254740992"))
        self.assertEqual(plain(read_json("-0.0")), "0")
        self.assertEqual(plain(read_json("1.50e3")), "1500")
        self.assertEqual(plain(read_json("-12.340")), "-12.34")

    def test_syntax_errors(self):
        for text in ('{"a":1,"a":1}', "1e309", "-1.1e308", "1" * 1001, "NaN", "[1,]", '"\\ud800"',
                     "0." + "0" * 1000, "01"):
            with self.assertRaises(JsonError, msg=text[:40]):
                read_json(text)
        for text in ("1e308", "-1e308", "1e-400", "0." + "0" * 999, '"\\ud83d\\ude42"'):
            read_json(text)


class TopLevel(Base):
    def test_every_inserted_error_is_refused(self):
        rng = random.Random(1)
        docs = [read_json(make_case("t", n).policy) for n in range(4)
                if make_case("t", n).fault is None]
        for kind, blocks in gen_faults.BLOCKS.items():
            for block in blocks:
                for place in ("tools", "categories", "all_tools"):
                    part = block if place == "all_tools" else {"write": block}
                    text = write_json({"version": "1", "default": "deny", place: part})
                    with self.assertRaises((LoadError, JsonError), msg=f"{kind}: {text[:200]}"):
                        load(read_json(text))
        for kind, changes in gen_faults.TOP.items():
            for change in changes:
                text = write_json({"version": "1", "default": "deny", **change})
                with self.assertRaises((LoadError, JsonError), msg=f"{kind}: {text[:200]}"):
                    load(read_json(text))
        for doc in docs:
            for number in range(2 * len(gen_faults.VARIANTS)):
                kind, faulty = gen_faults.plant(rng, doc, number)
                with self.assertRaises((LoadError, JsonError), msg=kind):
                    load(read_json(write_json(faulty)))

    def test_which_block_applies(self):
        loaded = policy(hide=["h", "hide_*"], categories={"read": {}, "destructive": "hide",
                                                          "execute": "approve", "write": "deny"},
                        tools={"a": {}, "a*": {}, "*bc": {}, "hide_x": {}, "é~/": {}})
        for name, category, expected in (
                ("hide_x", "read", ("deny", "hidden", "/hide/1")),
                ("a", "destructive", ("allow", None, "/tools/a")),
                ("ab", "destructive", ("allow", None, "/tools/a*")),
                ("abc", "read", ("allow", None, "/tools/*bc")),
                ("q", "read", ("allow", None, "/categories/read")),
                ("q", "destructive", ("deny", "hidden", "/categories/destructive")),
                ("q", "execute", ("approve", None, "/categories/execute")),
                ("q", "write", ("deny", "denied", "/categories/write")),
                ("q", "financial", ("deny", "not_listed", "/default")),
                ("é~/", "read", ("allow", None, "/tools/é~0~1"))):
            self.assertEqual(short(ask(loaded, tool=name, category=category)), expected)

    def test_pinned_definitions(self):
        loaded = policy(default="allow", categories={"unknown": "approve", "write": {"action": "deny"}})
        for accepted, category, expected in (
                ("yes", "read", ("allow", None, "/default")),
                ("new", "read", ("deny", "not_accepted", None)),
                ("not_offered", "write", ("deny", "not_offered", None)),
                ("changed", "write", ("deny", "denied", "/categories/write")),
                ("changed", "read", ("deny", "definition_changed", None)),
                ("yes", None, ("approve", None, "/categories/unknown"))):
            extra = {"category": category} if category else {}
            self.assertEqual(short(ask(loaded, tool="t", accepted=accepted, **extra)), expected)
        hidden = policy(categories={"read": {}, "unknown": "hide"})
        self.assertEqual(short(ask(hidden, tool="t", category="read", accepted="new")),
                         ("deny", "hidden", "/categories/unknown"))

    def test_tied_globs(self):
        self.refused(tools={"a*": {}, "*a": {}})
        self.refused(prompts={"*x*": {}, "y*": {}})
        policy(tools={"a*b": {}, "c*d": {}, "*": {}})
        self.assertTrue(globs.can_meet("a*c", "*b*c"))
        self.assertFalse(globs.can_meet("a*b", "b*b"))
        self.assertTrue(globs.matches("a*b", "a/\nb"))

    def test_methods(self):
        loaded = policy(methods={"v/*": "deny", "v/x/*": "allow", "v/x/y": "deny"},
                        client_requests={"roots": "allow", "sampling": "deny"})
        for method, expected in (
                ("ping", ("allow", None, None)), ("tools/call", ("deny", "not_listed", None)),
                ("tasks/get", ("deny", "not_listed", None)),
                ("v/a", ("deny", "denied", "/methods/v~1*")),
                ("v/x/a", ("allow", None, "/methods/v~1x~1*")),
                ("v/x/y", ("deny", "denied", "/methods/v~1x~1y")),
                ("w", ("deny", "not_listed", None)),
                ("roots/list", ("allow", None, "/client_requests/roots")),
                ("sampling/createMessage", ("deny", "denied", "/client_requests/sampling")),
                ("elicitation/create", ("deny", "not_listed", None))):
            self.assertEqual(short(ask(loaded, method=method)), expected)
        open_one = policy(default="allow")
        self.assertEqual(short(ask(open_one, method="w")), ("allow", None, "/default"))
        self.assertEqual(short(ask(open_one, method="roots/list")), ("allow", None, "/default"))
        named = policy(default="allow", methods={}, client_requests={})
        self.assertEqual(short(ask(named, method="w")), ("deny", "not_listed", None))
        self.assertEqual(short(ask(named, method="roots/list")), ("deny", "not_listed", None))

    def test_completion(self):
        loaded = policy(prompts={"p": {"action": "approve"}, "d": {"action": "deny"}},
                        resources={"file:///*": {}})
        for ref, expected in (
                ({"type": "ref/prompt", "name": "p"}, ("allow", None, "/prompts/p")),
                ({"type": "ref/prompt", "name": "d"}, ("deny", "denied", "/prompts/d")),
                ({"type": "ref/prompt", "name": "q"}, ("deny", "not_listed", "/default")),
                ({"type": "ref/resource", "uri": "file:///a"},
                 ("allow", None, "/resources/file:~1~1~1*")),
                ({"type": "ref/resource", "uri": "file:///a/../b"}, ("deny", "denied", None)),
                ({"type": "ref/tool", "name": "p"}, ("deny", "not_listed", None)),
                (None, ("deny", "not_listed", None))):
            self.assertEqual(short(ask(loaded, method="completion/complete",
                                       arguments={"ref": ref})), expected)

    def test_resources(self):
        loaded = policy(default="allow", all_tools={"action": "deny"}, resources={
            "file:///a/../b": {"require": [condition("args.uri", "ends_with", "b")]}})
        self.assertEqual(short(ask(loaded, resource="file:///a/../b")),
                         ("allow", None, "/resources/file:~1~1~1a~1..~1b"))
        self.assertEqual(short(ask(loaded, resource="file:///a/../c")), ("deny", "denied", None))
        self.assertEqual(short(ask(loaded, resource="file:///a")), ("allow", None, "/default"))
        for uri in ("a/./b", "http://h/x?y=/../z", "http://h/..#x", "x%2E", "x%5c", "x\\y", "x\0",
                    "http://u@h/", "http://h/?u=http://u@h", "note:.."):
            self.assertTrue(unsafe_uri(uri), uri)
        for uri in ("file:///a..b", "file:///...", "mailto:a@b", "http://h/a@b", "file:///a@b",
                    "http\u017f:a@b"):
            self.assertFalse(unsafe_uri(uri), uri)

    def test_the_amount_of_a_resource_is_in_its_uri_alone(self):
        loaded = policy(resources={"*": {"limits": [
            {"counter": "c", "window": "day", "max": 5, "amount": "args.n"}]}})
        self.assertEqual(short(ask(loaded, resource="note:a", arguments={"n": 1})),
                         ("deny", "amount", "/resources/*/limits/0"))


class Conditions(Base):
    def test_absent(self):
        for arguments in ({}, {"a": None}, {"b": 1}):
            self.all_three(condition("args.a", "eq", 1), arguments, "absent")
            self.all_three(condition("args.a.b[0][*]", "neq", 1), arguments, "absent")
        self.all_three(condition("args.a[1]", "eq", 1), {"a": [1]}, "absent")
        self.all_three(condition("args.a", "exists", False), {"a": None}, "true")
        self.all_three(condition("args.a.b[*]", "exists", False), {}, "true")
        self.all_three(condition("args.a", "exists", True), {"a": 0}, "true")

    def test_wrong_kinds(self):
        for path, arguments in (("args.a.b", {"a": [1]}), ("args.a.b", {"a": "x"}),
                                ("args.a[0]", {"a": {"0": 1}}), ("args.a[*]", {"a": {}}),
                                ("args[0]", {}), ("args.a[*]", {"a": "x"})):
            for op, value in (("exists", True), ("exists", False), ("eq", 1)):
                self.all_three(condition(path, op, value), arguments, "mismatch")

    def test_equality(self):
        for op, value, actual, answer in (
                ("eq", 1, 1.0, "true"), ("neq", 1, 1, "false"), ("eq", 1, "1", "mismatch"),
                ("neq", 1, [1], "mismatch"), ("eq", True, 1, "mismatch"), ("neq", "a", {}, "mismatch"),
                ("in", ["a", 1], True, "mismatch"), ("in", ["a", 1], 2, "false"),
                ("not_in", ["a"], "b", "true"), ("not_in", ["a"], 1, "mismatch"),
                ("eq", "é", "e\u0301", "false")):
            self.all_three(condition("args.a", op, value), {"a": actual}, answer)

    def test_exact_numbers(self):
        loaded = policy(tools={"t": {"deny_if": [condition("args.a", "gt", 100)]}})
        for text, code in (("100.00000000000000000001", "deny_if"), ("1e2", None), ("100.0", None),
                           ("1E308", "deny_if"), ('"101"', "type_mismatch"), ("-0", None)):
            call = read_json('{"tool":"t","arguments":{"a":' + text + "}}")
            self.assertEqual(decide(loaded, call)["code"], code)

    def test_strings_and_lists(self):
        for op, value, actual, answer in (
                ("contains", "b", "abc", "true"), ("contains", 1, "1", "mismatch"),
                ("contains", 1, ["1", [1], None], "false"), ("contains", "a", ["a"], "true"),
                ("contains", "a", {"a": 1}, "mismatch"), ("starts_with", "a", "ba", "false"),
                ("ends_with", "a", "ba", "true"), ("ends_with", "a", 1, "mismatch"),
                ("regex", "b", "abc", "true"), ("regex", "^b$", "abc", "false"),
                ("regex", "b", ["b"], "mismatch"), ("length_lte", 2, "🙂🙂", "true"),
                ("length_lte", 1, [1, 2], "false"), ("length_lte", 1, {}, "mismatch"),
                ("subset_of", ["a", 1], ["a", 1, "a"], "true"), ("subset_of", ["a"], [], "false"),
                ("subset_of", ["a"], ["a", 1], "false"), ("subset_of", ["a"], "a", "mismatch")):
            self.all_three(condition("args.a", op, value), {"a": actual}, answer)

    def test_every_operator_of_the_documentation_is_known(self):
        # A test of the crate compares the same table with the program.
        page = (Path(__file__).parents[3] / "docs/policy.md").read_text(encoding="utf-8")
        section = page.split("\n## Operators\n")[1].split("\n## ")[0].split("\n### ")[0]
        rows = re.findall(r"^\|([^|]*)\|", section, re.MULTILINE)
        words = [word for row in rows for word in re.findall("`(.*?)`", row)]
        self.assertEqual(list(OPERATORS), words)
        self.assertEqual(list(gen_operators.SAMPLES), words)

    def test_path_within(self):
        for directory, actual, answer in (
                ("/home/a", "/home/a", "true"), ("/home/a/", "//home/./a/x", "true"),
                ("/home/a", "/home/ab", "false"), ("/home/a", "/home/a/../b", "false"),
                ("/", "/../..", "true"), ("/a/../b", "/b/c", "true"), ("/a", "a", "mismatch"),
                ("/a", "/a\\b", "mismatch"), ("/a", "/a\0", "mismatch"), ("/a", "", "mismatch")):
            self.all_three(condition("args.p", "path_within", directory), {"p": actual}, answer)

    def test_host_in(self):
        for member, url, answer in (
                ("example.com", "https://EXAMPLE.com/x", "true"),
                ("*.example.com", "https://example.com", "false"),
                ("*.example.com", "https://a.b.example.com", "true"),
                ("example.com", "https://example.com:443/", "false"),
                ("example.com:443", "https://example.com/", "false"),
                ("h:8443", "http://h:8443", "true"), ("*.1", "", None),
                ("example.com", "https://example.com@evil.org", "mismatch"),
                ("127.0.0.1", "http://127.0.0.1/", "true"), ("[::1]", "http://[::1]/", "true"),
                ("127.0.0.1", "http://127.1/", "mismatch"), ("a", 1, "mismatch")):
            if answer is None:
                self.assertIsNone(host_member(member))
            else:
                self.all_three(condition("args.u", "host_in", [member]), {"u": url}, answer)
        for url in ("example.com", "https://a..b", "https://a.", "https://a:", "https://a:080",
                    "https://a b", "https://a/\\", "https://%61", "http://0x7f000001", "https://é",
                    "https://a_b", "https://a:0", "http://[::ffff:1.2.3.4]", "http://[::ffff:102:304]",
                    "http://[2001:DB8::1]"):
            self.assertIsNone(url_host(url), url)

    def test_every_element(self):
        price = condition("args.i[*].p", "gt", 5)
        for elements, require, deny_if in (
                ([{"p": 6}], "ok", "deny_if"), ([], "require", "ok"),
                ([{"p": 6}, {"p": 1}], "require", "deny_if"),
                ([{"p": "x"}, {"p": 1}], "require", "type_mismatch"),
                ([{"p": 6}, {"p": "x"}], "type_mismatch", "type_mismatch"),
                ([{"p": 6}, {}], "require", "deny_if"), ([None], "require", "ok"),
                ([[]], "type_mismatch", "type_mismatch")):
            self.answers("require", [price], {"i": elements}, require)
            self.answers("deny_if", [price], {"i": elements}, deny_if)
        nested = condition("args.r[*][*]", "eq", 1)
        self.answers("require", [nested], {"r": [[1], []]}, "require")
        self.answers("require", [nested], {"r": [[1], [1, 1]]}, "ok")
        self.answers("deny_if", [nested], {"r": [[], [0, 1]]}, "deny_if")
        for value in (True, False):
            self.all_three(condition("args.i[*].p", "exists", value), {"i": []}, "false")

    def test_conjunction(self):
        true, false = condition("args.a", "eq", 1), condition("args.a", "eq", 2)
        absent, wrong = condition("args.b", "eq", 1), condition("args.a", "eq", "x")
        for conditions, require, deny_if in (
                ([], "ok", "deny_if"), ([true, absent], "require", "ok"),
                ([wrong, false], "require", "ok"), ([absent, wrong], "type_mismatch", "type_mismatch"),
                ([true, wrong], "type_mismatch", "type_mismatch"), ([absent, false], "require", "ok")):
            for order in (conditions, conditions[::-1]):
                self.answers("require", order, {"a": 1}, require)
                self.answers("deny_if", order, {"a": 1}, deny_if)
        # {false, absent} of any element is absent, so a mismatch in another condition wins.
        self.answers("deny_if", [condition("args.i[*]", "eq", 1), wrong],
                     {"a": 1, "i": [2, None]}, "type_mismatch")
        self.answers("deny_if", [condition("args.i[*]", "eq", 1), wrong],
                     {"a": 1, "i": [2]}, "ok")

    def test_other_roots(self):
        loaded = policy(time_zone="America/New_York", tools={"t": {"require": [
            condition("time.hour", "eq", 23), condition("time.weekday", "eq", "sat"),
            condition("time.date", "eq", "2026-11-14"), condition("tool.level", "eq", "critical"),
            condition('grant.labels["a.b"]', "eq", "x"), condition("client.name", "exists", False)]}})
        call = {"tool": "t", "category": "financial", "grant": {"labels": {"a.b": "x"}}}
        self.assertEqual(ask(loaded, **call, at="2026-11-15T04:30:00Z")["decision"], "allow")
        self.assertEqual(ask(loaded, **call, at="2026-11-15T05:30:00Z")["rule"], "/tools/t/require/0")


class Limits(Base):
    def limit(self, **changes):
        return {"counter": "c", "window": "minute", "max": 5, **changes}

    def test_windows(self):
        same = [self.limit(window=w) for w in ("minute", 60, "1m", "60s")]
        loaded = policy(tools={"t": {"limits": same}})
        self.assertEqual(len(ask(loaded, tool="t")["charges"]), 1)
        self.refused(tools={"t": {"limits": [self.limit(window="week"), self.limit(window=604800)]}})
        policy(tools={"t": {"limits": [self.limit(window="7d"), self.limit(window=604800)]}})

    def test_applicable_limit_and_order(self):
        loaded = policy(
            tools={"t": {"limits": [self.limit(max=9), self.limit(counter="d"), self.limit(max=7)],
                         "rate_limit": "3/15m"}},
            all_tools={"limits": [self.limit(max=7), self.limit(max=8, counter="t_rate",
                                                                window=900)],
                       "rate_limit": {"max": 2, "window": 3600, "scope": "session"}})
        charges = ask(loaded, tool="t")["charges"]
        self.assertEqual([(c["rule"], c["counter"], c["window"], c["scope"]) for c in charges],
                         [("/tools/t/limits/1", "d", "minute", "grant"),
                          ("/tools/t/limits/2", "c", "minute", "grant"),
                          ("/tools/t/rate_limit", "t_rate", 900, "grant"),
                          ("/all_tools/rate_limit", "all:t_rate", "hour", "grant")])
        self.assertEqual(ask(loaded, tool="t", session="s")["charges"][3]["scope"], "session")

    def test_amounts(self):
        loaded = policy(tools={"t": {"limits": [self.limit(),
                                                self.limit(counter="s", max=10.5, amount="args.n")]}})
        for text, code in (("10.5", None), ("10.500000001", "limit"), ("-0", None), ("-1", "amount"),
                           ('"5"', "amount"), ("null", "amount"), ("1e18", "amount"), ("1e17", "limit"),
                           ("0.0000000001", "amount"), ("1.00000000000", None), ("[1]", "amount")):
            answer = decide(loaded, read_json('{"tool":"t","arguments":{"n":' + text + "}}"))
            self.assertEqual(answer["code"], code, text)
            self.assertEqual(answer["rule"], "/tools/t/limits/1" if code else "/tools/t")

    def test_amounts_before_limits(self):
        loaded = policy(tools={"t": {"limits": [self.limit(counter="a", amount="args.n")]}},
                        all_tools={"limits": [self.limit(counter="b", amount="args.m")]})
        self.assertEqual(short(ask(loaded, tool="t", arguments={"n": 9})),
                         ("deny", "amount", "/all_tools/limits/0"))

    def test_rate_limit_clashes(self):
        same_counter = [self.limit(counter="tx_rate")]
        self.refused(tools={"t*": {"rate_limit": "5/minute", "limits": same_counter}})
        policy(tools={"u*": {"rate_limit": "5/minute", "limits": same_counter}})
        policy(tools={"t*": {"rate_limit": "5/minute"}, "q": {"limits": same_counter}})
        self.refused(tools={"t*": {"rate_limit": "5/hour"}, "q": {"limits": same_counter}})
        self.refused(categories={"read": {"rate_limit": "5/hour"}}, tools={"q": {"limits": same_counter}})
        policy(all_tools={"rate_limit": "5/hour"}, tools={"q": {"limits": same_counter}})

    def test_amounts_of_one_counter(self):
        n, m = [self.limit(amount="args.n")], [self.limit(amount="args.m")]
        policy(tools={"t": {"limits": n}, "u": {"limits": m}})
        self.refused(tools={"t": {"limits": n + m}})
        self.refused(tools={"t": {"limits": n}}, all_tools={"limits": m})
        policy(resources={"t": {"limits": n}}, all_tools={"limits": m})


class Order(Base):
    def test_steps(self):
        wrong = condition("args.a", "eq", 1)
        loaded = policy(
            tools={"t": {"validate_arguments": True, "require": [condition("args.r", "eq", 1)],
                         "deny_if": [condition("args.d", "eq", 1)], "approve_if": [wrong],
                         "limits": [{"counter": "c", "window": "day", "max": 5, "amount": "args.n"}]},
                   "d": {"action": "deny"}},
            all_tools={"deny_if": [condition("args.e", "eq", 1)], "action": "approve"})
        schema = {"type": "object", "properties": {"s": {"type": "string"}}}
        good = {"r": 1, "n": 1}
        for arguments, expected in (
                ({"s": 1}, ("deny", "invalid_arguments", "/tools/t/validate_arguments")),
                ({"d": 1}, ("deny", "require", "/tools/t/require/0")),
                ({**good, "d": 1, "a": "x"}, ("deny", "deny_if", "/tools/t/deny_if/0")),
                ({**good, "a": "x", "e": 1}, ("deny", "type_mismatch", "/tools/t/approve_if/0")),
                ({**good, "e": 1, "n": 9}, ("deny", "deny_if", "/all_tools/deny_if/0")),
                ({**good, "n": 9}, ("deny", "limit", "/tools/t/limits/0")),
                ({**good, "a": 1}, ("approve", None, "/tools/t/approve_if/0")),
                (good, ("approve", None, "/all_tools"))):
            self.assertEqual(short(ask(loaded, tool="t", arguments=arguments, input_schema=schema)),
                             expected)
        self.assertEqual(short(ask(loaded, tool="d", accepted="new")), ("deny", "denied", "/tools/d"))
        self.assertEqual(len(ask(loaded, tool="t", arguments=good, input_schema=schema)["charges"]), 1)

    def test_schemas(self):
        loaded = policy(tools={"t": {"validate_arguments": True}})
        draft7 = "http://json-schema.org/draft-07/schema#"
        for schema, usable in (
                ({}, True), ({"type": "object"}, True), (True, False), ({"type": "thing"}, False),
                ({"$ref": "https://example.com/x"}, False), ({"$schema": draft7}, True),
                ({"$schema": draft7, "required": ["a"]}, False), ({"$schema": "https://x/"}, False),
                ({"properties": {"z": {"$ref": "#/$defs/q"}}}, False), (None, False),
                ({"properties": {"e": {"format": "email"}}}, True)):
            answer = ask(loaded, tool="t", arguments={"e": "no"}, input_schema=schema)
            self.assertEqual(answer["decision"], "allow" if usable else "deny", schema)
        self.assertEqual(ask(loaded, tool="t")["code"], "invalid_arguments")


class Generator(unittest.TestCase):
    """The generated pairs must contain ambiguous URIs and hosts."""

    @classmethod
    def setUpClass(cls):
        cases = [make_case("t", n, calls=20) for n in range(600)]
        cls.docs = [read_json(case.policy) for case in cases if not case.fault]
        cls.calls = [read_json(call) for case in cases for call in case.calls]

    def often(self, texts, pattern, least):
        hits = sum(re.search(pattern, text) is not None for text in texts)
        self.assertGreaterEqual(hits, least, pattern)

    def test_odd_uris_are_frequent(self):
        uris = [call["resource"] for call in self.calls if "resource" in call]
        for pattern in ("//[^/?#]*@", "[\0-\x1f\x7f-\x9f]", "[ \xa0\u2003\u3000]", r"\\",
                        r"(^|[/:?#])\.\.?($|[/?#:])", "%2e", "%2E", "%2f", "%2F", "%5c", "%5C", "%00"):
            self.often(uris, pattern, 5)

    def test_odd_hosts_are_frequent(self):
        urls = [call["arguments"]["url"] for call in self.calls
                if type(call.get("arguments", {}).get("url")) is str]
        members = re.findall(r'"host_in","value":\[(.*?)\]\}', write_json(self.docs))
        for pattern in ("_", "[A-Z]", r"\[::ffff:[0-9a-f]+:[0-9a-f]+\]", r"\[::ffff:1\.",
                        r":0([/?#\"]|$)"):
            self.often(urls, pattern, 5)
            self.often(members, pattern, 1)

    def test_amounts_occur_in_every_part(self):
        for part in ("tools", "resources", "prompts"):
            self.often([write_json(doc.get(part, {})) for doc in self.docs], '"amount":', 15)


if __name__ == "__main__":
    unittest.main()
