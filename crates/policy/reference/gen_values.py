"""Values for the generator: numbers in many spellings, tricky strings, files and URLs.
`gen_operators` selects from them for each operator.
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
