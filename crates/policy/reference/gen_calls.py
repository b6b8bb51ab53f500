"""Random calls for one document, aimed at its conditions: for each condition the call
has a value that should make it true, false, absent or a mismatch.
"""

from gen_operators import call_value, wrong_value
from gen_places import uri as any_uri, url, url_near
from gen_policy import (CATEGORIES, METHODS, PROMPTS, TEAMS, TOOLS, URIS)
from gen_values import anything, chance, nudge, number, pick, respell, string
from jsontext import Raw, read_keeping

MISSING = object()
UNSAFE_URIS = ["file:///home/../etc", "file:///home/a/..", "file:///./a", "file:///home/%2e%2e/x",
               "file:///home/%2E/x", "file:///home%2fa", "file:///home%2Fa", "file:///a%5Cb",
               "file:///a%5cb", "file:///a%00", "file:///a\\b", "file:///a\0b",
               "https://u@example.com/x", "https://u:p@example.com/x", "note:../a",
               "https://example.com/x?y=/../z", "https://example.com/..?x", "https://example.com/.#x",
               "https://example.com/x?u=https://u@h/"]
SAFE_URIS = ["file:///home/a/...", "file:///home/a..b", "https://example.com/x@y", "note:a@b",
             "file:///home/%20", "https://example.com/x?y=@", "file:///home/.a", "db://t/%2", "note:.a",
             "https://example.com/x.", "file:///%252e"]
CLIENT_METHODS = ["sampling/createMessage", "elicitation/create", "roots/list"]
OTHER_METHODS = ["initialize", "ping", "tools/list", "resources/templates/list", "server/discover",
                 "logging/setLevel", "subscriptions/listen", "notifications/cancelled",
                 "notifications/roots/list_changed", "prompts/list", "tools/call", "resources/read",
                 "resources/subscribe", "resources/unsubscribe", "prompts/get", "tasks/get",
                 "tasks/anything/else", "tasks", "unknown/method", "vendor", "Vendor/x", "tools/other"]
SCHEMAS = [read_keeping(text) for text in (
    '{"type":"object"}',
    '{}',
    '{"type":"object","properties":{"amount":{"type":"number"}}}',
    '{"type":"object","properties":{"amount":{"type":"integer","minimum":1}},"required":["amount"]}',
    '{"type":"object","properties":{"currency":{"enum":["usd","eur"]}}}',
    '{"type":"object","properties":{"currency":{"type":"string","maxLength":2}}}',
    '{"type":"object","properties":{"note":{"type":["string","null"]}},"required":["note"]}',
    '{"properties":{"amount":{},"currency":{}},"additionalProperties":false}',
    '{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["currency"]}',
    '{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":'
    '{"amount":{"maximum":10.5}}}',
    '{"type":"object","properties":{"email":{"type":"string","format":"email"}}}',
    '{"$defs":{"s":{"type":"string"}},"properties":{"currency":{"$ref":"#/$defs/s"}}}',
    '{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"s":{"const":"usd"}},'
    '"properties":{"currency":{"$ref":"#/definitions/s"}}}',
    '{"properties":{"tags":{"type":"array","items":{"type":"string"},"maxItems":2}}}',
    '{"type":"object","not":{"required":["note"]}}')]
UNUSABLE = [read_keeping(text) for text in (
    'true', 'false', 'null', '[]', '"object"', '{"type":"thing"}', '{"required":"x"}',
    '{"properties":[]}', '{"$ref":"https://example.com/schema.json"}',
    '{"properties":{"zz":{"$ref":"#/$defs/missing"}}}', '{"minimum":"1"}',
    '{"properties":{"zz":{"$ref":"other.json#/x"}}}', '{"$schema":"https://example.com/meta"}')]
