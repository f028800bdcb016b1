"""The tables of a leaderboard: agents, groups of their trials, pairs, and what does not count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import (
    ERRORS_AS_ZEROS,
    FIGURES,
    PAIRED,
    TABLE,
    USED,
    cells,
    heads,
    number_text,
)
from pytest_aecbench.reports.scores import MAX_MISSING, missing_text
from pytest_aecbench.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pytest_aecbench.reports.leaderboard import Leaderboard, Row
    from pytest_aecbench.reports.summary import AgentSummary, Group

__all__ = [
    "GROUPS",
    "board_cells",
    "board_head",
    "board_notes",
    "group_head",
    "group_rows",
    "pair_head",
    "pair_rows",
    "set_aside_notes",
]

GROUPS: dict[str, Callable[[AgentSummary], Mapping[str, Group]]] = {
    "difficulty": lambda summary: summary.by_difficulty,
    "domain": lambda summary: summary.by_domain,
}
_BOARD = (*FIGURES, ERRORS_AS_ZEROS)


def set_aside_notes(set_aside: Mapping[str, int]) -> Iterator[str]:
    """Yield how many records of earlier versions do not count, by task."""
    for task_id, count in set_aside.items():
        yield f"not counted: {count} of earlier versions of {task_id}"


def board_notes(board: Leaderboard, shown: Callable[[str], str]) -> Iterator[str]:
    """Yield the agents that are ranked last, and what is not counted; names as they are shown."""
    if any(row.complete for row in board.rows):
        for row in board.rows:
            if not row.complete:
                yield f"ranked last: {shown(row.agent)}; {missing_text(row.missing, MAX_MISSING)}"
    yield from set_aside_notes(board.set_aside)
    if board.held_out:
        yield f"not counted: {board.held_out} of held-out tasks; --holdout counts them"
    if board.mounted:
        yield f"not counted: {board.mounted} with --aec-mount; --mounted counts them"


def board_head(board: Leaderboard) -> tuple[str, ...]:
    """Return the headings of the table of agents."""
    at_k = (f"pass@{board.k}",) if board.k > 1 else ()
    return ("agent", "scored", *heads(_BOARD), *at_k, "error rate", *heads(USED))


def board_cells(board: Leaderboard, row: Row) -> tuple[str, ...]:
    """Return an agent's row."""
    at_k = number_text(row.pass_at_k)
    if 0 < row.pass_k_tasks < board.tasks:
        at_k += f" ({row.pass_k_tasks} of {counted(board.tasks, 'task')})"
    return (
        row.agent,
        f"{row.summary.overall.tasks_scored} of {board.tasks}",
        *cells(_BOARD, row.summary.overall),
        *((at_k,) if board.k > 1 else ()),
        f"{row.error_rate:.0%}",
        *cells(USED, row.summary),
    )


def group_head(by: str) -> tuple[str, ...]:
    """Return the headings of a table of groups."""
    return ("agent", by, *heads(TABLE))


def group_rows(board: Leaderboard, by: str) -> Iterator[tuple[str, ...]]:
    """Yield a row per agent and group of its trials."""
    for row in board.rows:
        for name, group in GROUPS[by](row.summary).items():
            yield (row.agent, name, *cells(TABLE, group))


def pair_head() -> tuple[str, ...]:
    """Return the headings of the table of pairs."""
    return ("agent", "less", *heads(PAIRED))


def pair_rows(board: Leaderboard) -> Iterator[tuple[str, ...]]:
    """Yield a row per pair of agents."""
    for pair in board.pairs:
        yield (pair.agent, pair.other, *cells(PAIRED, pair))
