"""Results of both evaluators for one case in a comparable form: None if the policy
is refused, else a list of decisions with numbers as text.
"""

from child import ChildError
from evaluator import decide, load_text, read_json
from jsontext import JsonError, Raw, plain, read_keeping

FIELDS = ("decision", "code", "rule", "charges")


def ours(policy_text, call_texts, tally=None):
    policy = load_text(policy_text)
    if policy is None:
        return None
    return [_comparable(decide(policy, read_json(text), tally)) for text in call_texts]


def _comparable(answer):
    for charge in answer["charges"]:
        charge["max"] = Raw(plain(charge["max"]))
        charge["amount"] = Raw(plain(charge["amount"]))
        if type(charge["window"]) is int:
            charge["window"] = Raw(charge["window"])
    return answer


def theirs(line, count):
    """Return the response line of the program in the same form."""
    try:
        answer = read_keeping(line)
    except JsonError as fault:
        raise ChildError(f"an answer is not JSON ({fault}): {line[:300]}") from None
    if answer == {"load": "refused"}:
        return None
    if type(answer) is dict and answer.get("load") == "refused":
        return None  # a refusal may have more members
    if type(answer) is not dict or answer.get("load") != "ok" \
            or type(answer.get("answers")) is not list or len(answer["answers"]) != count:
        raise ChildError(f"an answer is not of the protocol: {line[:300]}")
    return answer["answers"]


def differs(a, b):
    """Compare with types: a number and a string with the same text differ."""
    if type(a) is not type(b):
        return True
    if type(a) is dict:
        return a.keys() != b.keys() or any(differs(a[k], b[k]) for k in a)
    if type(a) is list:
        return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b))
    return a != b


def first_difference(a, b):
    """Return the index of the first call with a different decision, "load", or None."""
    if (a is None) != (b is None):
        return "load"
    if a is None:
        return None
    for n, (x, y) in enumerate(zip(a, b)):
        if differs(x, y):
            return n
    return None
