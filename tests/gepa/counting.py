"""Rules counted over the episodes of many tasks: the proposer that `gepa` gets, so that proposals are not what is compared.

A rule is kept if its action was right in at least 60 % of the cases in which its conditions held, and if feedback stated it at least twice. What was right
is what the review names or, without a review, what was done. Look-ups are proposed when two reviews ask for one.
"""

import re

from compare import texts

LEAST_SHARE = 0.6
LEAST_STATED = 2


def facts_of(record):
    """Facts that the episode showed, in its opening or later."""
    shown = [texts(turn["observation"]) for turn in record["turns"]]
    shown += [texts(turn["tool_results"]) for turn in record["turns"]]
    return dict(re.findall(r"^([a-z_ ]+): (\S+)$", "\n".join(shown), re.MULTILINE))


def done_in(record):
    """The name of the last tool that was called."""
    calls = [part for turn in record["turns"] for part in turn["action"]["parts"] if part.get("type") == "tool_call"]
    return calls[-1]["name"] if calls else None


class Counting:
    def __init__(self):
        # By episode, so that one that is shown twice counts once.
        self.cases = {}
        self.looks = {}

    def see(self, record):
        last = record["turns"][-1]["tool_results"] if record["turns"] else []
        end = texts([*record["closing"], *last])
        expected = re.search(r"^expected: (.+)$", end, re.MULTILINE)
        because = re.search(r"^because: (.+)$", end, re.MULTILINE)
        conditions = because[1].split(" and ") if because else []
        opening = texts(record["turns"][0]["observation"]) if record["turns"] else ""
        stated = dict(condition.split(" is ", 1) for condition in conditions if " is " in condition)
        facts = {**facts_of(record), **stated}
        self.cases[record["id"]] = (facts, expected and expected[1], done_in(record), conditions)
        for fact, action in re.findall(r"^not looked up: (.+?), which (.+) shows$", end, re.MULTILINE):
            value = re.search(rf"^{re.escape(fact)}: (.+)$", opening, re.MULTILINE)
            if value:
                rule = f"when {fact} is {value[1]}: {action}"
                self.looks.setdefault(rule, set()).add(record["id"])

    def rules(self):
        stated = {}
        for facts, expected, _, conditions in self.cases.values():
            if not expected:
                continue
            options = [tuple(sorted(conditions))] + [(condition,) for condition in conditions if len(conditions) > 1]
            for option in options:
                stated[option, expected] = stated.get((option, expected), 0) + 1
        kept = []
        for (conditions, action), times in stated.items():
            wanted = dict(condition.split(" is ", 1) for condition in conditions if " is " in condition)
            tool = action.split()[1] if action.startswith("call ") else action
            held = right = 0
            for facts, expected, done, _ in self.cases.values():
                if any(facts.get(fact) != value for fact, value in wanted.items()):
                    continue
                held += 1
                right += expected == action if expected else done == tool
            if times >= LEAST_STATED and held and right / held >= LEAST_SHARE:
                kept.append((len(conditions), -times, f"when {' and '.join(conditions)}: {action}"))
        # A later rule decides where two apply: general ones first, and look-ups before all.
        looks = sorted(rule for rule, seen in self.looks.items() if len(seen) >= LEAST_STATED)
        return looks + [rule for _, _, rule in sorted(kept)]
