"""Random policy documents that load: every field and operator, spelled in
every way the language allows. `gen_faults` inserts errors.
"""

import json

from gen_operators import SAMPLES, rule_value
from gen_places import uri
from gen_values import chance, pick, respell, string
from globs import literals
from jsontext import Raw

OPS = list(SAMPLES)
CATEGORIES = ["read", "write", "execute", "destructive", "financial", "unknown"]
TOOLS = ["read_file", "create_charge", "delete_all", "delete_one", "list_x", "a", "ab", "aab",
         "x/y", "t~1", "größe", "🙂tool", "send.mail", "Read_File", "list", "q\"uote", "~"]
TOOL_GLOBS = ["*", "a*", "delete_*", "*_file", "x/*", "*🙂*", "li*t_*", "create*rge", "*o*", "a*b",
              "*größ*e", "send.*l", "**~"]
URIS = ["file:///home/a", "file:///home/a/b.txt", "https://example.com/x", "db://t/1", "note:a",
        "file:///é", "db://t/~1", "https://u@example.com/x", "file:///home/../etc", "mem://🙂"]
URI_GLOBS = ["*", "file:///*", "https://example.com/*", "db://*/1", "file:///home/*", "note:*",
             "*.txt", "mem://*🙂"]
PROMPTS = ["greet", "review/code", "summary", "a", "é", "greet_all"]
PROMPT_GLOBS = ["*", "greet*", "review/*", "*ary", "*é*"]
METHODS = ["vendor/x", "vendor/x/y", "notifications/message", "resources/other", "foo", "vendor/🙂",
           "sampling/other", "x~y/z"]
METHOD_GLOBS = ["vendor/*", "vendor/x/*", "notifications/*", "resources/*", "sampling/*", "x~y/*"]
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe",
         "Pacific/Kiritimati", "America/St_Johns", "Pacific/Auckland", "Asia/Kathmandu",
         "Etc/GMT+12", "Europe/London"]
TEAMS = ["x", "ops", "é", "", "1"]
DATES = ["2026-03-29", "2026-10-25", "2026-11-15", "2026-11-01", "2026-03-08", "2026-12-31"]
# Segments of the generator: ("*",) is every element, ("n", 0) an index, a string a key.
SHAPES = [["amount"], ["currency"], ["to"], ["to", "name"], ["a.b"], ["a b"], ["0"], ["é"], ["🙂"],
          ['q"x'], ["tags"], ["tags", ("*",)], ["items", ("*",), "price"], ["items", ("n", 0)],
          ["rows", ("*",), ("*",)], ["rows", ("n", 1), ("n", 0)], ["rows", ("*",), "tags", ("*",)],
          ["items", ("*",), "a", "b"], ["deep", "er", "still"], ["deep", ("n", 0), "x"], ["url"],
          ["path"], ["urls", ("*",)], [""], ["items", ("n", 2), "price"], ["n"], ["x]y"], ["\\"],
          ["a", ("*",), "b", ("*",), "c"], ["note"]]
OTHER_ROOTS = ["tool.name", "tool.category", "tool.level", "server.name", "grant.label",
               "grant.labels.team", 'grant.labels["a.b"]', "client.name", "client.version",
               "time.hour", "time.weekday", "time.date", 'tool["name"]', 'grant["labels"].team']
VALUES_OF = {
    "tool.name": TOOLS, "tool.category": CATEGORIES, "tool.level": ["low", "high", "critical"],
    "server.name": ["stripe", "pharo"], "grant.label": ["ci", "é"], "client.name": ["c", "C"],
    "client.version": ["1", "2.0"], "time.weekday": ["mon", "sat", "sun", "wed"],
    "time.date": DATES, "time.hour": [Raw("0"), Raw("12"), Raw("23"), Raw("5")],
}


def path_text(rng, segments):
    """Return a path under `args`, with each key in one of its possible spellings."""
    text = "args"
    for segment in segments:
        if segment == ("*",):
            text += "[*]"
        elif type(segment) is tuple:
            text += f"[{segment[1]}]"
        elif segment and not set(segment) & set('.[]"') and chance(rng, 0.85):
            text += "." + segment
        else:
            text += "[" + json.dumps(segment, ensure_ascii=chance(rng, 0.5)) + "]"
    return text


