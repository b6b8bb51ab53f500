"""Values for the generator: numbers in many spellings, tricky strings, and for each
operator a rule value and call values that give the wanted result.
"""

from decimal import Context, Decimal

from jsontext import Raw, parts, plain

EXACT = Context(prec=800, Emax=999999, Emin=-999999)
STRINGS = ["", "a", "usd", "USD", "eur", "usd ", "é", "e\u0301", "🙂", "🙂🙂", "a\0b", "1", "1.0",
           "true", "null", "straße", "STRASSE", "\u2028", "a\nb", "x/y~z", "\U00010400", "\uffff",
           "main", "maintain", "0", "[]", "100", "K", "\u212a", "ab", "aab", "team-x"]
NUMBERS = ["0", "1", "2", "3", "10", "100", "50000", "-1", "-1.5", "0.1", "1e-30", "1e308",
           "-1e308", "9007199254740992", "9007199254740993", "123456789012345678",
           "0.000000001", "99.99", "12", "23", "1e2", "100.00000000000000000001"]
REGEXES = [("^[a-z]+$", ["usd", "main"], ["USD", "", "a1", "é"]),
           ("b", ["ab", "xbx"], ["", "B", "a"]),
           ("^$", [""], ["a", "\n"]),
           (".", ["a", "🙂"], ["", "\n"]),
           ("^.$", ["🙂", "é", "K"], ["ab", "e\u0301", ""]),
           ("(?i)^k$", ["k", "K", "\u212a"], ["kk", "q"]),
           ("^[0-9]{2,3}$", ["12", "100"], ["1", "1.0", "1234", "１２"]),
           ("\\p{L}", ["é", "straße"], ["1", "🙂", ""]),
           ("^(usd|eur)$", ["usd", "eur"], ["usd ", "usdeur", "usd\n"]),
           ("a|b$", ["ab", "a\nb", "xa"], ["c", "bc"]),
           ("^main$|^v[0-9]+\\.[0-9]+$", ["main", "v1.0"], ["maintain", "v1x0"]),
           ("[^a]", ["b", "\n", "🙂"], ["a", "aaa", ""]),
           ("(?s)a.b", ["a\nb", "a🙂b"], ["ab"]), ("\\x{1F642}", ["🙂"], ["é", ""]),
           ("", ["", "x"], []), ("x{0}", ["", "y"], [])]
DIRECTORIES = ["/", "/home/a", "/home/a/", "//home//a", "/home/a/../b", "/srv/./x", "/..", "/é",
               "/home", "/a b", "/home/a/."]
FILES = ["/", "/home", "/home/a", "/home/a/", "/home/a/f", "/home/ab", "/home/a/../b", "//home/a/f",
         "/home/a/../../etc", "/../home/a/x", "/home/./a/f", "/home/a/..", "/é/x", "/srv/x/y",
         "/srv/x/../y", "/a b/c", "/HOME/a", "/home/a/...", "/home/b/f", "/home/a/%2e%2e/x",
         "/home//a//f", "/..", "/home/a/f/../../b"]
BAD_FILES = ["", "home/a", "./home/a", "../home/a", "~/a", "/home/a\0", "/home\\a", "\\home\\a",
             "C:/home/a", "file:///home/a", " /home/a"]
MEMBERS = ["example.com", "*.example.com", "EXAMPLE.org", "api.example.com:8443", "127.0.0.1",
           "*.example.com:8443", "localhost", "a-b.co", "[::1]", "10.0.0.1:80", "example.com:443",
           "*.co", "*.localhost", "xn--bcher-kva.example", "0x7f.example.com", "API.Example.com",
           "*.EXAMPLE.com:443", "LOCALHOST:1", "[2001:db8::1]:8443", "-a.1a", "A-B.CO:65535"]
GOOD_URLS = ["https://example.com", "http://example.com/", "https://EXAMPLE.com/a?b#c",
             "https://a.example.com/x", "https://a.b.example.com", "https://badexample.com/",
             "https://example.com.evil.org/", "http://example.org", "https://example.com:443/",
             "https://example.com:8443", "https://api.example.com:8443/x?y", "http://127.0.0.1/",
             "http://127.0.0.1:80", "http://10.0.0.1:80/", "http://10.0.0.1/", "http://localhost:1",
             "http://localhost", "http://x.localhost", "http://[::1]/", "http://[::1]:8443/",
             "https://a-b.co", "https://example.com?x=@y", "https://example.com#@evil.org",
             "https://example.com/@x", "https://example.com/%2e", "https://xn--bcher-kva.example/",
             "https://0x7f.example.com/", "HTTPS://example.com/", "https://evil.org/example.com",
             "https://x.example.com:8443", "http://1.2.3.4/", "http://255.255.255.255",
             "https://example.com:65535/", "http://[2001:db8::1]/"]
