"""Reliability: pass@k and pass^k against k, and the tasks whose repetitions disagree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import cells, heads
from pytest_aecbench.reports.html.blocks import (
    Cell,
    Chart,
    Fold,
    Note,
    Row,
    Section,
    Table,
    task_link,
)
from pytest_aecbench.reports.html.charts import both, curves
from pytest_aecbench.reports.reliability import reliability as curves_of
from pytest_aecbench.reports.saturation import COLUMNS
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures
    from pytest_aecbench.reports.saturation import TaskOutcomes

__all__ = ["reliability"]

_LISTED = 200


def reliability(figures: Figures) -> Section:
    """Return the curves, and the tasks that are a matter of luck."""
    found = {row.agent: curves_of(figures.by_agent[row.agent]) for row in figures.board.rows}
    known = {agent: one for agent, one in found.items() if one is not None}
    most = max((one.n for one in known.values()), default=0)
    blocks: list[Block] = []
    if most > 1:
        title = "pass@k and pass^k against k"
        lines = [
            (agent, series, one.pass_at, one.pass_hat)
            for series, (agent, one) in enumerate(found.items())
            if one is not None
        ]
        blocks.append(Chart("reliability", title, *both(curves, title, lines, most)))
    elif known:
        blocks.append(Note("No agent has repetitions: --aec-repetitions=3 would show reliability."))
    else:
        blocks.append(Note("No trial has a score."))
    blocks.append(
        Table(
            "reliability",
            "pass@k and pass^k over the tasks with n scored trials",
            (
                "agent",
                "n",
                "tasks",
                *(f"pass@{k}" for k in range(1, most + 1)),
                *(f"pass^{k}" for k in range(2, most + 1)),
            ),
            [
                Row(
                    [
                        agent,
                        f"{one.n}",
                        counted(one.tasks, "task", one.of),
                        *_padded(one.pass_at, most),
                        *_padded(one.pass_hat[1:], most - 1),
                    ]
                )
                for agent, one in known.items()
            ],
        )
    )
    lucky = [task for task in figures.saturation.tasks if task.verdict == "luck"]
    blocks += [Note(note) for note in figures.saturation.notes]
    if lucky:
        blocks.append(
            Fold(f"Tasks whose repetitions disagree: {len(lucky)}", [_luck(lucky[:_LISTED])])
        )
    return Section(
        "reliability",
        "Reliability",
        blocks,
        "pass@k: one of k trials passes. pass^k: all of k trials pass. The agents oracle, nop and "
        "replay do not count for the verdict on tasks.",
    )


def _luck(tasks: Sequence[TaskOutcomes]) -> Table:
    return Table(
        "luck",
        "Tasks whose repetitions disagree",
        ("task", *heads(COLUMNS)),
        [
            Row([Cell(task.task_id, task_link(task.task_id)), *cells(COLUMNS, task)])
            for task in tasks
        ],
        texts=2,
    )


def _padded(values: tuple[float, ...], length: int) -> list[str]:
    return [f"{value:.2f}" for value in values] + [""] * (length - len(values))
