"""Badges: one figure of an agent as a small SVG, or as data for shields."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from pytest_aecbench.reports.columns import bounds_text, number_text
from pytest_aecbench.text import counted, printable

if TYPE_CHECKING:
    from pytest_aecbench.reports.leaderboard import Leaderboard, Row

__all__ = ["METRICS", "Badge", "badge_of"]

METRICS = ("mean", "pass@1", "tasks")
_COLOURS = {"brightgreen": "#2b7a0b", "yellow": "#8a6d00", "red": "#b3261e", "lightgrey": "#6b6b6b"}
_CHAR_WIDTH = 6.8


@dataclass(frozen=True, slots=True)
class Badge:
    """A label and a figure; ``colour`` is a name that shields knows."""

    label: str
    message: str
    colour: str

    def to_json(self) -> dict[str, object]:
        """Return the badge for shields' endpoint."""
        named = {"label": self.label, "message": self.message, "color": self.colour}
        return {"schemaVersion": 1, **named}

    def to_svg(self) -> str:
        """Return the badge as a drawing that loads nothing."""
        left, right = (round(_CHAR_WIDTH * len(text)) + 12 for text in (self.label, self.message))
        label, message = escape(self.label), escape(self.message)
        colour = _COLOURS[self.colour]
        texts = "".join(
            f'<text x="{x}" y="14" textLength="{width - 12}" fill="#fff">{text}</text>'
            for x, width, text in ((6, left, label), (left + 6, right, message))
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" '
            f'role="img" aria-label="{label}: {message}"><title>{label}: {message}</title>'
            f'<rect width="{left + right}" height="20" rx="3" fill="{colour}"/>'
            f'<path d="M3 0h{left - 3}v20H3a3 3 0 0 1-3-3V3a3 3 0 0 1 3-3z" fill="#444"/>'
            f'<g font-family="sans-serif" font-size="11">{texts}</g></svg>\n'
        )


def badge_of(board: Leaderboard, row: Row, metric: str) -> Badge:
    """Return an agent's badge; a figure that lacks scores says so and has no colour."""
    overall = row.summary.overall
    if metric == "tasks":
        scored = f"{overall.tasks_scored} of {board.tasks} scored"
        return Badge("tasks", scored, "lightgrey" if not row.complete else "brightgreen")
    interval = overall.mean if metric == "mean" else overall.pass_at_1
    label = "reward" if metric == "mean" else metric
    if interval is None:
        return Badge(label, "no score", "lightgrey")
    figure = number_text(interval.mean)
    if not row.complete:
        scored = counted(overall.tasks_scored, "task", board.tasks)
        return Badge(label, f"{figure} ({scored} scored)", "lightgrey")
    colour = "brightgreen" if interval.mean >= 0.8 else "yellow" if interval.mean >= 0.5 else "red"
    return Badge(label, printable(f"{figure} ({bounds_text(interval)})"), colour)
