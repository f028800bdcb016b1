"""Declared difficulties against rewards."""

from __future__ import annotations

import pytest

from pytest_aecbench.reports.difficulty import difficulties
from pytest_aecbench.reports.results import TrialResult


def results(rewards: dict[str, list[float]], template: str = "water/weir") -> list[TrialResult]:
    return [
        TrialResult(
            task_id=f"generated/{template}/{level}-{index:08x}",
            agent="a",
            repetition=1,
            attempt=1,
            domain="water",
            difficulty=level,
            visibility="public",
            scored=True,
            reward=reward,
            passed=reward == 1,
            error_cause=None,
            tokens_in=None,
            tokens_out=None,
            usd=None,
            duration_sec=1.0,
        )
        for level, values in rewards.items()
        for index, reward in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("rewards", "verdict"),
    [
        ({"easy": [1.0] * 16, "medium": [0.6, 0.5] * 8, "hard": [0.1, 0.0] * 8}, "differ"),
        # With six tasks each, more than a quarter of all tasks of the easy level may go wrong.
        ({"easy": [1.0] * 6, "medium": [0.8, 0.7] * 3}, "do not differ"),
        ({"easy": [1.0, 0.0] * 3, "medium": [0.9, 0.1] * 3}, "do not differ"),
        ({"easy": [1.0] * 6, "medium": [1.0] * 6, "hard": [0.0] * 6}, "do not differ"),
        ({"easy": [0.1, 0.0] * 3, "hard": [1.0] * 6}, "reversed"),
        ({"easy": [1.0] * 4, "hard": [0.0] * 6}, "too few tasks"),
        ({"easy": [1.0] * 6}, "too few tasks"),
    ],
)
def test_levels_that_do_not_differ_are_named(rewards: dict[str, list[float]], verdict: str) -> None:
    (found,) = difficulties(results(rewards))
    assert (found.template, found.verdict) == ("water/weir", verdict)
    assert found.tasks == {level: len(values) for level, values in rewards.items()}


def test_a_difference_has_an_interval_although_no_task_of_a_level_differs() -> None:
    (found,) = difficulties(results({"easy": [1.0] * 6, "hard": [0.0] * 6}))
    (one,) = found.differences
    # Of six tasks that all earn 1, Gaffke's lower bound is that of Clopper and Pearson.
    bound = 0.025 ** (1 / 6)
    assert (one.value, one.high) == (1.0, 1.0)
    assert one.low == pytest.approx(1 - 2**0.5 * (1 - bound), abs=1e-6)
    (found,) = difficulties(results({"easy": [1.0] * 6, "hard": [1.0] * 6}))
    (one,) = found.differences
    assert (one.low, one.high) == pytest.approx((bound - 1, 1 - bound), abs=1e-6)


def test_trials_of_one_task_count_as_one_and_other_tasks_do_not() -> None:
    same = results({"easy": [1.0, 0.0]})
    again = [
        TrialResult.from_dict({**one.to_dict(), "repetition": 2, "reward": 0.0}) for one in same
    ]
    foreign = results({"easy": [1.0]})
    odd = [TrialResult.from_dict({**one.to_dict(), "task_id": "water/weir"}) for one in foreign]
    (found,) = difficulties([*same, *again, *odd])
    assert (found.tasks, found.means) == ({"easy": 2}, {"easy": 0.25})
