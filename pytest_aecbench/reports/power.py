"""The least difference that a design of tasks and repetitions can detect."""

from __future__ import annotations

import math
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_aecbench.reports.paired import MIN_TASKS
from pytest_aecbench.reports.statistics import LEVEL, t_quantile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["POWER", "least_detectable", "least_detectable_change"]

# How likely a difference of this size is found.
POWER = 0.8


def least_detectable(
    tasks: int, repetitions: int, *, mean: float = 0.5, between: float | None = None
) -> float | None:
    """Return the least difference of two mean rewards that is found; None if none of up to 1 is.

    Both are measured on the same tasks. ``mean`` is the expected reward, and ``between`` the share
    of the variance of rewards that lies between tasks: at 0 every trial is drawn from one lot, at 1
    repetitions of a task agree. Without it, the answer holds for any share.
    """
    if between is None:
        ends = [
            least_detectable(tasks, repetitions, mean=mean, between=share) for share in (0.0, 1.0)
        ]
        return None if ends[0] is None or ends[1] is None else max(ends[0], ends[1])
    within = (1 - between) * 2 * mean * (1 - mean) / repetitions
    # Where repetitions agree, a lower mean means that some tasks fell from 1 to 0.
    return _least(tasks, lambda change: within + between * change * (1 - change))


def least_detectable_change(changes: Sequence[float]) -> float | None:
    """Return the same for tasks whose changes were measured.

    One further task that changed wholly counts in the variance, because tasks that happened not to
    change do not show that none can.
    """
    n = len(changes)
    middle = fmean(changes)
    variance = (math.fsum((change - middle) ** 2 for change in changes) + 1) / n
    return _least(n, lambda _: variance)


def _least(tasks: int, variance: Callable[[float], float]) -> float | None:
    """Return the least change that is as large as the test needs for its variance."""
    if tasks < MIN_TASKS:
        return None
    freedom = min(tasks - 1, 10_000)  # beyond it, the quantiles are those of a normal distribution
    # A quantile for both sides of the level, and for one side of the power.
    needed = t_quantile(1 - LEVEL, freedom) + t_quantile(2 * POWER - 1, freedom)
    low, high = 0.0, 1.0
    if not _is_found(high, needed, tasks, variance):
        return None
    while high - low > 1e-6:
        middle = (low + high) / 2
        if _is_found(middle, needed, tasks, variance):
            high = middle
        else:
            low = middle
    return high


def _is_found(change: float, needed: float, tasks: int, variance: Callable[[float], float]) -> bool:
    return change >= needed * math.sqrt(variance(change) / tasks)
