"""The final table of counts, and which cells had too few hits. Cells that
cannot occur are named, each with its reason.
"""

from operators import OPERATORS

OPS = list(OPERATORS)
POLARITIES = ["require", "deny_if", "approve_if"]
ANSWERS = ["true", "false", "absent", "mismatch"]
CODES = ["allow", "approve", "hidden", "not_listed", "not_offered", "denied", "not_accepted",
         "definition_changed", "invalid_arguments", "require", "deny_if", "type_mismatch",
         "amount", "limit"]
IMPOSSIBLE_CELLS = {
    ("exists", polarity, "absent"):
        "exists tests for absence: an absent value makes it true or false"
    for polarity in POLARITIES}
IMPOSSIBLE_CODES = {
    "no_policy": "every request has a policy",
    "approval_pending": "the result is the decision approve, which has no code",
    "approval_denied": "given after a review, not by the pure function",
    "approval_expired": "given when an approval request expires, not by the pure function",
    "approval_unavailable": "given if approvals are not available, not by the pure function",
    "store_unavailable": "there is no store",
    "upstream_unreachable": "there is no upstream",
    "upstream_timeout": "there is no upstream",
    "upstream_gone": "there is no upstream",
}


def thin(codes, cells, fault_kinds, faults, least):
    """Describe what had fewer than `least` hits, or hits where none are possible."""
    found = [f"code {c}: {codes.get(c, 0)}" for c in CODES if codes.get(c, 0) < least]
    found += [f"code {c}: cannot occur, but did" for c in codes if c not in CODES]
    for op in OPS:
        for polarity in POLARITIES:
            for answer in ANSWERS:
                cell = (op, polarity, answer)
                hits = cells.get(cell, 0)
                if cell in IMPOSSIBLE_CELLS:
                    if hits:
                        found.append(f"cell {' '.join(cell)}: cannot occur, but did")
                elif hits < least:
                    found.append(f"cell {' '.join(cell)}: {hits}")
    # One policy in twenty has an inserted error, so one hit per kind is enough.
    found += [f"inserted error {kind}: none" for kind in fault_kinds
              if least and not faults.get(kind)]
    return found


def text(codes, cells, faults):
    lines = ["codes and decisions"]
    lines += [f"  {code:<20}{codes.get(code, 0):>12,}" for code in CODES]
    lines += ["", "conditions" + " " * 15 + "".join(f"{a:>12}" for a in ANSWERS)]
    for op in OPS:
        for polarity in POLARITIES:
            hits = ["-" if (op, polarity, a) in IMPOSSIBLE_CELLS
                    else f"{cells.get((op, polarity, a), 0):,}" for a in ANSWERS]
            lines.append(f"  {op:<12}{polarity:<11}" + "".join(f"{h:>12}" for h in hits))
    lines += ["", f"policies with an inserted error: {sum(faults.values()):,}"
                  f" of {len(faults)} kinds", "", "cannot occur"]
    for cell, reason in IMPOSSIBLE_CELLS.items():
        lines.append(f"  {' '.join(cell)}: {reason}")
    for code, reason in IMPOSSIBLE_CODES.items():
        lines.append(f"  code {code}: {reason}")
    return "\n".join(lines)
