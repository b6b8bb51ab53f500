"""`validate_arguments`: arguments against a tool's pinned input schema.
A schema that cannot be used validates nothing.
"""

from decimal import Decimal

import jsonschema
from jsonschema.validators import validator_for

from jsontext import is_whole, plain, write_json


def _plain_numbers(value):
    """Convert whole numbers to int, because the library recognizes integers by that type."""
    if type(value) is Decimal:
        return int(plain(value)) if is_whole(value) else value
    if type(value) is list:
        return [_plain_numbers(v) for v in value]
    if type(value) is dict:
        return {k: _plain_numbers(v) for k, v in value.items()}
    return value


def _references(schema):
    if type(schema) is dict:
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef", "$recursiveRef"):
                yield value
            yield from _references(value)
    elif type(schema) is list:
        for value in schema:
            yield from _references(value)


def _resolves(schema, reference):
    """Check that a reference is a pointer to an existing part of the same schema."""
    if type(reference) is not str or not reference.startswith("#"):
        return False
    if reference == "#":
        return True
    if not reference.startswith("#/"):
        return False
    node = schema
    for part in reference[2:].split("/"):
        part = part.replace("~1", "/").replace("~0", "~")
        if type(node) is not dict or part not in node:
            return False
        node = node[part]
    return type(node) in (dict, bool)


_cache = {}


def _validator(schema):
    """Return the compiled schema, or None if it is not usable. Cached, because few schemas occur."""
    text = write_json(schema)
    if text not in _cache:
        if len(_cache) > 5000:
            _cache.clear()
        _cache[text] = _compile(_plain_numbers(schema))
    return _cache[text]


def _compile(schema):
    kind = jsonschema.Draft202012Validator
    if "$schema" in schema:
        kind = validator_for(schema, default=None)
    if kind is None or not all(_resolves(schema, r) for r in _references(schema)):
        return None
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError:
        return None
    return kind(schema)


def satisfied(schema, arguments):
    if type(schema) is not dict or type(schema.get("$schema", "")) is not str:
        return False
    validator = _validator(schema)
    if validator is None:
        return False
    try:
        return validator.is_valid(_plain_numbers(arguments))
    except Exception:
        # Arguments that cannot be evaluated are denied.
        return False
