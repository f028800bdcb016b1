"""Means with confidence intervals, and pass@k.

Repetitions of one task are not independent, so a task's trials are averaged first and intervals are
over tasks. ``docs/statistics.md`` explains the methods and shows how well they hold.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


__all__ = [
    "LEVEL",
    "Interval",
    "difference_interval",
    "mean_interval",
    "mean_interval_by_task",
    "pass_at_k",
    "pass_at_k_mean",
    "pass_hat_k",
    "pass_hat_k_mean",
    "t_quantile",
]

LEVEL = 0.05
# Values that differ by less are the same, because means of binary fractions are off by less.
DECIMALS = 9
_MAX_STEPS = 100


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean of ``n`` values, its 95 % interval, and its standard error if there are two values."""

    mean: float
    low: float
    high: float
    n: int
    standard_error: float | None


def mean_interval(values: Iterable[float], least: float = 0.0, most: float = 1.0) -> Interval:
    """Return the mean of independent values from ``least`` to ``most`` with Gaffke's interval.

    The upper bound is the 97.5 % quantile of the values' mean under weights that are drawn
    uniformly, with the largest possible value as one further value; the lower bound mirrors it. Of
    zeros and ones this is the interval of Clopper and Pearson.
    """
    values = list(values)
    mean = fmean(values)
    width = most - least
    # Mostly few values are different ones.
    counts = Counter(values)
    shares = [((value - least) / width, count) for value, count in counts.items()]
    low = most - width * _upper_bound(_atoms((1 - share, count) for share, count in shares))
    high = least + width * _upper_bound(_atoms(shares))
    # Rounding must not put the mean outside its own interval.
    error = _standard_error(counts, mean)
    return Interval(mean, min(low, mean), max(high, mean), len(values), error)


def difference_interval(one: Interval, other: Interval) -> Interval:
    """Return the difference of two independent means, with an interval recovered from theirs.

    A bound is as far from the difference as the two bounds that it depends on are from their means,
    taken at right angles (Zou and Donner's method).
    """
    difference = one.mean - other.mean
    errors = (one.standard_error, other.standard_error)
    return Interval(
        difference,
        difference - math.hypot(one.mean - one.low, other.high - other.mean),
        difference + math.hypot(one.high - one.mean, other.mean - other.low),
        one.n + other.n,
        None if None in errors else round(math.hypot(*filter(None, errors)), DECIMALS),
    )


def mean_interval_by_task(values: Mapping[str, Sequence[float]]) -> Interval:
    """Return the mean of the tasks' means, where tasks weigh the same, with its interval."""
    return mean_interval(v[0] if len(v) == 1 else fmean(v) for v in values.values() if v)


def _standard_error(counts: Counter[float], mean: float) -> float | None:
    n = counts.total()
    if n < 2:
        return None
    squares = math.fsum(count * (value - mean) ** 2 for value, count in counts.items())
    return round(math.sqrt(squares / (n - 1) / n), DECIMALS)


_Atoms: TypeAlias = "tuple[tuple[float, int], ...]"


def _atoms(shares: Iterable[tuple[float, int]]) -> _Atoms:
    """Return the values in [0, 1] and a further 1, each with its count."""
    counts = Counter({1.0: 1})
    for share, count in shares:
        counts[round(share, DECIMALS)] += count
    return tuple(sorted(counts.items()))


@lru_cache(maxsize=512)
def _upper_bound(atoms: _Atoms) -> float:
    """Return the value that the randomly weighted mean exceeds with half of ``LEVEL``."""
    if len(atoms) == 1:
        return 1.0
    n = sum(count for _, count in atoms)
    mean = math.fsum(value * count for value, count in atoms) / n
    variance = math.fsum(count * (value - mean) ** 2 for value, count in atoms) / n / (n + 1)
    wanted = _deviate(LEVEL / 2)
    low, high = mean, 1.0
    point = min(mean + 1.96 * math.sqrt(variance), (mean + 3) / 4)
    before: tuple[float, float] | None = None
    for _ in range(_MAX_STEPS):
        excess = wanted - _deviate(_tail(atoms, point))
        low, high = (point, high) if excess > 0 else (low, point)
        if before is None:
            step = point + (high - point if excess > 0 else low - point) / 100
        else:
            step = point - excess * (point - before[0]) / (excess - before[1])
        if not low < step < high:
            step = (low + high) / 2
        near = abs(step - point) < 1e-7
        before, point = (point, excess), step
        if near:
            break
    return point


def _deviate(tail: float) -> float:
    """Return a measure of a small probability that is nearly linear in the bound."""
    # Rounding may leave nothing of a tail, or less.
    return math.sqrt(max(0.0, -2 * math.log(max(tail, sys.float_info.min))))


def _tail(atoms: _Atoms, point: float) -> float:
    """Return the probability that the mean exceeds ``point`` when weights are drawn uniformly.

    Such weights are proportional to exponential variables, so the mean exceeds the point if their
    sum, each times its value less the point, exceeds 0. Its distribution is the inverse of a
    Laplace transform, which is integrated through the saddlepoint, where nothing oscillates.
    """
    offsets = [(value - point, count) for value, count in atoms]
    saddle = _saddlepoint(offsets)
    rates = [(offset / (1 - offset * saddle), count) for offset, count in offsets]
    height = -math.fsum(count * math.log1p(-offset * saddle) for offset, count in offsets)
    scale = 1 / math.sqrt(saddle**-2 + math.fsum(count * rate * rate for rate, count in rates))
    # A shorter step would not be more precise, because the integrand is smooth.
    step, node = 0.2, 0.0
    total, term = 0.5 / saddle, 1 / saddle
    while term > 1e-8 * abs(total):
        node += step
        along = scale * math.sinh(node)
        divisor = complex(saddle, along)
        for rate, count in rates:
            factor = complex(1, -along * rate)
            divisor *= factor if count == 1 else factor**count
        value = math.cosh(node) / divisor
        total += value.real
        term = abs(value)
    return math.exp(height) * total * scale * step / math.pi


def _saddlepoint(offsets: Sequence[tuple[float, int]]) -> float:
    """Return where the integrand is least on the real axis, by Newton's method within bounds."""
    largest = max(offset for offset, _ in offsets)
    low, high = 0.0, 1 / largest
    point = high / 2
    for _ in range(_MAX_STEPS):
        slope, curvature = -1 / point, point**-2
        for offset, count in offsets:
            rate = offset / (1 - offset * point)
            slope += count * rate
            curvature += count * rate * rate
        low, high = (low, point) if slope > 0 else (point, high)
        step = point - slope / curvature
        if not low < step < high:
            step = (low + high) / 2
        near = abs(step - point) <= 1e-6 * point
        point = step
        if near:
            break
    return point


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
    return fmean(values) if values else None
