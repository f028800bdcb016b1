"""Means with confidence intervals, and pass@k.

Repetitions of one task are not independent, so a task's trials are averaged first and intervals are
over tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


__all__ = [
    "Interval",
    "mean_interval",
    "mean_interval_by_task",
    "pass_at_k",
    "pass_at_k_mean",
    "pass_hat_k",
    "pass_hat_k_mean",
    "t_quantile",
    "wilson",
]


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
