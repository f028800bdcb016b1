"""Matrix: the mean reward of each agent at each task, and which tasks say little."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from pytest_aecbench.reports.html.blocks import (
    Cell,
    Fold,
    Row,
    Section,
    Table,
)
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures

__all__ = ["matrix"]

# Above so many tasks, domains are folded.
_MAX_TASKS = 2000


@dataclass(frozen=True, slots=True)
class _Task:
    task_id: str
    domain: str
    cells: Sequence[Cell]
    means: Sequence[float]
    verdict: str
    is_luck: bool


def matrix(figures: Figures) -> Section:
    """Return the table, or one for each domain if there are very many tasks.

    The page's script makes links of its cells: there are many.
    """
    tasks = _tasks(figures)
    agents = [row.agent for row in figures.board.rows]
    blocks: list[Block]
    if len(tasks) <= _MAX_TASKS:
        blocks = [_table("matrix", "Mean reward by task and agent", agents, tasks)]
    else:
        by_domain: dict[str, list[_Task]] = defaultdict(list)
        for task in tasks:
            by_domain[task.domain].append(task)
        blocks = [
            Fold(
                f"{domain}: {counted(len(found), 'task')}",
                [_table(f"matrix-{domain}", f"Mean reward in {domain}", agents, found)],
            )
            for domain, found in by_domain.items()
        ]
    return Section(
        "matrix",
        "Matrix",
        blocks,
        "A number is the mean reward of the scored trials. ! some trial was an error; hatched: all "
        "were; ± repetitions disagree; empty: not attempted. Spread is the highest mean less the "
        "lowest.",
    )


def _tasks(figures: Figures) -> list[_Task]:
    verdicts = {task.task_id: task.verdict for task in figures.saturation.tasks}
    domains = {result.task_id: result.domain for result in figures.final}
    found = []
    for task_id in sorted(domains, key=lambda task: (domains[task], task)):
        cells, means, is_luck = [], [], False
        for row in figures.board.rows:
            scores = figures.scores[row.agent]
            rewards = scores.rewards.get(task_id, ())
            outcomes = scores.outcomes.get(task_id, ())
            disagree = len(set(outcomes)) > 1
            is_luck = is_luck or disagree
            cells.append(
                _cell(
                    rewards,
                    scores.trials.get(task_id, 0),
                    scores.errors.get(task_id, 0),
                    disagree,
                )
            )
            means += [fmean(rewards)] if rewards else []
        verdict = verdicts.get(task_id, "")
        found.append(_Task(task_id, domains[task_id], cells, means, verdict, is_luck))
    return found


def _cell(rewards: Sequence[float], trials: int, errors: int, disagree: bool) -> Cell:
    if not trials:
        return Cell("", kind="none")
    if not rewards:
        return Cell("!" if errors else "?", kind="hatched" if errors else "none")
    mean = fmean(rewards)
    marks = ("±" if disagree else "") + ("!" if errors else "")
    return Cell(f"{mean:.2f}{marks}", kind=f"s{round(mean * 10)}")


def _table(name: str, caption: str, agents: Sequence[str], tasks: Sequence[_Task]) -> Table:
    return Table(
        name,
        caption,
        ("task", "domain", "verdict", "mean", "spread", *agents),
        [
            Row(
                [
                    task.task_id,
                    task.domain,
                    task.verdict,
                    f"{fmean(task.means):.2f}" if task.means else "",
                    f"{max(task.means) - min(task.means):.2f}" if task.means else "",
                    *task.cells,
                ]
            )
            for task in tasks
        ],
        texts=3,
        kind="matrix",
    )
