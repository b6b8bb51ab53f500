"""Shrinks a case with a difference: parts of the policy and of the call are removed
or replaced by simpler ones as long as the two evaluators differ.
"""

from jsontext import Pairs, Raw, read_keeping, utf8_string, write_json

PATIENCE = 1500  # attempts


def _smaller(value):
    """Yield simpler values, the simplest first."""
    if type(value) is dict:
        for key in value:
            yield {k: v for k, v in value.items() if k != key}
        for key, child in value.items():
            for less in _smaller(child):
                yield {**value, key: less}
    elif type(value) is Pairs:
        for n in range(len(value)):
            yield Pairs(value[:n] + value[n + 1:])
    elif type(value) is list:
        if len(value) > 1:
            yield value[:len(value) // 2]
            yield value[len(value) // 2:]
        for n in range(len(value)):
            yield value[:n] + value[n + 1:]
        for n, child in enumerate(value):
            for less in _smaller(child):
                yield value[:n] + [less] + value[n + 1:]
    elif type(value) is Raw and value not in ("0", "1"):
        yield Raw("1")
        if len(value) > 6:
            yield Raw(value[:len(value) // 2].rstrip(".eE+-") or "1")


def _smaller_call(call):
    """Yield simpler calls that keep the members every call has."""
    kept = [key for key in ("tool", "resource", "prompt", "method", "at") if key in call]
    for less in _smaller(call):
        if all(key in less for key in kept):
            yield less


def shrink(policy_text, call_text, still_differs):
    """(policy text, call text or None); `still_differs` takes the same two."""
    policy = read_keeping(policy_text)
    call = read_keeping(call_text) if call_text is not None else None
    left = [PATIENCE]

    def texts(p, c):
        return write_json(p, utf8_string), None if c is None else write_json(c, utf8_string)

    def improve(candidates, differs_with):
        for less in candidates:
            if left[0] <= 0:
                return None
            left[0] -= 1
            if differs_with(less):
                return less
        return None

    while left[0] > 0:
        smaller_policy = improve(_smaller(policy), lambda p: still_differs(*texts(p, call)))
        if smaller_policy is not None:
            policy = smaller_policy
            continue
        smaller_call = None
        if call is not None:
            smaller_call = improve(_smaller_call(call),
                                   lambda c: still_differs(*texts(policy, c)))
        if smaller_call is None:
            break
        call = smaller_call
    return texts(policy, call)
