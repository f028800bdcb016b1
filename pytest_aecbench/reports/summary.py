"""Summaries per agent: means, intervals, pass@k and what was used up.

Errors are not zeros: every mean is over scored trials. Errors are counted apart, and where there
are any, the mean with errors as zeros is given too.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.reports.results import TrialResult, final_results
from pytest_aecbench.reports.scores import Scores
from pytest_aecbench.reports.statistics import (
    Interval,
    mean_interval_by_task,
    pass_at_k_mean,
    pass_hat_k_mean,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["AgentSummary", "Group", "Total", "group_of", "summarise"]


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over those of ``of`` attempts where the amount is known; None where it never is."""

    value: float | None
    known: int
    of: int


@dataclass(frozen=True, slots=True)
class Group:
    """The figures of a set of one agent's trials; without a scored trial there is no mean.

    ``missing`` is the share of scores that are, where tasks weigh the same, and ``errors_as_zeros``
    the mean if every error had earned 0, where there is one. ``bad_ends`` counts how agents ended
    that failed and did not end well.
    """

    trials: int
    scored: int
    errors: int
    causes: dict[str, int]
    bad_ends: dict[str, int]
    tasks: int
    tasks_scored: int
    missing: float
    mean: Interval | None
    errors_as_zeros: float | None
    pass_at_1: Interval | None


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """The figures of one agent's trials.

    Everything is over public tasks, except ``holdout``, which is over the others, and what the
    agent used up (``attempts`` to ``duration_sec``), which is over every attempt. ``pass_at_k`` and
    ``pass_hat_k`` are for k = ``repetitions``, over the ``pass_k_tasks`` tasks with that many
    scored trials.
    """

    agent: str
    overall: Group
    by_domain: dict[str, Group]
    by_difficulty: dict[str, Group]
    repetitions: int
    pass_at_k: float | None
    pass_hat_k: float | None
    pass_k_tasks: int
    holdout: Group | None
    attempts: int
    tokens_in: Total
    tokens_out: Total
    usd: Total
    duration_sec: float


def summarise(results: Iterable[TrialResult], *, public_only: bool = False) -> list[AgentSummary]:
    """Return a summary per agent, the highest mean first; ``public_only`` leaves holdout tasks out.

    A trial's outcome is that of its final attempt; its cost is that of all of them.
    """
    if public_only:
        results = [result for result in results if result.visibility == "public"]
    by_agent = _split(results, lambda result: result.agent)
    return sorted((_summary(agent, by_agent[agent]) for agent in by_agent), key=_rank)


def _rank(summary: AgentSummary) -> tuple[float, str]:
    mean = summary.overall.mean
    return (-mean.mean if mean else 1.0, summary.agent)


def _summary(agent: str, attempts: Sequence[TrialResult]) -> AgentSummary:
    trials = final_results(attempts)
    public = [trial for trial in trials if trial.visibility == "public"]
    holdout = [trial for trial in trials if trial.visibility != "public"]
    scores = Scores.of(public)
    repetitions = max(scores.trials.values(), default=0)
    by_domain = _split(public, lambda trial: trial.domain)
    by_difficulty = _split(public, lambda trial: trial.difficulty or "unspecified")
    return AgentSummary(
        agent=agent,
        overall=group_of(public),
        by_domain={name: group_of(by_domain[name]) for name in sorted(by_domain)},
        by_difficulty={
            name: group_of(by_difficulty[name]) for name in sorted(by_difficulty, key=_difficulty)
        },
        repetitions=repetitions,
        pass_at_k=pass_at_k_mean(scores.outcomes, repetitions) if repetitions > 1 else None,
        pass_hat_k=pass_hat_k_mean(scores.outcomes, repetitions) if repetitions > 1 else None,
        pass_k_tasks=scores.tasks_with(repetitions) if repetitions > 1 else 0,
        holdout=group_of(holdout) if holdout else None,
        attempts=len(attempts),
        tokens_in=_total([attempt.tokens_in for attempt in attempts]),
        tokens_out=_total([attempt.tokens_out for attempt in attempts]),
        usd=_total([attempt.usd for attempt in attempts]),
        duration_sec=math.fsum(attempt.duration_sec for attempt in attempts),
    )


def _difficulty(name: str) -> tuple[int, str]:
    known = ("easy", "medium", "hard")
    return (known.index(name) if name in known else len(known), name)


def group_of(trials: Sequence[TrialResult]) -> Group:
    """Return the figures of some final attempts of one agent."""
    scores = Scores.of(trials)
    causes = Counter(trial.error_cause for trial in trials if trial.error_cause is not None)
    return Group(
        trials=len(trials),
        scored=sum(map(len, scores.rewards.values())),
        errors=sum(causes.values()),
        causes=dict(sorted(causes.items())),
        bad_ends=dict(sorted(Counter(trial.bad_end for trial in trials if trial.bad_end).items())),
        tasks=len(scores.trials),
        tasks_scored=len(scores.rewards),
        missing=scores.missing() if trials else 0.0,
        mean=scores.mean,
        errors_as_zeros=scores.errors_as_zeros,
        pass_at_1=mean_interval_by_task(scores.outcomes) if scores.outcomes else None,
    )


def _split(
    trials: Iterable[TrialResult], key: Callable[[TrialResult], str]
) -> dict[str, list[TrialResult]]:
    parts: dict[str, list[TrialResult]] = defaultdict(list)
    for trial in trials:
        parts[key(trial)].append(trial)
    return parts


def _total(amounts: Sequence[float | None]) -> Total:
    known = [amount for amount in amounts if amount is not None]
    return Total(sum(known) if known else None, len(known), len(amounts))
