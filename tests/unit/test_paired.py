"""The sign-flip test counts all choices of signs where it can, and draws some where it cannot."""

from __future__ import annotations

import itertools
import operator
import random
from bisect import bisect_left, bisect_right

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
    """Return the p of all choices of signs, counted in two halves."""
    units = [round(change * 10**8) for change in changes]
    middle = len(units) // 2
    halves = []
    for half in (units[:middle], units[middle:]):
        signs = itertools.product((1, -1), repeat=len(half))
        halves.append(sorted(sum(map(operator.mul, chosen, half)) for chosen in signs))
    rests = [sum(units) - total for total in halves[0]]
    as_low = sum(bisect_right(halves[1], rest) for rest in rests)
    as_high = sum(len(halves[1]) - bisect_left(halves[1], rest) for rest in rests)
    return min(1.0, 2 * min(as_low, as_high) / (len(halves[0]) * len(halves[1])))


def drawn_changes(seed: int, tasks: int) -> list[float]:
    """Return changes of so many tasks, most of which fell, no two sums of which are the same."""
    draw = random.Random(seed)
    return [round(draw.uniform(-1, 0.6), 8) for _ in range(tasks)]


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


def test_the_choices_of_24_tasks_are_counted_whatever_their_rewards() -> None:
    changes = drawn_changes(2, 24)
    assert sign_flip_p(changes) == pytest.approx(counted_p(changes), abs=1e-12)


@pytest.mark.parametrize(("seed", "tasks"), [(1, 26), (2, 26), (4, 28), (11, 25), (3, 30)])
def test_draws_come_close_to_counts_and_repeat(seed: int, tasks: int) -> None:
    changes = drawn_changes(seed, tasks)
    assert sign_flip_p(changes) == pytest.approx(counted_p(changes), abs=0.01)
    assert sign_flip_p(changes) == sign_flip_p(changes)


def test_5000_draws_tell_what_1000_cannot_rule_out_to_be_significant() -> None:
    # What was seen counts as one of the draws; both sides.
    assert sign_flip_p([-1.0 + 0.01 * n**1.5 / 3 for n in range(26)]) == 2 / 5_000
    for seed, draws in ((2, 5_000), (5, 1_000), (10, 1_000)):
        p = sign_flip_p(drawn_changes(seed, 26))
        assert (p > 0.1) == (draws == 1_000)
        assert p * draws / 2 == pytest.approx(round(p * draws / 2), abs=1e-9)


def test_a_drawn_rise_is_as_significant_as_the_same_fall() -> None:
    draw = random.Random(3)
    changes = [draw.randint(20, 60) / 1000 * draw.choice([-1, 1]) for _ in range(240)]
    # Among these draws is one with a sum of 0, which counts on both sides.
    assert 0.1 < sign_flip_p(changes) < 0.5
    assert sign_flip_p([-change for change in changes]) == sign_flip_p(changes)


def test_rounding_of_binary_fractions_does_not_tell_equal_sums_apart() -> None:
    changes = [0.1 + 0.2, -0.3, 0.3, -(0.1 + 0.2), 0.7, -0.7]
    assert sign_flip_p(changes) == 1
    # Nor in means of up to 16 rewards with four decimals.
    tenths = [0.1, 0.1, 0.1, 0.3, 0.3, 0.3, 0.3, 0.3, -0.6]
    decimals = [n / 10_000 for n in range(1, 9)]
    for unit in (*decimals, 0.3333 / 11, 0.0007 / 13, 1 / 16):
        changes = [unit] * 3 + [unit + 2 * unit] * 5 + [-6 * unit]
        assert sign_flip_p(changes) == counted_p(tenths)


@pytest.mark.parametrize("tasks", range(1, 6))
def test_below_six_tasks_no_result_could_be_significant(tasks: int) -> None:
    assert sign_flip_p([-1.0] * tasks) > 0.05
    assert paired_change([-1.0] * tasks).p is None
    assert MIN_TASKS == 6
    assert paired_change([-1.0] * 6).p == 2 / 64


def test_the_interval_of_a_mean_change_goes_from_minus_1_to_1() -> None:
    # As of Clopper and Pearson: -1 and 1 are none and all of what is possible.
    change = paired_change([-1.0] * 6)
    assert (change.interval.low, change.interval.high) == pytest.approx(
        (-1.0, 1 - 2 * 0.025 ** (1 / 6))
    )
    change = paired_change([1.0] * 6)
    assert (change.interval.low, change.interval.high) == pytest.approx(
        (2 * 0.025 ** (1 / 6) - 1, 1.0)
    )


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
