"""The price of results: cost, tokens and time per trial, and cost per trial that passed."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import Column
from pytest_aecbench.reports.results import final_results
from pytest_aecbench.text import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_aecbench.reports.results import TrialResult

__all__ = ["SPENT", "Spending", "efficient", "spending"]


@dataclass(frozen=True, slots=True)
class Spending:
    """The cost of an agent's trials; a trial costs as much as all of its attempts.

    A mean is over the trials whose amount is known, ``usd_known`` of ``trials`` for USD; None if it
    is known for none, and ``usd_per_pass`` also if none of them passed. ``agent_sec`` is the median
    time that the agent worked, over the final attempts in which it did.
    """

    trials: int
    usd_known: int
    usd_per_trial: float | None
    usd_per_pass: float | None
    tokens_out_per_trial: float | None
    agent_sec: float | None


def spending(
    attempts: Sequence[TrialResult], agent_sec: Callable[[TrialResult], float | None]
) -> Spending:
    """Return what the attempts of one agent cost; ``agent_sec`` says how long it worked in one."""
    final = final_results(attempts)
    by_trial: dict[tuple[str, int], list[TrialResult]] = defaultdict(list)
    for attempt in attempts:
        by_trial[attempt.task_id, attempt.repetition].append(attempt)
    usd = {trial: _sum([one.usd for one in made]) for trial, made in by_trial.items()}
    known = {trial: amount for trial, amount in usd.items() if amount is not None}
    tokens = [_sum([one.tokens_out for one in made]) for made in by_trial.values()]
    passed = sum(one.passed is True and (one.task_id, one.repetition) in known for one in final)
    worked = [sec for one in final if (sec := agent_sec(one)) is not None]
    return Spending(
        trials=len(final),
        usd_known=len(known),
        usd_per_trial=_mean(list(known.values())),
        usd_per_pass=math.fsum(known.values()) / passed if passed else None,
        tokens_out_per_trial=_mean([amount for amount in tokens if amount is not None]),
        agent_sec=median(worked) if worked else None,
    )


def _sum(amounts: Sequence[float | None]) -> float | None:
    """Return a sum; None if an amount is not known."""
    known = [amount for amount in amounts if amount is not None]
    return math.fsum(known) if len(known) == len(amounts) else None


def _mean(values: Sequence[float]) -> float | None:
    return fmean(values) if values else None


def efficient(points: Sequence[tuple[float, float]]) -> list[int]:
    """Return which (cost, reward) points no other is both cheaper and better than, cheapest first.

    Of equal points the first counts.
    """
    best = -math.inf
    found = []
    for index in sorted(range(len(points)), key=lambda i: (points[i][0], -points[i][1], i)):
        if points[index][1] > best:
            best = points[index][1]
            found.append(index)
    return found


def _amount(value: float | None, decimals: int) -> str:
    return "-" if value is None else f"{value:,.{decimals}f}"


def _usd_per_trial(spent: Spending) -> str:
    partly = "" if spent.usd_known in (0, spent.trials) else f" ({spent.usd_known} known)"
    return _amount(spent.usd_per_trial, 4) + partly


SPENT: tuple[Column[Spending], ...] = (
    Column(
        "USD per trial",
        _usd_per_trial,
        data={
            "usd_per_trial": lambda spent: spent.usd_per_trial,
            "usd_known": lambda spent: spent.usd_known,
        },
    ),
    Column(
        "USD per pass",
        lambda spent: _amount(spent.usd_per_pass, 4),
        data={"usd_per_pass": lambda spent: spent.usd_per_pass},
    ),
    Column(
        "tokens out per trial",
        lambda spent: _amount(spent.tokens_out_per_trial, 0),
        data={"tokens_out_per_trial": lambda spent: spent.tokens_out_per_trial},
    ),
    Column(
        "median agent time",
        lambda spent: "-" if spent.agent_sec is None else duration_text(spent.agent_sec),
        data={"agent_sec": lambda spent: spent.agent_sec},
    ),
)
