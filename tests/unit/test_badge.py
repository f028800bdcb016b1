"""Badges and drawings of intervals say what is known, and no more."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from pytest_aecbench.reports.badge import badge_of
from pytest_aecbench.reports.leaderboard import leaderboard
from pytest_aecbench.reports.statistics import Interval, mean_interval
from pytest_aecbench.reports.text import interval_text
from tests.unit.test_leaderboard import record


@pytest.mark.parametrize(
    ("metric", "label", "message", "colour"),
    [
        ("mean", "reward", "0.75 (0.11 to 0.99)", "yellow"),
        ("pass@1", "pass@1", "0.50 (0.01 to 0.99)", "yellow"),
        ("tasks", "tasks", "2 of 2 scored", "brightgreen"),
    ],
)
def test_a_badge_has_the_figure_of_the_leaderboard(
    metric: str, label: str, message: str, colour: str
) -> None:
    board = leaderboard([record(reward=1.0), record(task_id="civil/b", reward=0.5)])
    badge = badge_of(board, board.rows[0], metric)
    assert (badge.label, badge.message, badge.colour) == (label, message, colour)
    root = ET.fromstring(badge.to_svg())
    assert root[0].text == f"{label}: {message}"
    assert badge.to_json() == {
        "schemaVersion": 1,
        "label": label,
        "message": message,
        "color": colour,
    }


def test_a_figure_that_lacks_scores_has_no_colour() -> None:
    board = leaderboard([record(reward=1.0), record(task_id="civil/b", reward=None)])
    badge = badge_of(board, board.rows[0], "mean")
    assert (badge.message, badge.colour) == ("1.00 (1 of 2 tasks scored)", "lightgrey")
    none = leaderboard([record(reward=None)])
    assert badge_of(none, none.rows[0], "mean").message == "no score"


def test_an_interval_is_drawn_from_0_to_1() -> None:
    assert interval_text(Interval(0.5, 0.25, 0.75, 2, None)) == "─────├────┼────┤────"
    assert interval_text(Interval(0.5, 0.25, 0.75, 2, None), ascii_only=True) == (
        "-----[----|----]----"
    )
    assert interval_text(mean_interval([1.0] * 500))[-1] == "┼"
    assert interval_text(None) == ""