ARGUMENTS = [{}, {"amount": Raw("5")}, {"amount": Raw("5.0"), "currency": "usd"},
             {"amount": Raw("0"), "currency": "EUR"}, {"amount": "5"}, {"currency": "usd"},
             {"amount": Raw("10.5"), "note": None}, {"note": "x", "tags": ["a"]}, {"email": "no"},
             {"currency": "🙂🙂", "tags": ["a", Raw("1")]}, {"tags": ["a", "b", "c"], "note": ""},
             {"amount": Raw("-1.5"), "extra": True}, {"currency": Raw("1")}]
TIMES = ["2026-03-29T00:59:59Z", "2026-03-29T01:00:00Z", "2026-10-25T00:30:00Z",
         "2026-10-25T01:30:00Z", "2026-11-01T05:59:59Z", "2026-11-01T06:00:00Z",
         "2026-03-08T06:59:59Z", "2026-03-08T07:00:00Z", "2026-11-15T12:00:00Z",
         "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z", "2026-11-15T23:59:59Z",
         "2026-11-16T00:00:00Z", "2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z",
         "2024-02-29T12:30:00Z", "2026-11-14T18:30:00Z", "2026-11-14T18:29:59Z"]
POLARITIES = ("require", "deny_if", "approve_if")


def _set(node, segments, leaf, rng):
    """Return the node with a leaf value at the path. `leaf` is called for each end."""
    if not segments:
        return leaf()
    segment, rest = segments[0], segments[1:]
    if segment == ("*",):
        size = pick(rng, [0, 1, 1, 2, 2, 3]) if type(node) is not list else len(node)
        elements = node if type(node) is list else [MISSING] * size
        return [_none_if_missing(_set(e, rest, leaf, rng)) for e in elements]
    if type(segment) is tuple:
        elements = list(node) if type(node) is list else []
        while len(elements) <= segment[1]:
            elements.append(pick(rng, [None, Raw("1"), "a"]))
        value = _set(elements[segment[1]], rest, leaf, rng)
        if value is MISSING:
            return elements[:segment[1]]
        elements[segment[1]] = value
        return elements
    result = dict(node) if type(node) is dict else {}
    value = _set(result.get(segment, MISSING), rest, leaf, rng)
    if value is MISSING:
        result.pop(segment, None)
    else:
        result[segment] = value
    return result


def _none_if_missing(value):
    return None if value is MISSING else value


