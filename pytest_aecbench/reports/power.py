"""The least difference that a design of tasks and repetitions can detect.

Two agents, or one agent twice, attempt the same tasks. There are two extremes: every trial is a
matter of luck, or repetitions agree and a lower mean means that some tasks fell from 1 to 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from pytest_aecbench.reports.paired import MIN_TASKS, TOO_FEW
from pytest_aecbench.reports.statistics import LEVEL, t_quantile

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["POWER", "Detectable", "detectable_text", "least_detectable"]

# How likely the test finds a difference of the size that is given.
POWER = 0.8
# Of more tasks, not every outcome is counted.
_COUNTED_TASKS = 100


@dataclass(frozen=True, slots=True)
class Detectable:
    """The least detectable difference of a design, and that with any number of repetitions.

    None where no difference up to 1 is likely to be found.
    """

    least: float | None
    however_often: float | None


def least_detectable(tasks: int, repetitions: int, mean: float = 0.5) -> Detectable:
    """Return the least difference of two mean rewards that the sign-flip test is likely to find.

    It is the larger one of both extremes. ``mean`` is the expected reward; 0.5 is the hardest case.
    """
    if tasks < MIN_TASKS:
        return Detectable(None, None)
    by_task = _least(lambda share: _at_least(MIN_TASKS, tasks, share) >= POWER)
    if repetitions == 1 and tasks <= _COUNTED_TASKS:
        by_luck = _least(lambda difference: _is_found_in_single_trials(tasks, difference, mean))
    else:
        by_luck = _difference_of_means(tasks, repetitions, mean)
    return Detectable(
        None if by_luck is None or by_task is None else max(by_luck, by_task), by_task
    )


def detectable_text(tasks: int, least: float | None) -> str:
    """Return what a comparison of so many tasks is likely to find."""
    if tasks < MIN_TASKS:
        return TOO_FEW
    if least is None:
        return "no difference is likely to be found, more tasks are needed"
    return f"differences from {least:.2f} on are likely to be found"


def _difference_of_means(tasks: int, repetitions: int, mean: float) -> float | None:
    """Return the difference that is found if every trial is luck, for means that are normal."""
    freedom = min(tasks - 1, 10_000)  # beyond it, the quantiles are those of a normal distribution
    # Both sides of the level, and one side of the power.
    quantiles = t_quantile(1 - LEVEL, freedom) + t_quantile(2 * POWER - 1, freedom)
    # Sums of passed trials change in steps of two when a sign is flipped: half a step for that.
    step = 1 / repetitions / tasks
    found = quantiles * math.sqrt(2 * mean * (1 - mean) * step) + step
    return found if found <= 1 else None


def _is_found_in_single_trials(tasks: int, difference: float, mean: float) -> bool:
    """Return whether the difference is found if every trial is luck and tasks have one each.

    Changes are then -1, 0 or 1, and the test asks how many of those that are not 0 are -1.
    """
    before = min(max(mean + difference / 2, difference), 1.0)
    after = before - difference
    falls, rises = before * (1 - after), after * (1 - before)
    changes = falls + rises
    found = (
        _binomial(tasks, changed, changes)
        * _at_least(_needed_falls(changed), changed, falls / changes)
        for changed in range(MIN_TASKS, tasks + 1)
    )
    return math.fsum(found) >= POWER


@cache
def _needed_falls(changed: int) -> int:
    """Return how many of the tasks that changed must have fallen to be more than chance."""
    return next(
        needed for needed in range(changed + 1) if 2 * _at_least(needed, changed, 0.5) <= LEVEL
    )


def _least(is_enough: Callable[[float], bool]) -> float | None:
    """Return the least share that is enough, to four decimals; None if 1 is not."""
    low, high = 0.0, 1.0
    if not is_enough(high):
        return None
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _at_least(needed: int, n: int, share: float) -> float:
    """Return the probability that at least so many of ``n`` happen, each with a probability."""
    return 1 - math.fsum(_binomial(n, count, share) for count in range(needed))


def _binomial(n: int, count: int, share: float) -> float:
    return math.comb(n, count) * share**count * (1 - share) ** (n - count)
