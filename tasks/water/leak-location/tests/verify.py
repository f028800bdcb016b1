"""Expected answer: any tests that leave one section within the hours, replayed at their worst.

There is no section that leaks from the start: each test shows what leaves the more expensive
search. So neither earlier answers of the tool nor its source help, and the hours that count are
those of the tests that the answer rests on.
"""

import csv
from functools import lru_cache
from pathlib import Path

from aec_verify import Field, Number, Unusable, Verdict, read_answer, verify

OUTPUT = "/workspace/output.jsonl"
# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
with (INPUTS / "valves.csv").open(encoding="utf-8", newline="") as stream:
    HOURS = {int(row["valve"]): int(row["hours"]) for row in csv.DictReader(stream)}
SECTIONS = len(HOURS) + 1
BUDGET, HALF_BUDGET = 24, 30


@lru_cache(maxsize=None)
def least_hours(first: int, last: int) -> int:
    """Return the hours that the best plan needs at worst for the sections from first to last."""
    if first == last:
        return 0
    return min(
        HOURS[valve] + max(least_hours(first, valve), least_hours(valve + 1, last))
        for valve in range(first, last)
    )


def sections_left(tests: list[int]) -> tuple[int, int]:
    """Return the first and the last section where the leak can still be after tests."""
    first, last = 1, SECTIONS
    for valve in tests:
        if first <= valve < last:
            falls = least_hours(first, valve) > least_hours(valve + 1, last)
            first, last = (first, valve) if falls else (valve + 1, last)
    return first, last


def valves_in(value: object) -> list[int] | None:
    """Return the valves that a part of an answer lists, if it does; 8.0 is valve 8."""
    if not isinstance(value, list) or len(value) > SECTIONS:
        return None
    if not all(type(one) in (int, float) and one in HOURS for one in value):
        return None
    return [int(one) for one in value]


class Tests(Field):
    """Tests that leave one section; the fewer hours, the better."""

    expected = []
    tolerance = "exact"

    def judge(self, value: object) -> Verdict:
        """Replay the tests, and count their hours."""
        tests = valves_in(value)
        if tests is None:
            return Verdict(0.0, "is not a list of at most 24 valves from 1 to 23")
        first, last = sections_left(tests)
        hours = sum(HOURS[valve] for valve in tests)
        if first < last:
            return Verdict(0.0, f"the leak can still be in sections {first} to {last}")
        if hours > BUDGET:
            return Verdict(0.5 if hours <= HALF_BUDGET else 0.0, f"takes {hours} hours")
        return Verdict(1.0)


class Nothing(Field):
    """A figure of tests that earn nothing."""

    expected = 0
    tolerance = "exact"

    def judge(self, value: object) -> Verdict:
        """Give nothing."""
        return Verdict(0.0, "counts only with tests that leave one section within the hours")


try:
    reported = read_answer(OUTPUT).get("tests")
except Unusable:
    reported = None
tests = valves_in(reported)
fields: dict[str, Field] = {"tests": Tests(weight=0.6)}
if tests is not None and fields["tests"].judge(reported).score > 0:
    fields["leaking_section"] = Number(sections_left(tests)[0], weight=0.25)
    fields["crew_hours"] = Number(sum(HOURS[valve] for valve in tests), weight=0.15)
else:
    fields["leaking_section"] = Nothing(weight=0.25)
    fields["crew_hours"] = Nothing(weight=0.15)

verify(fields, output=OUTPUT)
