"""What many trials say together: means, intervals, pass@k, summaries per agent.

Errors are not zeros: every mean is over scored trials, and errors are counted apart. Repetitions of
one task are not independent, so a task's trials are averaged first and intervals are over tasks.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, fields
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pytest_aecbench.ledger.record import TrialRecord

__all__ = [
    "AgentSummary",
    "Group",
    "Interval",
    "Total",
    "TrialResult",
    "final_attempts",
    "mean_interval",
    "mean_interval_by_task",
    "pass_at_k",
    "pass_at_k_mean",
    "pass_hat_k",
    "pass_hat_k_mean",
    "summarise",
    "t_quantile",
    "wilson",
]

Scalar: TypeAlias = "str | int | float | bool | None"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean in [0, 1] and its confidence interval over ``n`` values; one value gives no bounds."""

    mean: float
    low: float | None
    high: float | None
    n: int


def mean_interval(values: Iterable[float], confidence: float = 0.95) -> Interval:
    """Return the mean of independent values with Student's t interval, clipped to [0, 1]."""
    values = list(values)
    n = len(values)
    if not n:
        raise ValueError("the mean of no values is not defined")
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, None, n)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_quantile(confidence, n - 1) * math.sqrt(variance / n)
    return Interval(mean, max(0.0, mean - half), min(1.0, mean + half), n)


def mean_interval_by_task(
    values: Mapping[str, Sequence[float]], confidence: float = 0.95
) -> Interval:
    """Return the mean of the tasks' means, where tasks weigh the same, with its interval."""
    return mean_interval((math.fsum(v) / len(v) for v in values.values() if v), confidence)


@lru_cache(maxsize=256)
def t_quantile(confidence: float, degrees: int) -> float:
    """Return the t that Student's distribution stays within, on both sides, with ``confidence``."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(high)


def _within(angle: float, degrees: int) -> float:
    """Return P(abs(t) <= tan(angle) sqrt(degrees)): Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    odd, cosine = degrees % 2, math.cos(angle)
    term = cosine if odd else 1.0
    total = 0.0 if degrees == 1 else term
    for k in range(1 + odd, degrees - 1, 2):
        term *= cosine * cosine * k / (k + 1)
        total += term
    total *= math.sin(angle)
    return 2 / math.pi * (angle + total) if odd else total


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return a proportion with Wilson's interval, honest also where all or none succeeded."""
    if not 0 <= successes <= n or not n:
        raise ValueError(f"{successes} of {n} is not a proportion")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, shrink = successes / n, 1 + z * z / n
    centre = (share + z * z / (2 * n)) / shrink
    half = z / shrink * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    # Rounding must not put the proportion outside its own interval.
    low, high = min(share, centre - half), max(share, centre + half)
    return Interval(share, max(0.0, low), min(1.0, high), n)


def pass_at_k(n: int, c: int, k: int) -> float:
    """Estimate without bias how likely one of ``k`` trials passes, when ``c`` of ``n`` did."""
    _check_k(n, c, k)
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Estimate without bias how likely all of ``k`` trials pass, when ``c`` of ``n`` did."""
    _check_k(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def _check_k(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")


def pass_at_k_mean(outcomes: Mapping[str, Sequence[bool]], k: int) -> float | None:
    """Return pass@k averaged over the tasks with ``k`` outcomes or more; None if none has."""
    return _mean([pass_at_k(len(o), sum(o), k) for o in outcomes.values() if len(o) >= k])


def pass_hat_k_mean(outcomes: Mapping[str, Sequence[bool]], k: int) -> float | None:
    """Return pass^k averaged over the tasks with ``k`` outcomes or more; None if none has."""
    return _mean([pass_hat_k(len(o), sum(o), k) for o in outcomes.values() if len(o) >= k])


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True)
class TrialResult:
    """What a summary needs to know of one attempt; plain scalars, so that it can cross xdist."""

    task_id: str
    agent: str
    repetition: int
    attempt: int
    domain: str
    difficulty: str | None
    visibility: str
    scored: bool
    reward: float | None
    passed: bool | None
    error_cause: str | None
    tokens_in: int | None
    tokens_out: int | None
    usd: float | None
    duration_sec: float
    trial_id: str = ""
    trial_key: str = ""
    task_digest: str = ""

    @classmethod
    def from_record(cls, record: TrialRecord) -> TrialResult:
        """Take from a record what a summary needs."""
        evaluation = record.evaluation
        return cls(
            task_id=record.task.task_id,
            agent=record.agent.name,
            repetition=record.repetition,
            attempt=record.attempt,
            domain=record.task.domain,
            difficulty=record.task.difficulty,
            visibility=record.task.visibility,
            scored=record.scored,
            reward=evaluation.reward,
            passed=evaluation.passed,
            error_cause=evaluation.error.cause if evaluation.error else None,
            tokens_in=record.cost.tokens_in,
            tokens_out=record.cost.tokens_out,
            usd=record.cost.usd,
            duration_sec=record.timing.spent_sec,
            trial_id=record.trial_id,
            trial_key=record.trial_key,
            task_digest=record.task.digest,
        )

    def to_dict(self) -> dict[str, Scalar]:
        """Return the fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Scalar]) -> TrialResult:
        """Take back what ``to_dict`` gave."""
        return cls(**data)  # type: ignore[arg-type]  # to_dict gave every field its own type


