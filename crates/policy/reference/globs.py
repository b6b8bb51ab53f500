"""Names and globs. The only wildcard is `*`, which matches any text including `/`;
everything else matches byte for byte.
"""

import re
from functools import lru_cache


def is_glob(text):
    return "*" in text


def literals(glob):
    """Return the number of literal characters of a glob, in code points."""
    return len(glob) - glob.count("*")


@lru_cache(maxsize=4096)
def _compiled(glob):
    return re.compile(".*".join(re.escape(part) for part in glob.split("*")), re.DOTALL)


def matches(glob, name):
    if "*" not in glob:
        return glob == name
    return _compiled(glob).fullmatch(name) is not None


def can_meet(a, b):
    """Return whether a name exists that both globs match."""
    seen = set()
    todo = [(0, 0)]
    while todo:
        i, j = todo.pop()
        if (i, j) in seen:
            continue
        seen.add((i, j))
        if i == len(a) and j == len(b):
            return True
        star_a = i < len(a) and a[i] == "*"
        star_b = j < len(b) and b[j] == "*"
        if star_a:
            todo.append((i + 1, j))       # the star ends here
            if j < len(b):
                todo.append((i, j + 1))   # or it matches the next part of b
        if star_b:
            todo.append((i, j + 1))
            if i < len(a):
                todo.append((i + 1, j))
        if not star_a and not star_b and i < len(a) and j < len(b) and a[i] == b[j]:
            todo.append((i + 1, j + 1))
    return False


def tied(keys):
    """Return the first two globs of equal weight that can match the same name, or None."""
    globs = [key for key in keys if is_glob(key)]
    for n, first in enumerate(globs):
        for second in globs[n + 1:]:
            if literals(first) == literals(second) and can_meet(first, second):
                return first, second
    return None


def find(keys, name):
    """Return the key that applies to a name: exact, else the glob of highest weight, else None."""
    if name in keys and not is_glob(name):
        return name
    best = None
    for key in keys:
        if is_glob(key) and matches(key, name):
            if best is None or literals(key) > literals(best):
                best = key
    return best
