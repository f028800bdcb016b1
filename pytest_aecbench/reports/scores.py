"""The scores of some trials of one agent, task by task, and how many of them are missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_aecbench.reports.statistics import DECIMALS, mean_interval_by_task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_aecbench.reports.results import TrialResult
    from pytest_aecbench.reports.statistics import Interval

__all__ = ["MAX_MISSING", "Scores", "missing_text"]

# The share of scores that may be missing before a figure of rewards is unknown.
MAX_MISSING = 0.05


@dataclass(frozen=True, slots=True)
class Scores:
    """The rewards and outcomes that are known, and the numbers of trials and errors, by task."""

    rewards: Mapping[str, Sequence[float]]
    outcomes: Mapping[str, Sequence[bool]]
    trials: Mapping[str, int]
    errors: Mapping[str, int]

    @classmethod
    def of(cls, trials: Iterable[TrialResult]) -> Scores:
        """Gather the scores of final attempts."""
        rewards: dict[str, list[float]] = defaultdict(list)
        outcomes: dict[str, list[bool]] = defaultdict(list)
        counts: Counter[str] = Counter()
        errors: Counter[str] = Counter()
        for trial in trials:
            counts[trial.task_id] += 1
            if trial.reward is not None:
                rewards[trial.task_id].append(trial.reward)
            if trial.passed is not None:
                outcomes[trial.task_id].append(trial.passed)
            if trial.error_cause is not None:
                errors[trial.task_id] += 1
        return cls(dict(rewards), dict(outcomes), counts, errors)

    @property
    def mean(self) -> Interval | None:
        """The mean reward of scored trials; None without one."""
        return mean_interval_by_task(self.rewards) if self.rewards else None

    @property
    def errors_as_zeros(self) -> float | None:
        """The mean reward if every error had earned 0; None without an error."""
        if not self.errors:
            return None
        return fmean(
            sum(self.rewards.get(task, ()))
            / (len(self.rewards.get(task, ())) + self.errors.get(task, 0))
            for task in self.rewards.keys() | self.errors.keys()
        )

    def missing(self, k: int = 1) -> float:
        """Return the share of scores that are missing, where tasks weigh the same.

        Of a task with fewer than ``k`` scored trials, all are: it has no figure.
        """
        shares = (
            1 - len(found) / trials if len(found := self.outcomes.get(task, ())) >= k else 1.0
            for task, trials in self.trials.items()
        )
        return round(fmean(shares), DECIMALS)

    def tasks_with(self, k: int) -> int:
        """Return how many tasks have ``k`` scored trials or more."""
        return sum(len(outcomes) >= k for outcomes in self.outcomes.values())


def missing_text(missing: float, allowed: float) -> str:
    """Return why a figure is unknown."""
    return f"{_percent(missing)} of scores are missing, at most {_percent(allowed)} may be"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}".rstrip("0").rstrip(".") + " %"
