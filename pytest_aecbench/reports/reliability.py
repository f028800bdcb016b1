"""pass@k and pass^k against k: how much another try helps, and how often all tries pass."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median_low
from typing import TYPE_CHECKING

from pytest_aecbench.reports.scores import Scores
from pytest_aecbench.reports.statistics import pass_at_k_mean, pass_hat_k_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.reports.results import TrialResult

__all__ = ["Reliability", "reliability"]


@dataclass(frozen=True, slots=True)
class Reliability:
    """The curves of one agent for k = 1 to ``n``, over its ``tasks`` with ``n`` scored trials.

    ``of`` is the number of all tasks that it attempted. Half of those with a scored trial have
    ``n`` or more.
    """

    n: int
    tasks: int
    of: int
    pass_at: tuple[float, ...]
    pass_hat: tuple[float, ...]


def reliability(trials: Sequence[TrialResult]) -> Reliability | None:
    """Return the curves of one agent's final attempts; None if none is scored."""
    scores = Scores.of(trials)
    counts = [len(outcomes) for outcomes in scores.outcomes.values()]
    if not counts:
        return None
    n = median_low(counts)
    enough = {task: found for task, found in scores.outcomes.items() if len(found) >= n}
    at = (pass_at_k_mean(enough, k) for k in range(1, n + 1))
    hat = (pass_hat_k_mean(enough, k) for k in range(1, n + 1))
    return Reliability(
        n,
        len(enough),
        len(scores.trials),
        tuple(value for value in at if value is not None),
        tuple(value for value in hat if value is not None),
    )
