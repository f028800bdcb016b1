"""The parts that pages are made of: sections with notes, facts, charts and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import quote

from pytest_aecbench.reports.html.texts import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_aecbench.reports.html.svg import Svg

__all__ = [
    "Block",
    "Cell",
    "Chart",
    "Facts",
    "Fold",
    "Note",
    "Row",
    "Section",
    "Table",
    "Tiles",
    "task_link",
    "trial_link",
    "trials_link",
]


@dataclass(frozen=True, slots=True)
class Cell:
    """A table's cell; ``kind`` is its style, ``href`` a link within the page."""

    text: str
    href: str | None = None
    kind: str = ""
    svg: Svg | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A table's row; ``data`` is what the page sorts and filters it by."""

    cells: Sequence[Cell | str]
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Table:
    """A table; its first ``texts`` columns are text, the others are numbers."""

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Row]
    texts: int = 1
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot, with a title for those who do not see it; ``kind`` may be ``small`` or ``legend``.

    ``narrow`` takes its place on small screens; a plot without one is narrow itself.
    """

    name: str
    title: str
    svg: Svg
    narrow: Svg | None = None
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A line of text; ``kind`` is ``good``, ``bad``, ``warn`` or nothing."""

    text: str
    kind: str = ""
    href: str | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values."""

    facts: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Tiles:
    """A few large figures, each with its name, a remark and a style."""

    tiles: Sequence[tuple[str, str, str, str]]


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that are shown when they are asked for."""

    title: str
    blocks: Sequence[Block]


Block: TypeAlias = "Table | Chart | Note | Facts | Tiles | Fold"


@dataclass(frozen=True, slots=True)
class Section:
    """One page of the report, with an anchor."""

    name: str
    title: str
    blocks: Sequence[Block]
    lead: str = ""


def trials_link(**filters: str) -> str:
    """Return a link to the trials that the filters select, by names as the page shows them."""
    return "#" + "&".join(f"{key}={_quoted(value)}" for key, value in filters.items())


def _quoted(value: str) -> str:
    return quote(shown(value), safe="")


def task_link(task_id: str) -> str:
    """Return a link to a task's page."""
    return trials_link(page="task", task=task_id)


def trial_link(trial_id: str) -> str:
    """Return a link to a trial's page."""
    return trials_link(trial=trial_id)
