"""A worker of the comparison: generates its share of the cases, runs both evaluators,
and reports counts and differences to the driver.
"""

import itertools
import time
import traceback
from collections import Counter

from child import Child, ChildError
from evaluator import Tally
from generate import make_case, request_line
from shrink import shrink
from verdicts import first_difference, ours, theirs

AHEAD = 12        # cases sent before the first response is read
REPORT = 0.5      # seconds between reports
PATIENCE = 60.0   # seconds to look for more differences after the first


class Worker:
    def __init__(self, program, seed, report, most):
        self.child = Child(program)
        self.program = program
        self.seed = seed
        self.report = report
        self.most = most
        self.tally = Tally()
        self.counts = Counter()
        self.faults = Counter()
        self.differences = 0

    def flush(self):
        self.report.put(("counts", self.counts, self.tally.codes, self.tally.cells, self.faults))
        self.tally = Tally()
        self.counts = Counter()
        self.faults = Counter()

    def run(self, indexes, quota):
        """Yield cases until the quota of pairs is met. A refused policy adds none."""
        waiting = []
        sent = 0
        reported = time.monotonic()
        deadline = None
        for index in indexes:
            if sent >= quota:
                break
            case = make_case(self.seed, index)
            self.child.send(case.line())
            waiting.append((index, case))
            sent += 0 if case.fault or case.doubtful else len(case.calls)
            if len(waiting) > AHEAD:
                self.finish(*waiting.pop(0))
            now = time.monotonic()
            if now - reported > REPORT:
                self.flush()
                reported = now
            if self.differences:
                deadline = deadline or now + PATIENCE
                if self.differences >= self.most or now > deadline:
                    break
        for entry in waiting:
            self.finish(*entry)
        self.flush()

    def finish(self, index, case):
        expected = ours(case.policy, case.calls, self.tally)
        got = theirs(self.child.receive(), len(case.calls))
        self.counts["policies"] += 1
        self.counts["pairs"] += 0 if expected is None else len(case.calls)
        self.counts["refused"] += expected is None
        if case.fault:
            self.faults[case.fault] += 1
            if expected is not None:
                raise ChildError(f"policy {index}: the inserted error `{case.fault}` was not detected; "
                                 "generator and evaluator do not agree")
        where = first_difference(expected, got)
        if where is not None and self.differences < self.most:
            self.differences += 1
            self.report.put(("difference", self.describe(index, case, where, expected, got)))

    def describe(self, index, case, where, expected, got):
        """Describe the difference, shrunk with a child process of its own to keep responses apart."""
        result = {"seed": self.seed, "policy_index": index, "fault": case.fault,
                  "call_index": None if where == "load" else where}
        policy = case.policy
        call = None if where == "load" else case.calls[where]
        a, b = (expected, got) if where == "load" else ([expected[where]], [got[where]])
        pair = Pair(self.program)
        if pair.differ(policy, call):
            policy, call = shrink(policy, call, pair.differ)
            a, b = pair.decide_both(policy, call)
        else:
            result["note"] = "the difference disappears when the call is alone"
        pair.child.close()
        result.update(policy=policy, call=call, evaluator=_shown(a, where), subject=_shown(b, where))
        return result


class Pair:
    """Both evaluators, run on one case at a time."""

    def __init__(self, program):
        self.program = program
        self.child = Child(program)

    def decide_both(self, policy, call):
        calls = [] if call is None else [call]
        mine = ours(policy, calls)
        return mine, theirs(self.child.ask(request_line(policy, calls)), len(calls))

    def differ(self, policy, call):
        try:
            return first_difference(*self.decide_both(policy, call)) == ("load" if call is None else 0)
        except ChildError:
            # A smaller case that kills the program is a different bug.
            self.child.close()
            self.child = Child(self.program)
        except (KeyError, TypeError, AttributeError):
            pass  # the call lost a member that every call has
        return False


def _shown(verdict, where):
    if verdict is None:
        return "refused"
    return "ok" if where == "load" else verdict[0]


def work(number, jobs, program, seed, quota, report, most):
    """Entry point of the process: runs every `jobs`-th case from `number` on."""
    worker = None
    try:
        worker = Worker(program, seed, report, most)
        worker.run(itertools.count(number, jobs), quota)
        report.put(("done",))
    except ChildError as fault:
        report.put(("error", str(fault)))
    except KeyboardInterrupt:
        pass
    except Exception:
        report.put(("error", traceback.format_exc()))
    finally:
        if worker:
            worker.child.close()
