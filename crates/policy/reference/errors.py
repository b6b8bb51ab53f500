"""The one fault of loading, and the checks every part of a document shares."""


class LoadError(ValueError):
    """The document is not a policy; the text says where and why."""


def need(good, where, what):
    if not good:
        raise LoadError(f"{where}: {what}")


def fields(doc, where, required=(), optional=()):
    """An object with all of the required fields and no unknown one."""
    need(type(doc) is dict, where, "an object is needed")
    for key in doc:
        need(key in required or key in optional, where, f"unknown field {key}")
    for key in required:
        need(key in doc, where, f"{key} is missing")


def pointer(*parts):
    """An RFC 6901 pointer."""
    return "".join("/" + str(p).replace("~", "~0").replace("/", "~1") for p in parts)