@dataclass(frozen=True, slots=True)
class Total:
    """A sum over those of ``of`` attempts where the amount is known; None where it never is."""

    value: float | None
    known: int
    of: int


@dataclass(frozen=True, slots=True)
class Group:
    """What a set of one agent's trials came to; no scored trial, no mean."""

    trials: int
    scored: int
    errors: int
    causes: dict[str, int]
    mean: Interval | None
    pass_at_1: Interval | None


@dataclass(frozen=True, slots=True)
class AgentSummary:
    """What one agent's trials came to.

    Everything is over public tasks, except ``holdout``, which is over the others, and what the
    agent used up (``attempts`` to ``duration_sec``), which is over every attempt. ``pass_at_k`` and
    ``pass_hat_k`` are for k = ``repetitions``, over the tasks with that many scored trials.
    """

    agent: str
    overall: Group
    by_domain: dict[str, Group]
    by_difficulty: dict[str, Group]
    repetitions: int
    pass_at_k: float | None
    pass_hat_k: float | None
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


def final_attempts(results: Iterable[TrialResult]) -> list[TrialResult]:
    """Return one result per trial: the scored attempt if there is one, else the last."""
    final: dict[tuple[str, str, int], TrialResult] = {}
    for result in results:
        trial = (result.agent, result.task_id, result.repetition)
        other = final.get(trial, result)
        if (result.scored, result.attempt) >= (other.scored, other.attempt):
            final[trial] = result
    return list(final.values())


def _rank(summary: AgentSummary) -> tuple[float, str]:
    mean = summary.overall.mean
    return (-mean.mean if mean else 1.0, summary.agent)


def _summary(agent: str, attempts: Sequence[TrialResult]) -> AgentSummary:
    trials = final_attempts(attempts)
    public = [trial for trial in trials if trial.visibility == "public"]
    holdout = [trial for trial in trials if trial.visibility != "public"]
    outcomes = _by_task(public, lambda trial: trial.passed)
    repetitions = max(Counter(trial.task_id for trial in public).values(), default=0)
    by_domain = _split(public, lambda trial: trial.domain)
    by_difficulty = _split(public, lambda trial: trial.difficulty or "unspecified")
    return AgentSummary(
        agent=agent,
        overall=_group(public),
        by_domain={name: _group(by_domain[name]) for name in sorted(by_domain)},
        by_difficulty={
            name: _group(by_difficulty[name]) for name in sorted(by_difficulty, key=_difficulty)
        },
        repetitions=repetitions,
        pass_at_k=pass_at_k_mean(outcomes, repetitions) if repetitions > 1 else None,
        pass_hat_k=pass_hat_k_mean(outcomes, repetitions) if repetitions > 1 else None,
        holdout=_group(holdout) if holdout else None,
        attempts=len(attempts),
        tokens_in=_total([attempt.tokens_in for attempt in attempts]),
        tokens_out=_total([attempt.tokens_out for attempt in attempts]),
        usd=_total([attempt.usd for attempt in attempts]),
        duration_sec=math.fsum(attempt.duration_sec for attempt in attempts),
    )


def _difficulty(name: str) -> tuple[int, str]:
    known = ("easy", "medium", "hard")
    return (known.index(name) if name in known else len(known), name)


def _group(trials: Sequence[TrialResult]) -> Group:
    rewards = _by_task(trials, lambda trial: trial.reward)
    outcomes = _by_task(trials, lambda trial: trial.passed)
    scored = sum(map(len, rewards.values()))
    causes = Counter(trial.error_cause for trial in trials if trial.error_cause is not None)
    pass_at_1 = None
    if scored == len(outcomes) > 0:
        pass_at_1 = wilson(sum(map(sum, outcomes.values())), scored)
    elif scored:
        pass_at_1 = mean_interval_by_task(outcomes)
    return Group(
        trials=len(trials),
        scored=scored,
        errors=sum(causes.values()),
        causes=dict(sorted(causes.items())),
        mean=mean_interval_by_task(rewards) if scored else None,
        pass_at_1=pass_at_1,
    )


def _split(
    trials: Iterable[TrialResult], key: Callable[[TrialResult], str]
) -> dict[str, list[TrialResult]]:
    parts: dict[str, list[TrialResult]] = defaultdict(list)
    for trial in trials:
        parts[key(trial)].append(trial)
    return parts


def _by_task(
    trials: Iterable[TrialResult], value: Callable[[TrialResult], _Value | None]
) -> dict[str, list[_Value]]:
    """Return the values that are known, by task."""
    values: dict[str, list[_Value]] = defaultdict(list)
    for trial in trials:
        found = value(trial)
        if found is not None:
            values[trial.task_id].append(found)
    return values


def _total(amounts: Sequence[float | None]) -> Total:
    known = [amount for amount in amounts if amount is not None]
    return Total(sum(known) if known else None, len(known), len(amounts))
