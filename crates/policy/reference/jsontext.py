"""JSON as text: a strict reader with exact numbers, and a writer that keeps
the spelling of numbers. No number becomes a float.
"""

import json
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring, encode_basestring_ascii

MAX_DIGITS = 1000
MAX_MAGNITUDE = Decimal("1e308")


class JsonError(ValueError):
    """The text is not JSON that the language accepts."""


class Raw(str):
    """A number in its original spelling."""


class Pairs(list):
    """An object written as (key, value) pairs, so that a key can be repeated."""


def _number(text):
    mantissa = text.lower().partition("e")[0]
    if sum(c.isdigit() for c in mantissa) > MAX_DIGITS:
        raise JsonError("a number of more than 1,000 digits")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise JsonError("a number out of reach") from None
    if abs(value) > MAX_MAGNITUDE:
        raise JsonError("a number beyond 10^308")
    return value


def _no_constant(text):
    raise JsonError("not JSON: " + text)


def _object(pairs):
    result = dict(pairs)
    if len(result) != len(pairs):
        raise JsonError("repeated key")
    return result


def _object_kept(pairs):
    result = dict(pairs)
    return result if len(result) == len(pairs) else Pairs(pairs)


_STRICT = json.JSONDecoder(object_pairs_hook=_object, parse_int=_number,
                           parse_float=_number, parse_constant=_no_constant)
_KEEPING = json.JSONDecoder(object_pairs_hook=_object_kept, parse_int=Raw,
                            parse_float=Raw, parse_constant=_no_constant)


def _decode(decoder, text):
    try:
        value = decoder.decode(text)
    except JsonError:
        raise
    except (ValueError, RecursionError) as fault:
        raise JsonError(str(fault)) from None
    # Python accepts a lone surrogate; here it is refused, because it is not valid Unicode.
    if "\\u" in text or not text.isascii():
        _no_surrogates(value)
    return value


def _no_surrogates(value):
    if isinstance(value, str):
        if any("\ud800" <= c <= "\udfff" for c in value):
            raise JsonError("a lone surrogate")
    elif isinstance(value, dict):
        for key, child in value.items():
            _no_surrogates(key)
            _no_surrogates(child)
    elif isinstance(value, (list, tuple)):
        for child in value:
            _no_surrogates(child)


def read_json(text):
    """Values as str, Decimal, bool, None, list and dict; repeated keys are refused."""
    return _decode(_STRICT, text)


def read_keeping(text):
    """Like read_json, but numbers stay Raw and objects with repeated keys stay Pairs."""
    return _decode(_KEEPING, text)


def write_json(value, string=encode_basestring_ascii):
    """The text of a value; numbers are Raw, int or Decimal."""
    kind = type(value)
    if kind is str:
        return string(value)
    if kind is Raw:
        return str(value)
    if kind is dict:
        return "{" + ",".join([string(k) + ":" + write_json(v, string)
                               for k, v in value.items()]) + "}"
    if kind is list:
        return "[" + ",".join([write_json(v, string) for v in value]) + "]"
    if kind is Pairs:
        return "{" + ",".join([string(k) + ":" + write_json(v, string)
                               for k, v in value]) + "}"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if kind is int:
        return str(value)
    if kind is Decimal:
        return plain(value)
    raise TypeError(kind)


def parts(number):
    """(negative, digits, exponent) by value: no zeros at either end of the digits."""
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    if not short:
        return False, "", 0
    return bool(sign), short, exponent + len(text) - len(short)


def digits_around_point(number):
    """Return the number of digits before and after the decimal point."""
    _, digits, exponent = parts(number)
    return max(0, len(digits) + exponent), max(0, -exponent)


def is_whole(number):
    return parts(number)[2] >= 0


def plain(number):
    """Return decimal text without exponent and superfluous zeros."""
    negative, digits, exponent = parts(number)
    if not digits:
        return "0"
    if exponent >= 0:
        text = digits + "0" * exponent
    else:
        digits = digits.rjust(1 - exponent, "0")
        text = digits[:exponent] + "." + digits[exponent:]
    return "-" + text if negative else text


def utf8_string(value):
    """Return a JSON string with as few escapes as possible."""
    return encode_basestring(value)
