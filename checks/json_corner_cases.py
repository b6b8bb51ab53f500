"""Generates corner cases of JSON from a seed, for json_differential.py.

Each class has a share of the texts and says whether our reader accepts them: True, False, or None if it depends.
"""

import json
import random
from collections import namedtuple

Class = namedtuple("Class", "share accepted make")

WHITE = [" ", "\n", "\r", "\t"]
FOREIGN_WHITE = ["\u00a0", "\v", "\f", "\u2028", "\u2029", "\ufeff", "\0", "\u0085", "\u3000", "\u200b", "\x1c"]
CHARACTERS = [*"aZ09 ~\x7f/", "é", "e\u0301", "ſ", "\u212a", "\u200b", "\u2028", "\ufeff", "\uffff", "😀", "\U0010ffff", "\u0085",
              "ａ", "а", "\u202e", "\ue000"]
ODD_KEYS = ["__proto__", "constructor", "toString", "0", "1", "-1", "01", "4294967295", "", " ", "a.b", "$ref", "length",
            "null", "\u2028", "hasOwnProperty"]
METHODS = ["tools/call", "tools/list", "resources/read", "prompts/get", "completion/complete", "tasks/get", "ping",
           "vendor/x", "initialize"]
TRICK_METHODS = ["tools/call ", "Tools/Call", "tools//call", "tools/call\0", "notifications/x", "sampling/createMessage"]
TRICK_KEYS = ["Name", "NAME", "nаme", "ｎａｍｅ", "na\u200bme", "name ", "argumentſ", "tas\u212aId", "meta", "task_id", "Params", "ID",
              "method\0", "_Meta", "URI", "urı", "Arguments", "request_state", "naﬀe", "na\u00adme", "ref\ufeff", "x", "vendor"]


# ---- parts of valid JSON ------------------------------------------------------------------------

def string(r: random.Random) -> str:
    text = "".join(r.choices(CHARACTERS, k=r.randrange(5)))
    return json.dumps(text, ensure_ascii=r.random() < 0.5) if r.random() < 0.7 else escaped(r, text)


def escaped(r: random.Random, text: str) -> str:
    """Return a string with each code unit in one of its spellings."""
    units = text.encode("utf-16-be")
    pairs = [units[at] << 8 | units[at + 1] for at in range(0, len(units), 2)]
    return '"' + "".join(r.choice(["\\u%04x", "\\u%04X"]) % pair for pair in pairs) + '"'


def number(r: random.Random) -> str:
    integer = str(r.choice([0, 0, 1, 7, 10, 2**53 + 1, 2**64, r.randrange(10**6), r.getrandbits(200)]))
    fraction = "." + "".join(r.choices("0019", k=r.randrange(1, 8))) if r.random() < 0.4 else ""
    exponent = r.choice("eE") + r.choice(["", "+", "-"]) + str(r.randrange(200)) if r.random() < 0.3 else ""
    return r.choice(["", "-"]) + integer + fraction + exponent


def gap(r: random.Random) -> str:
    return "".join(r.choices(WHITE, k=r.randrange(3))) if r.random() < 0.2 else ""


def value(r: random.Random, depth: int = 3) -> str:
    pick = r.random()
    if depth == 0 or pick < 0.6:
        return string(r) if pick < 0.25 else number(r) if pick < 0.45 else r.choice(["null", "true", "false"])
    if pick < 0.8:
        return "[" + ",".join(gap(r) + value(r, depth - 1) + gap(r) for _ in range(r.randrange(4))) + "]"
    return object_of(r, depth)


def key(r: random.Random, number_: int) -> str:
    """Return a key that is unique for the number."""
    name = r.choice([*"abcé", "name", "ID", "~", "😀", "\u2028"]) + str(number_)
    return escaped(r, name) if r.random() < 0.1 else json.dumps(name, ensure_ascii=r.random() < 0.3)


