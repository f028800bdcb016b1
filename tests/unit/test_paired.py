"""The sign-flip test counts all choices of signs where it can, and draws some where it cannot."""

from __future__ import annotations

import itertools
import random
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.reports.paired import (
    MIN_TASKS,
    holm,
    paired_change,
    sign_flip_p,
    too_few_text,
)
from pytest_aecbench.reports.power import detectable_text, least_detectable

CHANGES = st.sampled_from([-1.0, -0.5, -0.1, 0.0, 0.1, 0.2, 0.3, 1.0]) | st.floats(-1, 1)


def counted_p(changes: list[float]) -> float:
    """Return the p of all choices of signs, one by one."""
    units = [Fraction(round(change * 10**8), 10**8) for change in changes]
    sums = [
        sum(sign * unit for sign, unit in zip(signs, units, strict=True))
        for signs in itertools.product((1, -1), repeat=len(units))
    ]
    as_low = sum(total <= sum(units) for total in sums)
    as_high = sum(total >= sum(units) for total in sums)
    return min(1.0, 2 * min(as_low, as_high) / len(sums))


@given(st.lists(CHANGES, max_size=9))
def test_p_is_the_share_of_signs_with_a_sum_as_extreme(changes: list[float]) -> None:
    changes = [round(change, 4) for change in changes]
    assert sign_flip_p(changes) == pytest.approx(counted_p(changes), abs=1e-12)
    assert sign_flip_p([-change for change in changes]) == sign_flip_p(changes)


def test_tasks_that_did_not_change_tell_nothing() -> None:
    assert sign_flip_p([-0.5] * 6 + [0.0] * 100) == sign_flip_p([-0.5] * 6) == 2 / 64
    assert sign_flip_p([0.0] * 9) == 1


def test_many_tasks_are_counted_where_rewards_are_few() -> None:
    # By hand: 9 of 10 that changed fell, which 11 of 1024 choices exceed or equal; both sides.
    assert sign_flip_p([-1.0] * 9 + [1.0] + [0.0] * 200) == 2 * 11 / 1024
    draw = random.Random(1)
    thirds = [draw.choice([-1, -2 / 3, -1 / 3, 1 / 3, 2 / 3]) for _ in range(400)]
    assert sign_flip_p(thirds) < 1e-6  # less than draws could show


def test_draws_come_close_to_counts_and_repeat() -> None:
    draw = random.Random(2)
    mixed = [draw.uniform(-1, 0.6) for _ in range(24)]
    # Two tasks that cancel change the count little, and are too many to count.
    more = [*mixed, *(draw.uniform(-0.001, 0.001) for _ in range(6))]
    assert sign_flip_p(more) == sign_flip_p(more)
    assert sign_flip_p(mixed) < 0.1
    assert sign_flip_p(more) == pytest.approx(sign_flip_p(mixed), abs=0.015)
    # Nothing drawn is as extreme, and what was seen counts as one draw of 5,000; both sides.
    assert sign_flip_p([draw.uniform(-1, -0.5) for _ in range(40)]) == 2 / 5_000
    even = [draw.uniform(-1, 1) for _ in range(24)]
    drawn = sign_flip_p([*even, *(draw.uniform(-0.001, 0.001) for _ in range(6))])
    assert drawn == pytest.approx(sign_flip_p(even), abs=0.1)


def test_rounding_of_binary_fractions_does_not_tell_equal_sums_apart() -> None:
    changes = [0.1 + 0.2, -0.3, 0.3, -(0.1 + 0.2), 0.7, -0.7]
    assert sign_flip_p(changes) == 1


@pytest.mark.parametrize("tasks", range(1, 6))
def test_below_six_tasks_no_result_could_be_significant(tasks: int) -> None:
    assert sign_flip_p([-1.0] * tasks) > 0.05
    assert paired_change([-1.0] * tasks).p is None
    assert MIN_TASKS == 6
    assert paired_change([-1.0] * 6).p == 2 / 64


def test_holms_p_values_are_those_worked_out_by_hand() -> None:
    # 0.01 * 4, 0.03 * 3, then 0.04 * 2 raised to what came before, 0.5 * 1.
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_design_of_too_few_tasks_detects_nothing_and_says_so() -> None:
    assert least_detectable(5, 10).least is None
    assert detectable_text(5, None) == "too few tasks to tell, at least 6 are needed"
    assert too_few_text(1) == "1 task: too few tasks to tell, at least 6 are needed"


def test_more_tasks_and_repetitions_detect_less_but_repetitions_only_down_to_a_limit() -> None:
    single = [least_detectable(n, 1).least for n in (8, 14, 30, 100, 200, 1000)]
    assert single == sorted(single, key=lambda least: -(least or 2))
    assert None not in single
    often = least_detectable(14, 1000)
    assert often.least == often.however_often
    # By hand: of 6 tasks all must fall, each with probability 0.8 ** (1 / 6).
    assert least_detectable(6, 10).least == pytest.approx(0.8 ** (1 / 6), abs=2e-4)