class PolicyMaker:
    """Generates one document. `paths` maps the text of a path to its segments under args."""

    def __init__(self, rng):
        self.rng = rng
        self.paths = {}
        self.counters = {}
        self.amounts = {}  # path of the amount by counter, where limits on the counter can apply together
        self.place = "tools"
        self.favorites = [pick(rng, OPS) for _ in range(4)]

    def maybe(self, part):
        return self.rng.random() < part

    def some(self, items, least, most):
        size = least + int(self.rng.random() * (most - least + 1))
        return self.rng.sample(items, min(size, len(items)))

    # Conditions.

    def condition(self, inside):
        rng = self.rng
        if inside != "tools" and self.maybe(0.5 if inside == "resources" else 0.1):
            return self.on_uri()
        if self.maybe(0.12):
            roots = [r for r in OTHER_ROOTS if inside == "tools" or not r.startswith("tool")]
            return self.on_other_root(pick(rng, roots))
        op = pick(rng, self.favorites if self.maybe(0.5) else OPS)
        segments = [] if self.maybe(0.01) else pick(rng, SHAPES)
        text = path_text(rng, segments)
        self.paths[text] = segments
        return {"path": text, "op": op, "value": rule_value(rng, op)}

    def on_uri(self):
        rng = self.rng
        self.paths["args.uri"] = ["uri"]
        op = pick(rng, ["eq", "neq", "in", "starts_with", "ends_with", "contains", "regex",
                        "exists", "length_lte", "host_in", "not_in"])
        value = rule_value(rng, op)
        if op in ("eq", "neq", "contains"):
            value = pick(rng, URIS)
        elif op in ("starts_with", "ends_with"):
            value = pick(rng, ["file://", "https://", ".txt", "a", "note"])
        elif op in ("in", "not_in"):
            value = self.some(URIS, 1, 3)
        elif op == "length_lte":
            value = Raw(pick(rng, ["6", "14", "20", "22"]))
        if op in ("eq", "neq", "contains", "starts_with") and self.maybe(0.2):
            value = uri(rng)
        return {"path": "args.uri", "op": op, "value": value}

    def on_other_root(self, text):
        rng = self.rng
        pool = VALUES_OF.get(text, TEAMS if "labels" in text else TOOLS)
        op = pick(rng, ["eq", "neq", "in", "not_in", "exists", "contains", "starts_with",
                        "ends_with", "length_lte", "regex"])
        if text == "time.hour" or self.maybe(0.03):
            op = pick(rng, ["lt", "lte", "gt", "gte", "eq", "in", "neq"])
        value = rule_value(rng, op)
        if op in ("eq", "neq", "contains", "starts_with", "ends_with"):
            value = pick(rng, pool)
        elif op in ("in", "not_in"):
            value = self.some(pool, 1, 3)
        elif op in ("lt", "lte", "gt", "gte"):
            value = pick(rng, VALUES_OF["time.hour"])
        if op == "starts_with" and type(value) is str:
            value = value[:2]
        if op in ("starts_with", "ends_with", "contains") and type(value) is not str:
            value = "x"
        return {"path": text, "op": op, "value": value}

    def predicate(self, inside):
        rng = self.rng
        count = pick(rng, [1, 1, 1, 1, 1, 2, 2, 3])
        if self.maybe(0.02):
            count = 0
        conditions = [self.condition(inside) for _ in range(count)]
        if count == 1 and self.maybe(0.3):
            result = conditions[0]
        else:
            result = {"conditions": conditions}
        if self.maybe(0.2):
            result["on_deny"] = string(rng)
        return result

    # Limits.

    def window(self, canonical):
        """Return one of the spellings of a window."""
        rng = self.rng
        spellings = {"minute": ["minute", 60, "1m", "60s"], "hour": ["hour", 3600, "1h", "60m"],
                     "day": ["day", 86400, "1d", "24h"], 900: [900, "15m", "900s"],
                     604800: [604800, "7d", "168h"], 31622400: [31622400, "366d"]}
        found = pick(rng, spellings.get(canonical, [canonical]))
        return Raw(str(found)) if type(found) is int else found

    def limit(self, inside):
        """Return a limit that agrees with the others of its counter."""
        rng = self.rng
        name = pick(rng, ["calls", "spend", "é", "x/y", "spend2", "burst"])
        if name not in self.counters:
            window = pick(rng, ["minute", "hour", "day", "week", "month", 900, 1, 604800,
                                31622400, 7])
            align = "rolling" if window != "month" and self.maybe(0.25) else "calendar"
            has_amount = self.maybe(0.6 if name.startswith("spend") else 0.1)
            self.counters[name] = (window, pick(rng, ["grant", "session", "server",
                                                      "organisation"]), align, has_amount)
        window, scope, align, has_amount = self.counters[name]
        result = {"counter": name, "window": self.window(window)}
        if has_amount:
            amount = self.amount_path(name, inside)
            result["max"] = respell(rng, pick(rng, ["100", "99.99", "0.000000001", "10",
                                                    "999999999999999999.999999999", "5"]))
            text = path_text(rng, amount)
            self.paths[text] = amount
            result["amount" if self.maybe(0.8) else "increment_from"] = text
        else:
            result["max"] = Raw(pick(rng, ["1", "5", "120", "5", "999999999999999999", "1e3"]))
        if scope != "grant" or self.maybe(0.4):
            result["scope"] = scope
        if align != "calendar" or self.maybe(0.3):
            result["align"] = align
        if self.maybe(0.15):
            result["on_deny"] = string(rng)
        return result

    def amount_path(self, counter, inside):
        """Return one path for all tools, whose blocks can apply together; other blocks may have their own."""
        paths = [["amount"], ["to", "sum"], ["items", ("n", 0), "price"], ["n"]]
        if inside == "resources":
            paths += [["uri"], ["uri"], ["uri", "n"], ["uri", ("n", 0)]]
        return self.amounts.setdefault((counter, self.place), pick(self.rng, paths))

    def rate_limit(self):
        rng = self.rng
        window = self.window(pick(rng, ["minute", "hour", "day", "week", "month", 900, 1, 604800]))
        count = pick(rng, ["1", "5", "10", "999999999999999999"])
        if self.maybe(0.5):
            return f"{count}/{window}"
        result = {"max": Raw(count), "window": window}
        if self.maybe(0.5):
            result["scope"] = pick(rng, ["grant", "session", "server", "organisation"])
        return result

    # Blocks.

    def block(self, inside):
        rng = self.rng
        if self.maybe(0.1):
            return {}
        self.place = "tools" if inside == "tools" else object()
        result = {}
        if self.maybe(0.17):
            result["action"] = pick(rng, ["allow", "deny", "approve", "approve"])
            if self.maybe(0.3):
                result["reason"] = string(rng)
        shape = pick(rng, [("require",), ("deny_if",), ("approve_if",), ("deny_if",),
                           ("approve_if",), ("require", "deny_if", "approve_if"),
                           ("deny_if", "approve_if"), ()])
        for polarity in shape:
            result[polarity] = [self.predicate(inside) for _ in range(pick(rng, [1, 1, 2, 3]))]
        if self.maybe(0.3 if inside == "tools" else 0.4):
            result["limits"] = [self.limit(inside) for _ in range(pick(rng, [1, 1, 2, 3]))]
        if inside == "tools":
            if self.maybe(0.15):
                result["rate_limit"] = self.rate_limit()
            if self.maybe(0.1):
                result["validate_arguments"] = self.maybe(0.9)
        return self.shuffled(result)

    def shuffled(self, doc):
        keys = list(doc)
        self.rng.shuffle(keys)
        return {key: doc[key] for key in keys}

    def keyed(self, exact, patterns, inside):
        """Return blocks under names and globs. Globs of distinct weight cannot tie."""
        keys = self.some(exact, 0, 3)
        weights = set()
        for glob in self.some(patterns, 0, 3):
            if literals(glob) not in weights:
                weights.add(literals(glob))
                keys.append(glob)
        self.rng.shuffle(keys)
        return {key: self.block(inside) for key in keys}

    def share_rate_counter(self, doc):
        """Add a limit elsewhere that shares the counter of a tool's rate_limit and agrees with it."""
        for name, block in doc.get("tools", {}).items():
            if "*" not in name and type(block.get("rate_limit")) is dict and "all_tools" in doc:
                rate = block["rate_limit"]
                shared = {"counter": name + "_rate", "max": Raw(pick(self.rng, ["1", "5", "7"])),
                          "window": rate["window"], "scope": rate.get("scope", "grant")}
                doc["all_tools"].setdefault("limits", []).append(shared)
                # The rate_limit of a glob or a category could have this counter as well.
                for other in [*doc["tools"].items(), *doc.get("categories", {}).items()]:
                    if type(other[1]) is dict and other[1] is not block:
                        other[1].pop("rate_limit", None)
                return

    def document(self):
        rng = self.rng
        doc = {"version": "1", "default": pick(rng, ["allow", "deny"])}
        if self.maybe(0.1):
            doc["description"] = string(rng)
        if self.maybe(0.05):
            doc["$schema"] = "https://example.com/policy.json"
        if self.maybe(0.35):
            doc["hide"] = self.some(TOOLS + TOOL_GLOBS[1:], 0, 3)
        if self.maybe(0.3):
            doc["all_tools"] = self.block("tools")
        if self.maybe(0.45):
            doc["categories"] = {
                key: pick(rng, ["allow", "deny", "approve", "hide"]) if self.maybe(0.4)
                else self.block("tools") for key in self.some(CATEGORIES, 1, 4)}
        if self.maybe(0.85):
            doc["tools"] = self.keyed(TOOLS, TOOL_GLOBS, "tools")
        if self.maybe(0.5):
            # A URI that is refused elsewhere is allowed if it is listed exactly.
            odd = [text for text in (uri(rng) for _ in range(6)) if "*" not in text]
            doc["resources"] = self.keyed(URIS + odd, URI_GLOBS, "resources")
        if self.maybe(0.4):
            doc["prompts"] = self.keyed(PROMPTS, PROMPT_GLOBS, "prompts")
        if self.maybe(0.3):
            doc["methods"] = {key: pick(rng, ["allow", "deny"])
                              for key in self.some(METHODS + METHOD_GLOBS, 0, 4)}
        if self.maybe(0.3):
            doc["client_requests"] = {key: pick(rng, ["allow", "deny"]) for key in
                                      self.some(["sampling", "elicitation", "roots"], 0, 3)}
        if self.maybe(0.35):
            doc["time_zone"] = pick(rng, ZONES)
        if self.maybe(0.3):
            self.share_rate_counter(doc)
        return self.shuffled(doc)
