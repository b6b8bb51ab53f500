"""URIs, URLs and hosts composed from parts, some of them ambiguous.
The two evaluators determine whether one is refused.
"""

from gen_values import chance, pick

DOTS = ["..", ".", "/..", "/.", "/../", "/./", "../", "./", ":..", "?..", "#.", "?/../", "&../",
        "/..;/", "...", "/.../", "/..a/", "/a../", "/.a", "．．", "/。/"]
ESCAPES = ["%2e", "%2E", "%2f", "%2F", "%5c", "%5C", "%00"] * 2 + [
    "%2e%2E/", "%%2e", "%2e.", "/%2e/", "%2", "%", "%0", "%25", "%252e", "%2g", "%20", "%c0%ae",
    "%2%65", "%0a", "%40", "%é2e", "％2e", "%u002e"]
BLANKS = [" ", "\t", "\n", "\r", "\r\n", "\0", "\x01", "\b", "\x0b", "\x0c", "\x1b", "\x1c", "\x1f",
          "\x7f", "\x80", "\x85", "\x9f", "\xa0", "\xad", "\u1680", "\u180e", "\u2003", "\u200b",
          "\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff"]
SLANTS = ["\\", "\\\\", "/\\", "\\/", "\\..\\", "\\u", "＼", "∖", "⁄"]
USERS = ["u@", "u:p@", "@", ":@", "u%40h@", "u@v@", "//u@h", "///u@h", "/u@", "?u@", "#u@", "http:u@",
         "https:/u@", "ws:///u@h", "HTTPS:u@", "FtP:u:p@h", "httpſ:u@", "http:?u@", "http:a/u@",
         "wss:x:u@", "x:u@", "＠", "%40"]
ODD = [DOTS, ESCAPES, BLANKS, SLANTS, USERS]
SCHEMES = ["file", "https", "http", "HTTPS", "hTTp", "ws", "wss", "ftp", "db", "note", "mem", "shttp",
           "x-https", "", "httpſ"]
SLASHES = ["://", "://", "://", ":", ":/", ":///", ":////"]
SEGMENTS = ["a", "b.txt", "home", "x", "", "é", "a@b", "a:b", "~", ";p", "..b", "🙂"]

PLAIN_HOSTS = ["example.com", "a.example.com", "EXAMPLE.com", "api.Example.COM", "localhost", "a-b.co",
               "LOCALHOST", "127.0.0.1", "10.0.0.1", "[::1]", "xn--bcher-kva.example", "h"]
LABELS = ["a", "A", "example", "Example", "com", "COM", "co", "a-b", "-a", "a-", "-", "--", "xn--x", "a_b",
          "_dmarc", "_", "0", "1", "7", "127", "255", "256", "01", "0x7f", "0X7F", "0x", "0xg", "1a", "a1",
          "4294967295", "", "é", "ａ", "e\u0301", "\u212a", "ex%61mple", "*", "１", "٣"]
MAPPED = ["::ffff:1.2.3.4", "::FFFF:1.2.3.4", "::ffff:102:304", "::ffff:127.0.0.1", "::ffff:7f00:1"]
V6 = MAPPED * 5 + [
    "::", "::1", "::ffff:0102:0304", "::ffff:0:102:304", "::ffff:0:0", "::ffff:1",
    "::fffe:102:304", "0:0:0:0:0:ffff:102:304", "::1.2.3.4", "::102:304",
    "64:ff9b::1.2.3.4", "64:ff9b::102:304", "::ffff:1.2.3", "::ffff:1.2.3.04",
    "2001:db8::1", "2001:DB8::1", "2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1", "2001:db8:0:0:1::1",
    "1:2:3:4:5:6:7:8", "1:0:3:4:5:6:7:8", "1::3:4:5:6:7:8", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0",
    "fe80::1%25eth0", "fe80::1%eth0", "::1%", "::0001", "::g", "v1.x", "", "0::1", ":::", "1:2", " ::1",
    "::1/64", "::１"]
PORTS = [":80", ":443", ":8443", ":1", ":65535", ":0", ":00", ":080", ":", ":65536", ":99999", ":100000",
         ":+80", ":-0", ":8o", ":８０", ": 80", ":80:80", ":4294967376", ":٣", ":0x50"]
