"""Leaderboard: agents by mean reward with intervals, as ``report leaderboard`` ranks them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import cells, heads
from pytest_aecbench.reports.html.blocks import Cell, Chart, Row, Section, Table, trials_link
from pytest_aecbench.reports.html.charts import both, interval_strip, strips
from pytest_aecbench.reports.html.pages.cost import spendings
from pytest_aecbench.reports.rankings import board_cells, board_head, pair_head, pair_rows
from pytest_aecbench.reports.spending import SPENT

if TYPE_CHECKING:
    from pytest_aecbench.reports.html.blocks import Block
    from pytest_aecbench.reports.html.source import Figures
    from pytest_aecbench.reports.leaderboard import Row as BoardRow

__all__ = ["leaderboard"]


def leaderboard(figures: Figures) -> Section:
    """Return the ranking, and which differences between agents are more than chance."""
    board = figures.board
    head = board_head(board)
    spent = spendings(figures)
    rows = []
    for row in board.rows:
        name, *rest = board_cells(board, row)
        more = (_hat(row), *cells(SPENT, spent[row.agent]))
        rows.append(Row([Cell(name, trials_link(agent=name)), _strip(row), *rest, *more]))
    title = "Mean reward of each agent with its 95 % interval over tasks"
    means = [(row.agent, row.summary.overall.mean) for row in board.rows]
    blocks: list[Block] = [
        Chart("leaderboard", title, *both(strips, title, means)),
        Table(
            "leaderboard",
            "Agents, best first",
            (head[0], "0 to 1", *head[1:], "pass^k", *heads(SPENT)),
            rows,
        ),
    ]
    if board.pairs:
        blocks.append(
            Table(
                "pairs",
                "Differences between agents on the tasks that both have scores of",
                pair_head(),
                [Row(cells_) for cells_ in pair_rows(board)],
                texts=2,
            )
        )
    return Section(
        "leaderboard",
        "Leaderboard",
        blocks,
        "Means are over tasks, and errors are not zeros. Intervals that overlap do not say that "
        "agents are equal: see the differences below.",
    )


def _hat(row: BoardRow) -> str:
    hat = row.summary.pass_hat_k
    return "-" if hat is None else f"{hat:.2f} (k {row.summary.repetitions})"


def _strip(row: BoardRow) -> Cell:
    mean = row.summary.overall.mean
    return Cell("-") if mean is None else Cell("", kind="strip", svg=interval_strip(mean))