def object_of(r: random.Random, depth: int = 3) -> str:
    members = (f"{gap(r)}{key(r, n)}{gap(r)}:{gap(r)}{value(r, depth - 1)}" for n in range(r.randrange(5)))
    return "{" + ",".join(members) + gap(r) + "}"


def put(r: random.Random, piece: str) -> str:
    """Return valid JSON with a piece inserted somewhere."""
    around = r.randrange(5)
    if around == 0:
        return piece
    if around == 1:
        return f"[{piece}]"
    if around == 2:
        return f'{{"a":{piece}}}'
    if around == 3:
        return f'[{value(r, 1)},{{"a":{piece},"b":{value(r, 1)}}},{value(r, 1)}]'
    return some_call(r).replace(HOLE, piece)


def members(r: random.Random, pairs: dict) -> str:
    items = list(pairs.items())
    r.shuffle(items)
    return "{" + ",".join(f"{json.dumps(name)}:{gap(r)}{raw}" for name, raw in items) + "}"


def call(r: random.Random, params: dict | None = None, envelope: dict | None = None) -> str:
    inside = {"name": string(r), "arguments": object_of(r)}
    if r.random() < 0.3:
        inside["_meta"] = members(r, {"progressToken": r.choice(["1", '"t"']), "x/y": value(r, 2)})
    outside = {"jsonrpc": '"2.0"', "id": r.choice(["1", '"c"', "0"]), "method": json.dumps(r.choice(METHODS)),
               "params": members(r, inside | (params or {}))}
    if r.random() < 0.1:
        outside["x-vendor"] = value(r, 2)
    return members(r, outside | (envelope or {}))


# Calls that classes change in one place, generated once per round because that is slow.
HOLE = '"@@"'
CALLS: list[str] = []


def some_call(r: random.Random) -> str:
    return r.choice(CALLS)


# ---- the classes ---------------------------------------------------------------------------------

def numbers_out_of_bounds(r):
    digits = r.choice([299, 300, 301, 307, 308, 309, 999, 1000, 1001, 1200])
    zeros = "0." + "0" * digits + "1"
    large = r.choice(["1", "9", "10"]) + "0" * (digits - 1)
    power = f"{r.choice(['1', '9.99', '0', '0.001', '1000'])}e{r.choice(['', '+', '-'])}{r.choice([300, 305, 307, 308, 309, 311, 400, 10**9, 10**30])}"
    return put(r, r.choice(["", "-"]) + r.choice([zeros, large, power, power]))


def numbers_malformed(r):
    bad = ["01", "-01", "1.", ".5", "+1", "0x1f", "1e", "1e+", "--1", "-", "NaN", "-NaN", "Infinity", "-Infinity", "1_000",
           "1.2.3", "1e5.5", "00", "1f", "0b1", "１", "1,0 0", "1e１", "0.e1", "-.1", "1 2"]
    return put(r, r.choice(bad))


def bad_escape(r):
    bad = [r"\x41", r"\u12", r"\u12g4", r"\u+123", r"\u 123", r"\a", r"\'", r"\0", r"\U0041", r"\u{41}", "\\", "\\\n", r"\ud800\u12"]
    return put(r, '"' + "a" * r.randrange(30) + r.choice(bad) + '"')


def surrogates(r):
    unit = lambda: r.choice(["\\ud800", "\\udbff", "\\udc00", "\\uDFFF", "\\ud83d\\ude00", "\\u0041", "x", "\\n"])  # noqa: E731
    text = '"' + "".join(unit() for _ in range(r.randrange(1, 4))) + '"'
    return put(r, text) if r.random() < 0.8 else f"{{{text}:1}}"


def controls(r):
    control = chr(r.choice([*range(0x20)]))
    return put(r, '"' + "a" * r.choice([0, 3, 23, 24, 25, 60]) + control + "b" * r.randrange(40) + '"')


