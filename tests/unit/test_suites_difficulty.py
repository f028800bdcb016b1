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
        ({"easy": [1.0] * 6, "medium": [0.6, 0.5] * 3, "hard": [0.1, 0.0] * 3}, "differ"),
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


def test_a_difference_has_the_interval_of_two_independent_means() -> None:
    (found,) = difficulties(results({"easy": [1.0, 0.8, 0.9], "hard": [0.2, 0.4, 0.3]}))
    (one,) = found.differences
    assert one.value == pytest.approx(0.6)
    # Variances of 0.01 over three tasks each: 1.96 * sqrt(2 * 0.01 / 3)
    assert one.high - one.value == pytest.approx(0.16003, abs=1e-4)


def test_trials_of_one_task_count_as_one_and_other_tasks_do_not() -> None:
    same = results({"easy": [1.0, 0.0]})
    again = [
        TrialResult.from_dict({**one.to_dict(), "repetition": 2, "reward": 0.0}) for one in same
    ]
    foreign = results({"easy": [1.0]})
    odd = [TrialResult.from_dict({**one.to_dict(), "task_id": "water/weir"}) for one in foreign]
    (found,) = difficulties([*same, *again, *odd])
    assert (found.tasks, found.means) == ({"easy": 2}, {"easy": 0.25})