BAD_URLS = ["", "example.com", "//example.com", "ftp://example.com/", "https:/example.com",
            "https:example.com", "https://", "https:///example.com", "https://u@example.com/",
            "https://u:p@example.com", "https://example.com@evil.org/", "https://exam ple.com",
            " https://example.com", "https://example.com ", "https://example.com\\@evil.org",
            "https://example.com\\x", "https://ex%61mple.com/", "https://example..com/",
            "https://.example.com", "https://example.com.", "https://example.com./x",
            "https://example.com:", "https://example.com:/", "https://example.com:0443/",
            "https://example.com:65536/", "https://example.com:99999", "https://example.com:x/",
            "https://example.com:4 43/", "http://127.1/", "http://0x7f000001/", "http://2130706433",
            "http://0177.0.0.1/", "http://127.0.0.01", "http://1.2.3.256/", "http://1.2.3.4.5/",
            "http://1.2.3/", "http://127.0.0.1./", "http://[0:0:0:0:0:0:0:1]/", "http://[::1",
            "http://[::1]x/", "http://[]/", "http://::1/", "https://bücher.example/",
            "https://ｅxample.com", "https://example.com\n", "https://exa\tmple.com",
            "file:///etc/passwd", "javascript:alert(1)", "https://example.com:-1/",
            "https://:443/", "http://foo.123/", "http://0x7f.0.0.1/", "https://example.com:443:443/",
            "https://a.example.com/x y"]


def pick(rng, items):
    return items[int(rng.random() * len(items))]


def chance(rng, part):
    return rng.random() < part


def respell(rng, text):
    """Return the same number in another spelling."""
    negative, digits, exponent = parts(Decimal(text))
    if not digits:
        return Raw(pick(rng, ["0", "-0", "0.0", "-0.0", "0e5", "0E-3", "-0e0"]))
    sign = "-" if negative else ""
    form = int(rng.random() * 5)
    if form == 0:
        return Raw(plain(Decimal(text)))
    if form == 1:
        body = plain(Decimal(text))
        return Raw(body + ("0" if "." in body else ".0"))
    if form == 2:
        return Raw(f"{sign}{digits}e{exponent}")
    if form == 3:
        return Raw(f"{sign}{digits}0E{exponent - 1}")
    return Raw(f"{sign}{digits[0]}.{digits[1:] or '0'}e{exponent + len(digits) - 1:+d}")


def nudge(rng, text, up):
    """Return a number a little or much above or below."""
    value = Decimal(text)
    step = Decimal(pick(rng, ["1", "0.1", "1e-9", "1e-20", "1e-40", "1e6", "1e300"]))
    result = EXACT.add(value, step if up else -step)
    if result.copy_abs() > Decimal("1e308"):  # abs() would round
        return Raw("1e308" if up else "-1e308")
    return respell(rng, str(result)) if chance(rng, 0.3) else Raw(plain(result))


def number(rng):
    if chance(rng, 0.3):
        return Raw(str(int(rng.random() * 30)))
    return respell(rng, pick(rng, NUMBERS))


def string(rng):
    return pick(rng, STRINGS)


def scalar(rng):
    roll = rng.random()
    return string(rng) if roll < 0.5 else number(rng) if roll < 0.88 else chance(rng, 0.5)


def anything(rng, depth=0):
    roll = rng.random()
    if roll < 0.7 or depth > 2:
        return scalar(rng)
    if roll < 0.78:
        return None
    if roll < 0.9:
        return [anything(rng, depth + 1) for _ in range(int(rng.random() * 3))]
    return {string(rng): anything(rng, depth + 1) for _ in range(int(rng.random() * 3))}


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


