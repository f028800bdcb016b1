"""Rewards: how each agent's rewards are spread, with exact zeros and ones apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.reports.html.blocks import Chart, Fold, Note, Row, Section, Table
from pytest_aecbench.reports.html.charts import both, histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.reports.html.source import Figures

__all__ = ["rewards", "spread"]

BINS = 21


def rewards(figures: Figures) -> Section:
    """Return the histograms and their counts."""
    rows = [
        (agent, *spread(_rewards(figures, agent)))
        for agent in figures.agents
        if agent in figures.by_agent
    ]
    title = "Rewards of scored trials by agent"
    bounds = [f"{n / BINS:.2f} to {(n + 1) / BINS:.2f}" for n in range(BINS)]
    used = [n for n in range(BINS) if any(bins[n] for _, bins, _, _ in rows)]
    table = Table(
        "rewards",
        "Scored trials by reward",
        ("agent", "exactly 0", *(bounds[n] for n in used), "exactly 1"),
        [
            Row([agent, f"{zeros}", *(f"{bins[n] or ''}" for n in used), f"{ones}"])
            for agent, bins, zeros, ones in rows
        ],
    )
    has_scores = any(zeros or ones or any(bins) for _, bins, zeros, ones in rows)
    plot = Chart("rewards", title, *both(histogram, title, rows))
    return Section(
        "rewards",
        "Rewards",
        [plot if has_scores else Note("No trial has a score."), Fold("Table of rewards", [table])],
        "Exact zeros and exact ones stand apart from the bins between them.",
    )


def _rewards(figures: Figures, agent: str) -> list[float]:
    return [one.reward for one in figures.by_agent[agent] if one.reward is not None]


def spread(rewards: Sequence[float]) -> tuple[list[int], int, int]:
    """Return the counts of the bins between 0 and 1, of exact zeros and of exact ones."""
    bins = [0] * BINS
    for reward in rewards:
        if 0 < reward < 1:
            bins[min(int(reward * BINS), BINS - 1)] += 1
    return bins, sum(reward == 0 for reward in rewards), sum(reward == 1 for reward in rewards)
