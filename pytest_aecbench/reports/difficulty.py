"""Declared difficulties against rewards, for templates whose levels may not differ."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pytest_aecbench.reports.results import TrialResult, final_results
from pytest_aecbench.reports.statistics import (
    Interval,
    difference_interval,
    mean_interval_by_task,
)

__all__ = ["LEVELS", "Difference", "TemplateDifficulty", "difficulties"]

LEVELS = ("easy", "medium", "hard")
MIN_TASKS = 5
_GENERATED = re.compile(r"(?:.*/)?([^/]+/[^/]+)/(easy|medium|hard)-[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of a level less that of the next harder one, with its 95 % interval."""

    easier: str
    harder: str
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TemplateDifficulty:
    """The mean rewards of a template's levels, and how they compare."""

    template: str
    means: Mapping[str, float]
    tasks: Mapping[str, int]
    differences: tuple[Difference, ...]

    @property
    def verdict(self) -> str:
        """One of: differ, reversed, do not differ, too few tasks."""
        if len(self.means) < 2 or min(self.tasks.values()) < MIN_TASKS:
            return "too few tasks"
        if any(one.high < 0 for one in self.differences):
            return "reversed"
        return "differ" if all(one.low > 0 for one in self.differences) else "do not differ"


def difficulties(results: Iterable[TrialResult]) -> list[TemplateDifficulty]:
    """Return a line for each template whose generated tasks have rewards.

    Trials of one task count as one, by their mean, because they share its numbers.
    """
    rewards: dict[str, dict[str, dict[str, list[float]]]] = {}
    for result in final_results(list(results)):
        match = _GENERATED.fullmatch(result.task_id)
        if match and result.scored and result.reward is not None:
            levels = rewards.setdefault(match[1], {})
            levels.setdefault(match[2], {}).setdefault(result.task_id, []).append(result.reward)
    return [_compared(template, levels) for template, levels in sorted(rewards.items())]


def _compared(
    template: str, levels: Mapping[str, Mapping[str, Sequence[float]]]
) -> TemplateDifficulty:
    found = {level: mean_interval_by_task(levels[level]) for level in LEVELS if level in levels}
    return TemplateDifficulty(
        template=template,
        means={level: one.mean for level, one in found.items()},
        tasks={level: one.n for level, one in found.items()},
        differences=tuple(_difference(one, two, found) for one, two in pairwise(found)),
    )


def _difference(easier: str, harder: str, found: Mapping[str, Interval]) -> Difference:
    between = difference_interval(found[easier], found[harder])
    return Difference(easier, harder, between.mean, between.low, between.high)
