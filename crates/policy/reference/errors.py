"""The error of loading, and checks that all parts of a document share."""


class LoadError(ValueError):
    """The document is not a policy; the message says where and why."""


def need(good, where, what):
    if not good:
        raise LoadError(f"{where}: {what}")


def fields(doc, where, required=(), optional=()):
    """Check that a value is an object with all required fields and no unknown field."""
    need(type(doc) is dict, where, "an object is needed")
    for key in doc:
        need(key in required or key in optional, where, f"unknown field {key}")
    for key in required:
        need(key in doc, where, f"{key} is missing")


def pointer(*parts):
    """Return an RFC 6901 pointer."""
    return "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in parts)
