"""History: the mean of each agent in each experiment over time, for each dataset apart."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from pytest_aecbench.reports.html.blocks import Cell, Chart, Note, Row, Section, Table
from pytest_aecbench.reports.html.charts import both, trend
from pytest_aecbench.reports.leaderboard import counted_attempts, rank
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.leaderboard import Row as BoardRow
    from pytest_aecbench.view.library import Library

__all__ = ["history"]

# The latest experiments of a dataset that are shown.
_LISTED = 30
_DRAWN = 20


class _Point(NamedTuple):
    """The agents' rows of an experiment on a dataset."""

    experiment_id: str
    started_at: datetime
    rows: Sequence[BoardRow]


def history(library: Library, *, holdout: bool = False, mounted: bool = False) -> list[Section]:
    """Return a section per dataset; trials without one cannot be compared over time."""
    points: dict[tuple[str, str, str], list[_Point]] = defaultdict(list)
    left_out = 0
    for one in reversed(library.experiments()):
        by_dataset: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
        for entry in library.shelf(one.name).entries.values():
            dataset = entry.dataset
            if dataset is None or dataset.drifted:
                left_out += 1
            else:
                key = (dataset.name, dataset.version, dataset.content_hash)
                by_dataset[key].append(entry)
        for key, entries in by_dataset.items():
            board = rank(counted_attempts(entries, holdout=holdout, mounted=mounted))
            points[key].append(_Point(one.name, one.started_at, board.rows))
    sections = [_section(number, key, found) for number, (key, found) in enumerate(points.items())]
    if not sections:
        note = "No trial was run with --aec-dataset, so no two experiments have the same tasks."
        sections = [Section("history", "History", [Note(note)])]
    elif left_out:
        note = f"Left out: {counted(left_out, 'attempt')} without a dataset or with a changed one."
        sections.append(Section("left-out", "Left out", [Note(note)]))
    return sections


def _section(number: int, key: tuple[str, str, str], points: Sequence[_Point]) -> Section:
    name = f"{key[0]}@{key[1]}"
    agents = sorted({row.agent for point in points for row in point.rows})
    latest = points[-_LISTED:]
    title = f"Mean reward and 95 % interval of each agent on {name}"
    groups = [
        (f"{point.started_at:%m-%d}", [means.get(agent) for agent in agents])
        for point in latest[-_DRAWN:]
        if (means := {row.agent: row.summary.overall.mean for row in point.rows})
    ]
    blocks: list[Block] = [Chart(f"history-{number}", title, *both(trend, title, groups, agents))]
    blocks.append(
        Table(
            f"history-{number}",
            f"Experiments on {name}, the latest last",
            ("experiment", "when", "agent", "mean", "low", "high"),
            [
                Row([_link(point), f"{point.started_at:%Y-%m-%d %H:%M}", row.agent, *_mean(row)])
                for point in latest
                for row in point.rows
            ],
            texts=3,
        )
    )
    if (more := len(points) - _LISTED) > 0:
        blocks.append(Note(f"Not shown: {counted(more, 'earlier experiment')}."))
    return Section(f"history-{number}-page", name, blocks)


def _link(point: _Point) -> Cell:
    return Cell(point.experiment_id, f"/e/{point.experiment_id}")


def _mean(row: BoardRow) -> tuple[str, ...]:
    mean = row.summary.overall.mean
    if mean is None:
        return ("-", "-", "-")
    return tuple(f"{value:.2f}" for value in (mean.mean, mean.low, mean.high))
