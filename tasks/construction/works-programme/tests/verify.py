"""Expected answer: a programme that meets all conditions, compared with the least cost."""

import csv
import itertools
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from aec_verify import Field, Number, Unusable, Verdict, read_answer, verify

OUTPUT = "/workspace/output.jsonl"
# The verifier keeps its own copies: those in the workspace belong to the agent.
INPUTS = Path(__file__).parent / "inputs"
CLOSURES = ((22, 28), (33, 40))
DECK, DEADLINE, NIGHTS = "G", 42, 1
CRANE_DAY, SITE_DAY = 1.6, 2.2
DEAREST = 1.03  # of the least cost, at which a programme earns nothing


class Mode(NamedTuple):
    days: int
    cost: float
    at_night: bool


def read(name: str) -> list[dict[str, str]]:
    with (INPUTS / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


AFTER = {row["activity"]: row["after"].split() for row in read("activities.csv")}
LIFTED = [row["activity"] for row in read("activities.csv") if row["crane"] == "yes"]
MODES: dict[str, dict[str, Mode]] = {activity: {} for activity in AFTER}
for row in read("modes.csv"):
    MODES[row["activity"]][row["mode"]] = Mode(
        int(row["days"]), float(row["cost_k"]), row["at_night"] == "yes"
    )
Chosen = dict[str, Mode]
Starts = dict[str, int]


def end_day(chosen: Chosen, starts: Starts) -> int:
    return max(starts[activity] + mode.days for activity, mode in chosen.items())


def cost(chosen: Chosen, starts: Starts) -> float:
    hired = max(starts[one] + chosen[one].days for one in LIFTED) - min(map(starts.get, LIFTED))
    work = sum(mode.cost for mode in chosen.values())
    return work + CRANE_DAY * hired + SITE_DAY * end_day(chosen, starts)


def breach(chosen: Chosen, starts: Starts) -> str | None:
    """Return the first condition that a programme does not meet."""
    end = {activity: starts[activity] + mode.days for activity, mode in chosen.items()}
    if any(starts[one] < end[other] for one in AFTER for other in AFTER[one]):
        return "an activity starts before one that it comes after has ended"
    for one, other in itertools.combinations(LIFTED, 2):
        if starts[one] < end[other] and starts[other] < end[one]:
            return "two activities need the crane at once"
    if not any(first <= starts[DECK] and end[DECK] <= last for first, last in CLOSURES):
        return "the deck is not within a closure of the road"
    if sum(mode.at_night for mode in chosen.values()) > NIGHTS:
        return "more than one activity is done at night"
    return "the works end too late" if max(end.values()) > DEADLINE else None


def sequence(order: Sequence[str]) -> list[str] | None:
    """Return the activities so that each follows all that it waits for, the crane included."""
    found: list[str] = []
    while len(found) < len(AFTER):
        ready = [
            one
            for one in AFTER
            if one not in found and set(waits_for(one, order)) <= set(found)
        ]
        if not ready:
            return None
        found += ready
    return found


def waits_for(activity: str, order: Sequence[str]) -> list[str]:
    """Return what an activity comes after, with the crane's work in this order."""
    at = order.index(activity) if activity in order else 0
    return [*AFTER[activity], *order[max(at - 1, 0) : at]]


def earliest(
    chosen: Chosen, order: Sequence[str], activities: Sequence[str], crane_comes: int
) -> Starts | None:
    """Return the earliest starts if the crane comes on a day and works in this order."""
    starts: Starts = {}
    for activity in activities:
        ends = (starts[one] + chosen[one].days for one in waits_for(activity, order))
        day = max(ends, default=0)
        if activity == order[0]:
            day = max(day, crane_comes)
        if activity == DECK:
            days = chosen[DECK].days
            fits = [max(day, first) for first, last in CLOSURES if max(day, first) + days <= last]
            if not fits:
                return None
            day = fits[0]
        starts[activity] = day
    return starts


@lru_cache(maxsize=None)
def least_cost() -> float:
    """Try all modes, all orders of the crane's work, and all days on which the crane may come.

    With these given, nothing is gained by starting an activity later than it can.
    """
    best = float("inf")
    orders = [(order, sequence(order)) for order in itertools.permutations(LIFTED)]
    for combination in itertools.product(*(modes.values() for modes in MODES.values())):
        chosen = dict(zip(MODES, combination))
        if sum(mode.at_night for mode in combination) > NIGHTS:
            continue
        for order, activities in orders:
            day = 0
            while activities:
                starts = earliest(chosen, order, activities, day)
                if starts is None or end_day(chosen, starts) > DEADLINE:
                    break  # later is no better
                best = min(best, cost(chosen, starts))
                day = starts[order[0]] + 1
    return best


class Programme(Field):
    """A programme that meets all conditions; the less it costs, the better."""

    expected = {}
    tolerance = "exact"

    def judge(self, value: object) -> Verdict:
        """Check the conditions, then compare with the least cost."""
        if not isinstance(value, dict) or set(value) != set(AFTER):
            return Verdict(0.0, "is not an object with an entry for each activity")
        for activity, entry in value.items():
            if not isinstance(entry, dict) or entry.get("mode") not in list(MODES[activity]):
                return Verdict(0.0, f"{activity} has no valid mode")
            start = entry.get("start")
            if type(start) not in (int, float) or start not in range(DEADLINE):
                return Verdict(0.0, f"{activity} has no valid start")
        chosen = {activity: MODES[activity][value[activity]["mode"]] for activity in AFTER}
        starts = {activity: int(value[activity]["start"]) for activity in AFTER}
        problem = breach(chosen, starts)
        if problem:
            return Verdict(0.0, problem)
        self.plan = chosen, starts
        least, found = least_cost(), cost(chosen, starts)
        if found <= least + 0.001:
            return Verdict(1.0)
        share = max(0.0, 1 - (found / least - 1) / (DEAREST - 1))
        return Verdict(0.6 * share, f"costs {found:.2f}, which is not the least")


class Nothing(Field):
    """A figure of a programme that earns nothing."""

    tolerance = "exact"

    def __init__(self, expected: float, tolerance: str, weight: float) -> None:
        super().__init__(weight=weight)
        self.expected, self.tolerance = expected, tolerance

    def judge(self, value: object) -> Verdict:
        """Give nothing."""
        return Verdict(0.0, "counts only with a programme that earns something")


try:
    submitted = read_answer(OUTPUT).get("programme")
except Unusable:
    submitted = None
programme = Programme(weight=0.7)
fields: dict[str, Field] = {"programme": programme}
if programme.judge(submitted).score > 0:
    fields["end_day"] = Number(end_day(*programme.plan), weight=0.15)
    fields["cost_k"] = Number(cost(*programme.plan), abs=0.05, weight=0.15)
else:
    fields["end_day"] = Nothing(0, "exact", weight=0.15)
    fields["cost_k"] = Nothing(0.0, "±0.05", weight=0.15)

verify(fields, output=OUTPUT)