TAILS = ["", "", "/", "/a?b", "#c", "?x", "/@", "?@h", "#@h", "/a/../b", "//u@h", "/x y", ":", "%", ";"]


def spiced(rng, text):
    """Return the text with an odd part inserted: anywhere, at an end, or where a part begins."""
    odd = pick(rng, pick(rng, ODD))
    roll = rng.random()
    if roll < 0.35:
        at = int(rng.random() * (len(text) + 1))
    elif roll < 0.55:
        at = len(text)
    elif roll < 0.65:
        at = 0
    else:
        at = pick(rng, [n + 1 for n, c in enumerate(text) if c in "/:?#@"] or [0])
    return text[:at] + odd + text[at:]


def uri(rng, base=None):
    """Return a URI. With a base, it mostly still begins or ends like the base."""
    if base is None:
        if chance(rng, 0.3):
            return url(rng)
        path = "/".join(pick(rng, SEGMENTS) for _ in range(1 + int(rng.random() * 3)))
        base = pick(rng, SCHEMES) + pick(rng, SLASHES) + path
        if chance(rng, 0.25):
            base += pick(rng, ["?", "#"]) + pick(rng, ["x", "a=b", "a@b", "/x", "//x", "u=http://h"])
    for _ in range(pick(rng, [0, 1, 1, 1, 2])):
        base = spiced(rng, base)
    return base


def recased(rng, text):
    return "".join(c.swapcase() if chance(rng, 0.3) else c for c in text)


def hextets(rng):
    """Return an IPv6 address of many zeros, shortened at one of the possible positions."""
    parts = ["%x" % pick(rng, [0, 0, 0, 1, 0xffff, 0x102, 0xab]) for _ in range(8)]
    if chance(rng, 0.3):
        return ":".join(parts)
    runs = [(i, j) for i in range(8) for j in range(i + 1, 9) if set(parts[i:j]) == {"0"}]
    if not runs:
        return ":".join(parts)
    i, j = max(runs, key=lambda run: run[1] - run[0]) if chance(rng, 0.7) else pick(rng, runs)
    return ":".join(parts[:i]) + "::" + ":".join(parts[j:])


def host(rng):
    roll = rng.random()
    if roll < 0.3:
        found = pick(rng, PLAIN_HOSTS)
        return recased(rng, found) if chance(rng, 0.3) else found
    if roll < 0.5:
        return "[" + pick(rng, V6) + "]"
    if roll < 0.6:
        return "[" + hextets(rng) + "]"
    if roll < 0.7:
        return ".".join(pick(rng, ["0", "1", "127", "255", "256", "01", "0x1"] if chance(rng, 0.4)
                             else ["0", "1", "10", "192", "255"]) for _ in range(pick(rng, [4, 4, 4, 3, 5])))
    return ".".join(pick(rng, LABELS) for _ in range(pick(rng, [1, 2, 2, 3])))


def port(rng):
    return pick(rng, PORTS) if chance(rng, 0.35) else ""


def member(rng):
    """Return a member of `host_in` that may be invalid."""
    text = pick(rng, ["", "", "", "*.", "*."]) + host(rng) + port(rng)
    return spiced(rng, text) if chance(rng, 0.08) else text


def url(rng, authority=None):
    """Return a URL, with this host and port if they are given."""
    if authority is None:
        authority = host(rng) + port(rng)
    if chance(rng, 0.1):
        authority = pick(rng, ["u@", "u:p@", "@", ":@", "example.com@", "%75@"]) + authority
    text = pick(rng, ["https", "http", "https", "http", "HTTP", "hTTps", "ftp", "httpſ", "ws"]) \
        + pick(rng, ["://"] * 9 + [":", ":/", ":///"]) + authority + pick(rng, TAILS)
    return spiced(rng, text) if chance(rng, 0.15) else text


def url_near(rng, members):
    """Return a URL whose host could match one of these members."""
    text = pick(rng, members)
    if text.startswith("*."):
        text = pick(rng, ["a.", "a.b.", "", ".", "127.", "a", "A."]) + text[2:]
    roll = rng.random()
    if roll < 0.2:
        text = recased(rng, text)
    elif roll < 0.35:
        text = text.rpartition(":")[0] if ":" in text else text + pick(rng, PORTS)
    elif roll < 0.42:
        text = "x" + text
    return url(rng, text)