class CallMaker:
    def __init__(self, rng, doc, paths):
        self.rng = rng
        self.doc = doc
        self.paths = paths

    # Arguments.

    def place(self, args, condition, wanted):
        """Return arguments for which the condition should have the wanted result."""
        rng = self.rng
        segments = self.paths.get(condition["path"])
        if not segments:
            return args
        op, value = condition["op"], condition["value"]
        if op == "exists" and wanted in ("true", "false"):
            wanted = "there" if value == (wanted == "true") else "absent"
        cut = len(segments)
        if wanted in ("absent", "mismatch") and (op == "exists" or chance(rng, 0.3)):
            cut = int(rng.random() * len(segments)) + (0 if wanted == "mismatch" else 1)
        broken = cut < len(segments)
        many = ("*",) in segments

        def leaf():
            now = wanted
            if many and chance(rng, 0.3):
                now = pick(rng, ["true", "false", "absent", "mismatch"])
            if now == "absent":
                return pick(rng, [MISSING, MISSING, None])
            if op == "host_in" and chance(rng, 0.4):  # the result is not predicted here
                return url_near(rng, value) if chance(rng, 0.7) else url(rng)
            if now == "mismatch":
                if broken:
                    wrong = [{}, {"0": "x"}, "text", Raw("0"), True]
                    if type(segments[cut]) is str:
                        wrong = [[], [{}], "text", Raw("0"), False, [None]]
                    return pick(rng, wrong)
                return wrong_value(rng, op, value)
            if now == "there":
                return anything(rng)
            return call_value(rng, op, value, now == "true")
        result = _set(args, segments[:cut], leaf, rng)
        return result if type(result) is dict else args

    def arguments(self, blocks):
        """Return arguments aimed at the conditions of the blocks, mainly at one predicate."""
        rng = self.rng
        conditions = []
        for block in blocks:
            for polarity in POLARITIES:
                for predicate in block.get(polarity, []):
                    found = predicate.get("conditions", [predicate])
                    conditions.extend((polarity, predicate, c) for c in found)
        args = {}
        if chance(rng, 0.3):
            args = dict(pick(rng, ARGUMENTS))
        focus = pick(rng, conditions)[1] if conditions else None
        wild = chance(rng, 0.2)
        rng.shuffle(conditions)
        conditions.sort(key=lambda c: c[1] is focus)  # the focus comes last, so it is not overwritten
        for polarity, predicate, condition in conditions:
            if wild or predicate is focus:
                wanted = pick(rng, ["true", "true", "false", "absent", "mismatch"])
            else:
                passing = "true" if polarity == "require" else pick(rng, ["false", "absent"])
                wanted = passing if chance(rng, 0.95) else "mismatch"
            args = self.place(args, condition, wanted)
        for block in blocks:
            for limit in block.get("limits", []):
                path = limit.get("amount", limit.get("increment_from"))
                if path is not None:
                    args = self.amount(args, path, limit["max"])
        return args

    def amount(self, args, path, maximum):
        rng = self.rng

        def leaf():
            if chance(rng, 0.7):
                return pick(rng, [Raw("0.000000001"), Raw("0"), Raw("-0"), respell(rng, maximum),
                                  Raw("3"), Raw("5"), Raw("1e0"), Raw("0.5000000000000")])
            return pick(rng, [Raw("-1"), Raw("0.0000000001"), Raw("1e18"), nudge(rng, maximum, True),
                              "5", None, MISSING, [Raw("5")], Raw("999999999999999999"), {}, True,
                              Raw("1000000000000000000.0"), Raw("-1e-30"), Raw("100.5"), number(rng)])
        result = _set(args, self.paths[path], leaf, rng)
        return result if type(result) is dict else args

    # Names.

    def name(self, section, pool):
        """Return (name, the block that probably applies)."""
        rng = self.rng
        entries = self.doc.get(section, {})
        if entries and chance(rng, 0.8):
            key = pick(rng, list(entries))
            text = key
            while "*" in text:
                text = text.replace("*", pick(rng, ["", "a", "x/y", "🙂", "_b"]), 1)
            return text or "a", entries[key]
        name = pick(rng, pool)
        return name, entries.get(name)

    def tool(self):
        rng = self.rng
        name, block = self.name("tools", TOOLS)
        hide = self.doc.get("hide")
        if hide and chance(rng, 0.06):
            name = pick(rng, hide).replace("*", "a") or "a"
        call = {"tool": name}
        categories = self.doc.get("categories", {})
        if chance(rng, 0.8):
            call["category"] = pick(rng, list(categories) if categories and chance(rng, 0.7)
                                    else CATEGORIES)
        if block is None or (categories and chance(rng, 0.2)):
            if block is not None:
                call["tool"] = pick(rng, TOOLS)
            entry = categories.get(call.get("category", "unknown"))
            block = entry if type(entry) is dict else None
        blocks = [b for b in (block, self.doc.get("all_tools")) if b]
        if chance(rng, 0.97):
            call["arguments"] = self.arguments(blocks)
        if any(b.get("validate_arguments") for b in blocks) or chance(rng, 0.03):
            self.schema(call)
        if chance(rng, 0.12):
            call["accepted"] = pick(rng, ["yes", "new", "changed", "not_offered"])
        return call

    def schema(self, call):
        """Return a schema and, mostly, matching arguments with small numbers."""
        rng = self.rng
        if chance(rng, 0.75):
            call["input_schema"] = pick(rng, SCHEMAS)
        elif chance(rng, 0.8):
            call["input_schema"] = pick(rng, UNUSABLE)
        if "arguments" in call:
            args = {k: v for k, v in call["arguments"].items()
                    if k not in ("amount", "currency", "note")}
            call["arguments"] = {**args, **pick(rng, ARGUMENTS)}

    def uri(self):
        rng = self.rng
        uri, _ = self.name("resources", URIS)
        roll = rng.random()
        if roll < 0.15:
            return pick(rng, UNSAFE_URIS + SAFE_URIS)
        if roll < 0.45:
            return any_uri(rng, uri)
        return any_uri(rng) if roll < 0.6 else uri

    def method(self):
        rng = self.rng
        roll = rng.random()
        if roll < 0.35:
            return {"method": "completion/complete", **self.completion()}
        if roll < 0.6:
            return {"method": pick(rng, CLIENT_METHODS)}
        if roll < 0.85:
            entries = list(self.doc.get("methods", {}))
            name = pick(rng, entries if entries and chance(rng, 0.7) else METHODS)
            return {"method": name.replace("*", pick(rng, ["a", "x/y", "x/a"]))}
        return {"method": pick(rng, OTHER_METHODS)}

    def completion(self):
        rng = self.rng
        roll = rng.random()
        if roll < 0.4:
            ref = {"type": "ref/prompt", "name": self.name("prompts", PROMPTS)[0]}
        elif roll < 0.8:
            ref = {"type": "ref/resource", "uri": self.uri()}
        else:
            ref = pick(rng, [None, "greet", {}, {"type": "ref/prompt"}, {"type": "ref/tool",
                       "name": "a"}, {"type": "ref/prompt", "uri": "greet"}, {"name": "greet"},
                       {"type": "ref/resource", "name": "note:a"}, [], {"type": "ref/prompt",
                       "name": None}, {"type": "ref/resource", "uri": Raw("1")}])
            if chance(rng, 0.3):
                return pick(rng, [{}, {"arguments": {}}])
        return {"arguments": {"ref": ref, "argument": {"name": "x", "value": "y"}}}

    # The call as a whole.

    def call(self):
        rng = self.rng
        roll = rng.random()
        if roll < 0.64:
            call = self.tool()
        elif roll < 0.82:
            call = {"resource": self.uri()}
            if chance(rng, 0.2):  # they have no effect on a resource
                call["arguments"] = {**pick(rng, ARGUMENTS), "uri": pick(rng, [Raw("1"), "note:a"])}
        elif roll < 0.92:
            name, block = self.name("prompts", PROMPTS)
            call = {"prompt": name}
            if chance(rng, 0.95):
                call["arguments"] = self.arguments([block] if block else [])
        else:
            call = self.method()
        self.surroundings(call)
        return call

    def call_of(self, name, url):
        """Return a call of one tool with one argument."""
        call = {"tool": name, "arguments": {"url": url}}
        self.surroundings(call)
        return call

    def surroundings(self, call):
        rng = self.rng
        if chance(rng, 0.8):
            call["server"] = {"name": pick(rng, ["stripe", "pharo", "x"])}
        if chance(rng, 0.8):
            grant = {}
            if chance(rng, 0.85):
                grant["label"] = pick(rng, ["ci", "é", "laptop"])
            if chance(rng, 0.7):
                grant["labels"] = {key: pick(rng, TEAMS) for key in ("team", "a.b", "a")
                                   if chance(rng, 0.7)}
            call["grant"] = grant
        if chance(rng, 0.7):
            client = {"name": pick(rng, ["c", "C", "x"])}
            if chance(rng, 0.8):
                client["version"] = pick(rng, ["1", "2.0", ""])
            call["client"] = client
        if chance(rng, 0.6):
            call["session"] = pick(rng, ["s1", "s2", string(rng) or "s"])
        if chance(rng, 0.6):
            call["at"] = pick(rng, TIMES)
        else:
            call["at"] = "20%02d-%02d-%02dT%02d:%02d:%02dZ" % (
                rng.randrange(20, 28), rng.randrange(1, 13), rng.randrange(1, 29),
                rng.randrange(24), rng.randrange(60), rng.randrange(60))
