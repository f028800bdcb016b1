"""Tests of paired tasks: a sign-flip test of the mean change, and Holm's correction of several.

If nothing changed, a task's change is as likely to be its opposite. So the mean change is compared
with those of all choices of signs: exactly where they can be counted, else by drawing some.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from operator import add
from typing import TYPE_CHECKING

from pytest_aecbench.reports.statistics import LEVEL, Interval, mean_interval
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["MIN_TASKS", "TOO_FEW", "Change", "holm", "paired_change", "sign_flip_p", "too_few_text"]

# Of n tasks that all fell, 1 choice of signs in 2 ** n is as low, and one is as high.
MIN_TASKS = math.ceil(math.log2(2 / LEVEL))
TOO_FEW = f"too few tasks to tell, at least {MIN_TASKS} are needed"
# Sums of half of the tasks, which are counted; 12 tasks have at most so many.
_MAX_SUMS = 2**12
# With what was seen, 1,000 and 5,000: the first tells what is far from significant.
_DRAWS = (999, 4_999)
# Means of up to 16 rewards with four decimals are whole numbers of these, so equal sums are equal.
_UNITS = math.lcm(*range(1, 17)) * 10**4


@dataclass(frozen=True, slots=True)
class Change:
    """The mean change of paired tasks; ``p`` is None where too few tasks could show anything."""

    interval: Interval
    p: float | None


def paired_change(changes: Sequence[float]) -> Change:
    """Return the mean of the tasks' changes, from -1 to 1, and how well chance explains it."""
    p = sign_flip_p(changes) if len(changes) >= MIN_TASKS else None
    return Change(mean_interval(changes, -1.0, 1.0), p)


def too_few_text(tasks: int) -> str:
    """Return why a comparison of so few tasks has no p value."""
    return f"{counted(tasks, 'task')}: {TOO_FEW}"


def sign_flip_p(changes: Iterable[float]) -> float:
    """Return the two-sided p of the sign-flip test; the same every time for the same changes.

    Flipping the signs of some tasks makes the sum no higher if their own sum is not below 0. So
    sums of all choices of tasks are counted, at or above 0 and at or below it.
    """
    units = sorted((round(change * _UNITS) for change in changes), key=abs)
    units = [unit for unit in units if unit]
    halves = [_counted_sums(units[start::2]) for start in (0, 1)]
    if halves[0] is not None and halves[1] is not None:
        return _two_sided(*_exact_shares(halves[0], halves[1]))
    draw = random.Random(0)  # noqa: S311  (to be repeated, not to be secret)
    few, many = _DRAWS
    p = _two_sided(*_drawn_shares(units, few, draw))
    return p if p > 2 * LEVEL else _two_sided(*_drawn_shares(units, many, draw))


def _two_sided(falls: float, rises: float) -> float:
    return min(1.0, 2 * min(falls, rises))


def _counted_sums(units: Sequence[int]) -> Mapping[int, int] | None:
    """Return how many choices of units have each sum; None if there are too many sums."""
    sums = Counter({0: 1})
    for unit in units:
        longer = Counter(sums)
        for total, count in sums.items():
            longer[total + unit] += count
        if len(longer) > _MAX_SUMS:
            return None
        sums = longer
    return sums


def _exact_shares(one: Mapping[int, int], other: Mapping[int, int]) -> tuple[float, float]:
    """Return the shares of choices whose sum is not below 0, and not above 0."""
    totals = sorted(other)
    below = [0, *accumulate(other[total] for total in totals)]
    choices = sum(one.values()) * below[-1]
    negative = sum(count * below[bisect_left(totals, -total)] for total, count in one.items())
    not_positive = sum(count * below[bisect_right(totals, -total)] for total, count in one.items())
    return (choices - negative) / choices, not_positive / choices


def _drawn_shares(units: Sequence[int], draws: int, draw: random.Random) -> tuple[float, float]:
    """Return the same of drawn choices, and of the one that flips nothing."""
    sums = [0] * draws
    for start in range(0, len(units), 8):
        # A drawn byte chooses among eight units; all their sums are made once.
        table = [0]
        for unit in units[start : start + 8]:
            table += [total + unit for total in table]
        chosen = draw.randbytes(draws).translate(bytes(n % len(table) for n in range(256)))
        sums = list(map(add, sums, map(table.__getitem__, chosen)))
    not_below = 1 + sum(total >= 0 for total in sums)
    not_above = 1 + sum(total <= 0 for total in sums)
    return not_below / (draws + 1), not_above / (draws + 1)


def holm(values: Sequence[float]) -> list[float]:
    """Return p values so raised that all of them together hold the level of one."""
    order = sorted(range(len(values)), key=values.__getitem__)
    adjusted = [0.0] * len(values)
    least = 0.0
    for rank, index in enumerate(order):
        least = max(least, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = least
    return adjusted