def broken_utf8(r):
    bad = r.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xf8\x88\x80\x80\x80", b"\xc3"])
    text = some_call(r).encode()
    at = r.randrange(len(text) + 1)
    # Not inside a character, the rest of which could complete the piece.
    while at < len(text) and text[at] & 0xC0 == 0x80:
        at += 1
    return text[:at] + bad + b" " + text[at:]


def nesting(r):
    depth = r.choice([1, 30, 62, 63, 64, 65, 66, 200])
    opens = [r.choice(["[", '{"a":']) for _ in range(depth)]
    return "".join(opens) + r.choice(["1", "", '"x"']) * (opens[-1] != '{"a":') + "1" * (opens[-1] == '{"a":') + "".join(
        "]" if one == "[" else "}" for one in reversed(opens))


def abyss(r):
    one = r.choice(["[", '{"a":', '[{"":'])
    return one * r.choice([5_000, 20_000])


def spelled(r, name):
    return r.choice([json.dumps(name), json.dumps(name, ensure_ascii=False), escaped(r, name)])


def repeated_keys(r):
    name = r.choice(["name", "amount", "id", "", "é", "😀", "a b", "__proto__"])
    pairs = [f"{key(r, n)}:{value(r, 1)}" for n in range(r.choice([0, 1, 5, 6, 7, 12]))]
    pairs += [f"{spelled(r, name)}:{value(r, 1)}", f"{spelled(r, name)}:{value(r, 1)}"]
    r.shuffle(pairs)
    return put(r, "{" + ",".join(pairs) + "}")


def near_repeats(r):
    names = r.sample(["a", "A", "ａ", "a ", " a", "a\u200b", "á", "a\u0301", "a\0", "aa", "а", "", "\u0251"], r.randrange(2, 12))
    return put(r, "{" + ",".join(f"{spelled(r, name)}:{value(r, 1)}" for name in names) + "}")


def odd_keys(r):
    names = r.sample(ODD_KEYS, r.randrange(1, 6))
    return put(r, "{" + ",".join(f"{spelled(r, name)}:{value(r, 1)}" for name in names) + "}")


def foreign_white(r):
    text, white = some_call(r), r.choice(FOREIGN_WHITE)
    place = r.choice([0, 1, len(text) - 1, len(text)])
    return text[:place] + white + text[place:]


def truncated(r):
    text = some_call(r).encode()
    return text[:r.randrange(len(text))]


def trailing(r):
    return some_call(r) + r.choice(["x", "{}", some_call(r), "\0", "]", "}", ",", "//", "/* */", "# x", "1", '""', ";", "null"])


def not_json(r):
    if r.random() < 0.05:
        return gap(r)
    return put(r, r.choice(["[1,]", '{"a":1,}', "{'a':1}", "{a:1}", "[1 2]", '{"a" 1}', '{"a":}', "[,1]", "{,}", "tru", "nulll",
                            "True", "None", "undefined", "[1]/**/", "/*", "// x\n1", '"a" "b"', "{1:2}", "[}", "{]", '{"a"}', "/"]))


def message_tricks(r):
    trick = r.randrange(8)
    if trick < 3:
        return call(r, {r.choice(TRICK_KEYS): value(r, 1)})
    if trick == 3:
        return call(r, {}, {r.choice(TRICK_KEYS): value(r, 1)})
    if trick == 4:
        return call(r, {}, {"method": json.dumps(r.choice(TRICK_METHODS))})
    if trick == 5:
        return call(r, {"arguments": r.choice(["[1]", '"{}"', "null", "1", "true"])})
    if trick == 6:
        return r.choice(["[%s]", "[%s,1]", "[[%s]]"]) % some_call(r)
    odd = r.choice([{"id": "null"}, {"id": "1.5"}, {"id": "{}"}, {"jsonrpc": "2.0"}, {"jsonrpc": '"2.0 "'}, {"params": "[]"},
                    {"result": "{}"}, {"method": "1"}, {"params": "null"}])
    return call(r, {}, odd)