def rule_value(rng, op):
    """Return a valid rule value for the operator."""
    if op in ("eq", "neq", "contains"):
        return scalar(rng)
    if op in ("in", "not_in", "subset_of"):
        size = 1 + int(rng.random() * 3)
        if chance(rng, 0.5):
            kind = pick(rng, [string, number])
            return [kind(rng) for _ in range(size)]
        return [scalar(rng) for _ in range(size)]
    if op in ("lt", "lte", "gt", "gte"):
        return number(rng)
    if op in ("starts_with", "ends_with"):
        return string(rng)
    if op == "regex":
        return pick(rng, REGEXES)[0]
    if op == "exists":
        return chance(rng, 0.5)
    if op == "length_lte":
        return Raw(pick(rng, ["0", "1", "2", "3", "5", "1e1"]))
    if op == "path_within":
        return pick(rng, DIRECTORIES)
    return [pick(rng, MEMBERS) for _ in range(1 + int(rng.random() * 3))]


def _number_for(rng, op, value, hold):
    up = (op in ("gt", "gte")) == hold
    if chance(rng, 0.4) and (op in ("lte", "gte")) == hold:
        return respell(rng, value)
    return nudge(rng, value, up)


def _list_for(rng, members, all_in):
    size = 1 + int(rng.random() * 3)
    result = [same(rng, pick(rng, members)) for _ in range(size)]
    if not all_in:
        extra = pick(rng, [other(rng, pick(rng, members)), [pick(rng, members)], None, {}])
        result.insert(int(rng.random() * (size + 1)), extra)
        if chance(rng, 0.2):
            return []
    return result


def call_value(rng, op, value, hold):
    """Return a value of the right type that should make the operator true or false."""
    if op in ("eq", "neq"):
        return same(rng, value) if (op == "eq") == hold else other(rng, value)
    if op in ("in", "not_in"):
        member = pick(rng, value)
        return same(rng, member) if (op == "in") == hold else other(rng, member)
    if op in ("lt", "lte", "gt", "gte"):
        return _number_for(rng, op, value, hold)
    if op == "contains":
        if type(value) is str and chance(rng, 0.5):
            return string(rng) + value + string(rng) if hold else value[1:]
        rest = [pick(rng, [anything(rng), [value], other(rng, value)]) for _ in range(2)]
        return rest[:1] + [same(rng, value)] + rest[1:] if hold else rest[:int(rng.random() * 3)]
    if op == "starts_with":
        return value + string(rng) if hold else string(rng) + value
    if op == "ends_with":
        return string(rng) + value if hold else value + string(rng)
    if op == "regex":
        fitting = [r for r in REGEXES if r[0] == value]
        return pick(rng, (fitting[0][1] if hold else fitting[0][2]) or STRINGS)
    if op == "length_lte":
        size = max(0, int(Decimal(value)) + (0 if hold else 1) + pick(rng, [0, 0, -1 if hold else 1]))
        if chance(rng, 0.6):
            return "".join(pick(rng, ["a", "🙂", "é", "\u0301"]) for _ in range(size))
        return [anything(rng, 2) for _ in range(size)]
    if op == "subset_of":
        return _list_for(rng, value, hold)
    if op == "path_within":
        if hold and chance(rng, 0.5):
            return pick(rng, ["", "/", "//"]) + value + pick(rng, ["", "/", "/f", "/x/../y"])
        return pick(rng, FILES)
    if op == "host_in":
        if chance(rng, 0.5):
            host = pick(rng, value).replace("*", pick(rng, ["a", "a.b"]) if hold else "")
            return pick(rng, ["https://", "http://"]) + host + pick(rng, ["", "/", "/a?b", "#c"])
        return pick(rng, GOOD_URLS)
    return anything(rng)  # exists: any value


def wrong_value(rng, op, value):
    """Return a value that the operator cannot compare."""
    if op == "path_within" and chance(rng, 0.6):
        return pick(rng, BAD_FILES)
    if op == "host_in" and chance(rng, 0.7):
        return pick(rng, BAD_URLS)
    if op in ("eq", "neq", "lt", "lte", "gt", "gte") and chance(rng, 0.5):
        # The value in another type, or wrapped.
        if type(value) is Raw:
            return pick(rng, [str(value), [value], {"to": value}, True])
        if type(value) is str:
            return pick(rng, [[value], {"to": value}, Raw("1"), False])
        return pick(rng, ["true", Raw("1"), [value], {}])
    if op in ("in", "not_in"):
        return pick(rng, [list(value), {}, [], number(rng), string(rng), True])
    if op == "subset_of":
        return pick(rng, [pick(rng, value), {}, string(rng), Raw("0")])
    if op in ("contains", "length_lte"):
        return pick(rng, [number(rng), True, {}, {"a": value}])
    return pick(rng, [number(rng), True, [], ["/"], {}, {"x": "y"}, string(rng)])
