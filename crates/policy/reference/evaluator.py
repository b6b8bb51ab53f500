"""A second, naive evaluator of the policy language, written from its
specification. It must disagree with the other one where either is wrong.
"""

from decide import Tally, decide
from errors import LoadError
from jsontext import JsonError, read_json, write_json
from load import load

__all__ = ["JsonError", "LoadError", "Tally", "decide", "load", "load_text", "read_json",
           "write_json"]


def load_text(text):
    """Load a policy from JSON text. Return None if it is refused."""
    try:
        return load(read_json(text))
    except (JsonError, LoadError):
        return None
