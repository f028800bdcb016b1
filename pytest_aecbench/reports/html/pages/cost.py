"""Cost: reward against USD, tokens and time; agents that no other beats in both are joined."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import cells, heads, number_text
from pytest_aecbench.reports.html.blocks import Chart, Note, Row, Section, Table
from pytest_aecbench.reports.html.charts import both, legend, scatter
from pytest_aecbench.reports.spending import SPENT, Spending, efficient, spending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures
    from pytest_aecbench.reports.results import TrialResult

__all__ = ["cost", "spendings"]

_AXES: tuple[tuple[str, str, Callable[[Spending], float | None]], ...] = (
    ("usd", "USD per trial", lambda spent: spent.usd_per_trial),
    ("tokens", "tokens out per trial", lambda spent: spent.tokens_out_per_trial),
    ("time", "median seconds of the agent", lambda spent: spent.agent_sec),
)


def spendings(figures: Figures) -> dict[str, Spending]:
    """Return what each agent's trials cost."""

    def agent_sec(result: TrialResult) -> float | None:
        return figures.records_by_id[result.trial_id].timing.agent

    attempts: dict[str, list[TrialResult]] = defaultdict(list)
    for result in figures.counted.results:
        attempts[result.agent].append(result)
    return {agent: spending(found, agent_sec) for agent, found in attempts.items()}


def cost(figures: Figures) -> Section:
    """Return the plots and the table."""
    spent = spendings(figures)
    agents = [row.agent for row in figures.board.rows]
    plots: list[Block] = []
    notes: list[Block] = []
    for name, unit, amount_of in _AXES:
        amounts = {agent: amount_of(spent[agent]) for agent in agents}
        unknown = [agent for agent, amount in amounts.items() if amount is None]
        plots += _plot(figures, name, unit, amounts)
        notes += [Note(f"{unit} not known: {', '.join(unknown)}.")] if unknown else []
    marks = Chart("agents", "Agents", *both(legend, "Agents", agents), kind="legend")
    blocks: list[Block] = [*([marks] if plots else []), *plots, *notes]
    blocks.append(
        Table(
            "cost",
            "Reward and cost of each agent",
            ("agent", "reward", *heads(SPENT)),
            [
                Row([row.agent, _mean(row.summary.overall.mean), *cells(SPENT, spent[row.agent])])
                for row in figures.board.rows
            ],
        )
    )
    return Section(
        "cost",
        "Cost",
        blocks,
        "A trial costs what all of its attempts cost. Agents that no other is both cheaper and "
        "better than are joined.",
    )


def _mean(interval: object) -> str:
    return number_text(getattr(interval, "mean", None))


def _plot(
    figures: Figures, name: str, unit: str, amounts: Mapping[str, float | None]
) -> Iterator[Block]:
    points = []
    for series, row in enumerate(figures.board.rows):
        amount, reward = amounts[row.agent], row.summary.overall.mean
        if amount is not None and reward is not None:
            points.append((row.agent, series, amount, reward))
    if points:
        title = f"Reward against {unit}"
        joined = efficient([(amount, reward.mean) for _, _, amount, reward in points])
        yield Chart(f"cost-{name}", title, scatter(title, unit, points, joined), kind="small")
