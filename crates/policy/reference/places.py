"""File paths, URLs and resource URIs: what `path_within` and `host_in` compare,
and which URIs are refused unless listed exactly.
"""

import ipaddress
import re

HOST_LABEL = re.compile(r"[A-Za-z0-9-]+\Z")
OCTET = r"(?:0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
IPV4 = re.compile(OCTET + r"(?:\." + OCTET + r"){3}\Z")
NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0[xX][0-9a-fA-F]*)\Z")
PORT = re.compile(r"[1-9][0-9]{0,4}\Z")
SCHEME = re.compile(r"[hH][tT][tT][pP][sS]?://")
ESCAPES = re.compile(r"%(?:2e|2f|5c|00)", re.IGNORECASE | re.ASCII)
# An authority starts at `//`; `///` has an empty one. After a web scheme any number of slashes starts one.
USERINFO = re.compile(r"(?<!/)//[^/?#]*@|(?:https?|wss?|ftp):/*[^/?#]*@",
                      re.IGNORECASE | re.ASCII)  # without ASCII, the long s would match an s


def normal_path(text):
    """Return the segments of an absolute path after lexical normalization, or None."""
    if not text.startswith("/") or "\0" in text or "\\" in text:
        return None
    result = []
    for segment in text.split("/"):
        if segment in ("", "."):
            continue
        if segment == "..":
            if result:
                result.pop()
        else:
            result.append(segment)
    return result


def _host_and_port(text):
    """(host in lower case, port text or None, whether an IP) of `host[:port]`, else None."""
    if text.startswith("["):
        inner, bracket, rest = text[1:].partition("]")
        if not bracket:
            return None
        try:
            address = ipaddress.IPv6Address(inner)
        except ValueError:
            return None
        # An IPv4-mapped address has two canonical forms, with dots (RFC 5952) and without (URL
        # Standard). The specification allows neither.
        if "%" in inner or str(address) != inner or address.ipv4_mapped is not None:
            return None
        host, is_ip = "[" + inner + "]", True
    else:
        host, colon, port = text.partition(":")
        rest = colon + port
        labels = host.split(".")
        if not all(HOST_LABEL.match(label) for label in labels):
            return None
        is_ip = False
        if NUMERIC_LABEL.match(labels[-1]):
            # A host that a resolver would read as a number must be a plain dotted quad.
            if not IPV4.match(host):
                return None
            is_ip = True
    if not rest:
        return host.lower(), None, is_ip
    if not rest.startswith(":") or not PORT.match(rest[1:]) or int(rest[1:]) > 65535:
        return None
    return host.lower(), rest[1:], is_ip


def url_host(text):
    """(host, port, is_ip) of an absolute http(s) URL with a plain host, else None."""
    if any(c <= " " or "\x7f" <= c <= "\x9f" or c == "\\" or c.isspace() for c in text):
        return None
    scheme = SCHEME.match(text)
    if not scheme:
        return None
    authority = re.split("[/?#]", text[scheme.end():], maxsplit=1)[0]
    # Userinfo, `%` and non-ASCII letters all fail the label check.
    return _host_and_port(authority)


def host_member(text):
    """(wildcard, host, port) of a member `[*.]host[:port]`, else None."""
    wildcard = text.startswith("*.")
    found = _host_and_port(text[2:] if wildcard else text)
    if found is None or (wildcard and found[2]):
        return None
    return wildcard, found[0], found[1]


def host_is_member(url, members):
    host, port, is_ip = url
    for wildcard, base, member_port in members:
        if port != member_port:
            continue
        if wildcard:
            if not is_ip and host.endswith("." + base):
                return True
        elif host == base:
            return True
    return False


def unsafe_uri(uri):
    """Return whether a URI is ambiguous."""
    if any(c < " " or "\x7f" <= c <= "\x9f" or c.isspace() for c in uri):
        return True
    if "\\" in uri or ESCAPES.search(uri) or USERINFO.search(uri):
        return True
    # `note:../x` has a dot segment as well: a colon ends a scheme, and may end a part elsewhere.
    return any(segment in (".", "..") for segment in re.split("[/?#:]", uri))