PIECES = [b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\0", b"\n", b"\\u0000", b"\\ud800", b"1e999", b"\xe2\x80\xa8", b"\xff",
          b"0", b"-", b".", b"e", b"null", b'"id":1,', b'"name":"x",', b"//", b" "]


def mutated(r):
    text = bytearray(some_call(r).encode())
    for _ in range(r.randrange(1, 4)):
        at = r.randrange(len(text) + 1)
        to = min(len(text), at + r.randrange(1, 6))
        change = r.randrange(4)
        if change == 0:
            text[at:at] = r.choice(PIECES)
        elif change == 1:
            del text[at:to]
        elif change == 2:
            text[at:at + 1] = bytes([r.randrange(256)])
        else:
            other = r.randrange(len(text) + 1)
            text[other:other] = text[at:to]
    return bytes(text)


def crossed(r):
    one, other = some_call(r).encode(), value(r).encode()
    at, to = r.randrange(len(one)), r.randrange(len(other))
    return one[:at] + other[to:] if r.random() < 0.5 else one[:at] + other + one[at:]


def crowd(count):
    return "{" + ",".join(f'"k{n}":{n}' for n in range(count)) + "}"


def long_string(size):
    return '"' + "x" * (size - 2) + '"'


def other_encodings(r):
    text = some_call(r)
    if r.random() < 0.3:
        return b"\xef\xbb\xbf" + text.encode()
    return text.encode(r.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]))


CLASSES = {
    "sound values": Class(10, True, lambda r: gap(r) + value(r) + gap(r)),
    "sound calls": Class(20, True, call),
    "message tricks": Class(12, True, message_tricks),
    "numbers": Class(5, True, lambda r: put(r, number(r))),
    "numbers out of bounds": Class(3, None, numbers_out_of_bounds),
    "numbers malformed": Class(3, False, numbers_malformed),
    "strings": Class(4, True, lambda r: put(r, string(r))),
    "bad escapes": Class(3, False, bad_escape),
    "surrogates": Class(4, None, surrogates),
    "control characters": Class(3, False, controls),
    "broken UTF-8": Class(3, False, broken_utf8),
    "other encodings": Class(1, False, other_encodings),
    "nesting": Class(2, None, nesting),
    "repeated keys": Class(6, False, repeated_keys),
    "near repeats": Class(4, True, near_repeats),
    "odd keys": Class(4, True, odd_keys),
    "foreign white space": Class(3, False, foreign_white),
    "truncated": Class(5, False, truncated),
    "trailing text": Class(3, False, trailing),
    "not JSON": Class(4, False, not_json),
    "mutated calls": Class(20, None, mutated),
    "crossed calls": Class(8, None, crossed),
}

# Too large to generate thousands of: this many of each per round.
FEW = {
    "abyss": Class(2, False, abyss),
    "most members": Class(2, True, lambda r: crowd(10_000)),
    "too many members": Class(2, False, lambda r: crowd(10_001)),
    "largest": Class(1, True, lambda r: long_string(4 << 20)),
    "too large": Class(1, False, lambda r: long_string((4 << 20) + 1)),
}


def make(r: random.Random, count: int) -> list[tuple[str, bytes]]:
    """Return `count` texts, each with the name of its class."""
    CALLS[:] = [call(r, {"arguments": f'{{"x":{HOLE},"y":{value(r)}}}'}) for _ in range(2_000)]
    few = [name for name, kind in FEW.items() for _ in range(kind.share)][:count]
    names = few + r.choices(list(SHARED), weights=[kind.share for kind in SHARED.values()], k=count - len(few))
    made = ((name, CLASSES[name].make(r)) for name in names)
    return [(name, text.encode() if isinstance(text, str) else text) for name, text in made]


SHARED = dict(CLASSES)
CLASSES |= FEW
