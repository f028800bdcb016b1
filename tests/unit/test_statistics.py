from __future__ import annotations

import itertools
import json
import math
import operator
import random
import statistics as stdlib
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.ledger.record import Cost, TaskIdentity, Timing
from pytest_aecbench.reports.columns import bounds_text
from pytest_aecbench.reports.results import TrialResult, final_results
from pytest_aecbench.reports.statistics import (
    Interval,
    difference_interval,
    mean_interval,
    mean_interval_by_task,
    pass_at_k,
    pass_at_k_mean,
    pass_hat_k,
    pass_hat_k_mean,
    t_quantile,
)
from pytest_aecbench.reports.summary import Total, summarise
from tests.unit.test_record import STARTED, a_record, failed, scored


def a_result(reward: float | None = 1.0, **changes: Any) -> TrialResult:
    fields = {
        "task_id": "electrical/a",
        "agent": "oracle",
        "repetition": 1,
        "attempt": 1,
        "domain": "electrical",
        "difficulty": "easy",
        "visibility": "public",
        "scored": reward is not None,
        "reward": reward,
        "passed": None if reward is None else reward >= 1,
        "error_cause": "launch" if reward is None else None,
        "tokens_in": None,
        "tokens_out": None,
        "usd": None,
        "duration_sec": 10.0,
    }
    return TrialResult(**{**fields, **changes})


@pytest.mark.parametrize("n", [100_000, 1_000_000])
def test_of_very_many_equal_values_there_is_an_interval(n: int) -> None:
    for value in (0.0, 1.0):
        found = mean_interval([value] * n)
        width = 1 - 0.025 ** (1 / n)  # Clopper and Pearson's
        assert found.high - found.low == pytest.approx(width, rel=0.01)


# From printed tables of Student's distribution, two-sided.
@pytest.mark.parametrize(
    ("confidence", "degrees", "expected"),
    [
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 3, 3.182),
        (0.95, 4, 2.776),
        (0.95, 7, 2.365),
        (0.95, 10, 2.228),
        (0.95, 29, 2.045),
        (0.95, 60, 2.000),
        (0.95, 120, 1.980),
        (0.95, 1000, 1.962),
        (0.90, 5, 2.015),
        (0.99, 1, 63.657),
        (0.99, 9, 3.250),
        (0.999, 3, 12.924),
    ],
)
def test_t_quantiles_are_those_of_the_tables(
    confidence: float, degrees: int, expected: float
) -> None:
    assert t_quantile(confidence, degrees) == pytest.approx(expected, abs=5.1e-4)


@given(st.floats(0.01, 0.999), st.integers(1, 60))
def test_t_quantiles_invert_the_integral_of_the_density(confidence: float, degrees: int) -> None:
    limit = math.atan(t_quantile(confidence, degrees) / math.sqrt(degrees))
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    # With t = tan(angle) sqrt(degrees) the density is cos(angle) ** (degrees - 1): Simpson's rule.
    steps = 400
    total = math.fsum(
        (1 if n in (0, steps) else 4 if n % 2 else 2)
        * math.cos(-limit + 2 * limit * n / steps) ** (degrees - 1)
        for n in range(steps + 1)
    )
    assert scale * total * 2 * limit / steps / 3 == pytest.approx(confidence, abs=1e-6)


def test_t_quantiles_approach_the_normal_distribution() -> None:
    normal = stdlib.NormalDist().inv_cdf(0.975)
    assert t_quantile(0.95, 10_000) == pytest.approx(normal, abs=3e-4)
    assert t_quantile(0.95, 10_000) > normal


# Clopper and Pearson (1934) and tables of it: of zeros and ones, the interval is theirs.
@pytest.mark.parametrize(
    ("passed", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.3085),
        (1, 10, 0.0025, 0.4450),
        (5, 10, 0.1871, 0.8129),
        (81, 263, 0.2527, 0.3676),
        (15, 148, 0.0578, 0.1617),
        (1, 29, 0.0009, 0.1776),
        (14, 14, 0.025 ** (1 / 14), 1.0),
        (5, 5, 0.025 ** (1 / 5), 1.0),
    ],
)
def test_the_interval_of_zeros_and_ones_is_the_published_one(
    passed: int, n: int, low: float, high: float
) -> None:
    interval = mean_interval([1.0] * passed + [0.0] * (n - passed))
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5.1e-5)
    assert (interval.mean, interval.n) == pytest.approx((passed / n, n))


def test_the_interval_is_that_of_uniformly_drawn_weights() -> None:
    values = [0.2, 0.35, 0.35, 0.9, 1.0, 0.0, 0.5]
    draw = random.Random(1)
    means = []
    for _ in range(40_000):
        weights = [draw.expovariate(1) for _ in (*values, 1.0)]
        means.append(sum(map(operator.mul, weights, [*values, 1.0])) / sum(weights))
    upper = sorted(means)[39_000]
    assert mean_interval(values).high == pytest.approx(upper, abs=0.006)


def exact_tail(values: list[Fraction], point: Fraction) -> float:
    """Return how likely a mean of different values exceeds a point if its weights are uniform."""
    return float(
        sum(
            (one - point) ** (len(values) - 1) / math.prod(one - o for o in values if o != one)
            for one in values
            if one > point
        )
    )


@pytest.mark.parametrize("n", [1, 2, 3, 8, 20, 62, 63, 90])
def test_of_different_values_half_of_the_level_lies_beyond_each_bound(n: int) -> None:
    draw = random.Random(n)
    values = [Fraction(value, 10_000) for value in draw.sample(range(1, 10_000), n)]
    interval = mean_interval(map(float, values))
    above = exact_tail([*values, Fraction(1)], Fraction(interval.high))
    below = exact_tail([1 - v for v in (*values, Fraction(0))], 1 - Fraction(interval.low))
    assert (below, above) == pytest.approx((0.025, 0.025), rel=1e-6)


@pytest.mark.parametrize(("passed", "n"), [(1, 2), (1, 29), (5, 10), (28, 29), (81, 263)])
def test_of_zeros_and_ones_half_of_the_level_lies_beyond_each_bound(passed: int, n: int) -> None:
    interval = mean_interval([1.0] * passed + [0.0] * (n - passed))

    def probability(counts: range, p: float) -> float:
        return math.fsum(math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in counts)

    assert probability(range(passed + 1), interval.high) == pytest.approx(0.025, rel=1e-6)
    assert probability(range(passed, n + 1), interval.low) == pytest.approx(0.025, rel=1e-6)


def test_where_all_tasks_passed_the_interval_is_not_a_point() -> None:
    assert bounds_text(mean_interval([1.0] * 14)) == "0.77 to 1.00"
    assert bounds_text(mean_interval([0.35] * 3)) == "0.10 to 0.81"


def test_one_value_has_a_wide_interval_and_no_standard_error() -> None:
    interval = mean_interval([0.5])
    assert (interval.low, interval.high) == pytest.approx((0.0125, 0.9875))
    assert (interval.mean, interval.n, interval.standard_error) == (0.5, 1, None)


def test_the_standard_error_is_that_of_the_mean_over_tasks() -> None:
    assert mean_interval([0.2, 0.4, 0.6]).standard_error == pytest.approx(0.2 / math.sqrt(3))
    assert mean_interval([0.2, 0.4]).standard_error == pytest.approx(0.1)
    assert mean_interval([0.35] * 3).standard_error == 0


def test_an_interval_of_changes_goes_from_minus_1_to_1() -> None:
    interval = mean_interval([0.0] * 14, -1.0, 1.0)
    assert (interval.low, interval.high) == pytest.approx((-0.2316, 0.2316), abs=5e-5)


def test_the_bounds_of_a_difference_are_those_worked_out_by_hand() -> None:
    # Right-angled triangles: sides of 0.3 and 0.4 below, 0.08 and 0.06 above.
    one, other = Interval(0.6, 0.3, 0.68, 4, 0.03), Interval(0.2, 0.14, 0.6, 6, 0.04)
    found = difference_interval(one, other)
    assert (found.mean, found.low, found.high) == pytest.approx((0.4, -0.1, 0.5))
    assert (found.n, found.standard_error) == (10, 0.05)
    single = replace(other, standard_error=None)
    assert difference_interval(one, single).standard_error is None


def test_no_values_have_no_mean() -> None:
    with pytest.raises(ValueError):
        mean_interval([])


@given(
    st.lists(
        st.floats(0, 1) | st.sampled_from([0.0, 1e-9, 1e-12, 0.5, 1 - 1e-9, 1.0]),
        min_size=1,
        max_size=90,
    )
)
def test_the_mean_lies_in_its_interval(values: list[float]) -> None:
    interval = mean_interval(values)
    assert 0 <= interval.low <= interval.mean <= interval.high <= 1


def test_repetitions_do_not_make_an_interval_narrower() -> None:
    once = {"a": [0.2], "b": [0.4], "c": [0.9]}
    often = {task: rewards * 10 for task, rewards in once.items()}
    wide, same = mean_interval_by_task(once), mean_interval_by_task(often)
    assert (same.mean, same.low, same.high, same.n) == pytest.approx(
        (wide.mean, wide.low, wide.high, 3)
    )


def test_tasks_weigh_the_same_whatever_their_number_of_trials() -> None:
    assert mean_interval_by_task({"a": [1.0, 1.0, 1.0], "b": [0.0]}).mean == 0.5


@given(st.integers(1, 9), st.data())
def test_pass_at_k_and_pass_hat_k_are_the_share_of_all_choices_of_k(
    n: int, data: st.DataObject
) -> None:
    c = data.draw(st.integers(0, n))
    k = data.draw(st.integers(1, n))
    choices = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_k_cannot_exceed_the_number_of_trials(n: int, c: int, k: int) -> None:
    for estimate in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError):
            estimate(n, c, k)


def test_pass_at_k_is_averaged_over_the_tasks_that_have_k_outcomes() -> None:
    outcomes = {"a": [True, False], "b": [False, False], "c": [True, True], "d": [True]}
    assert pass_at_k_mean(outcomes, 2) == pytest.approx(2 / 3)
    assert pass_hat_k_mean(outcomes, 2) == pytest.approx(1 / 3)
    assert pass_at_k_mean(outcomes, 1) == pytest.approx(2.5 / 4)
    assert pass_at_k_mean(outcomes, 3) is None
    assert pass_hat_k_mean({}, 1) is None


def test_a_result_takes_what_a_summary_needs_from_a_record() -> None:
    record = a_record(
        repetition=2,
        attempt=3,
        evaluation=scored(0.5),
        cost=Cost(tokens_in=10, usd=0.25),
        timing=Timing(started_at=STARTED, finished_at=STARTED + timedelta(seconds=90)),
    )
    assert TrialResult.from_record(record) == TrialResult(
        task_id="electrical/voltage-drop",
        agent="tool_loop:claude",
        repetition=2,
        attempt=3,
        domain="electrical",
        difficulty="easy",
        visibility="public",
        scored=True,
        reward=0.5,
        passed=False,
        error_cause=None,
        tokens_in=10,
        tokens_out=None,
        usd=0.25,
        duration_sec=90.0,
        trial_id=record.trial_id,
        trial_key=record.trial_key,
        task_digest="d" * 64,
        started_sec=STARTED.timestamp(),
    )


def test_a_result_of_an_error_has_its_cause_and_no_reward() -> None:
    task = TaskIdentity(task_id="a/b", digest="0", domain="a", visibility="holdout")
    result = TrialResult.from_record(a_record(evaluation=failed(), task=task))
    assert (result.scored, result.reward, result.passed) == (False, None, None)
    assert (result.error_cause, result.visibility) == ("launch", "holdout")


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    timing = Timing(started_at=STARTED, finished_at=STARTED - timedelta(seconds=5))
    assert TrialResult.from_record(a_record(timing=timing)).duration_sec == 0


@pytest.mark.parametrize("result", [a_result(), a_result(None, usd=0.5, difficulty=None)])
def test_a_result_crosses_process_borders_as_plain_scalars(result: TrialResult) -> None:
    plain = result.to_dict()
    assert {type(value) for value in plain.values()} <= {str, int, float, bool, type(None)}
    assert TrialResult.from_dict(json.loads(json.dumps(plain))) == result


def test_errors_are_counted_apart_and_never_as_zeros() -> None:
    [summary] = summarise(
        [
            a_result(1.0),
            a_result(0.5, task_id="b"),
            a_result(None, task_id="c"),
            a_result(None, task_id="d", error_cause="build"),
            a_result(None, task_id="e", error_cause=None),
        ]
    )
    overall = summary.overall
    assert (overall.trials, overall.scored, overall.errors) == (5, 2, 2)
    assert overall.causes == {"build": 1, "launch": 1}
    assert overall.mean == mean_interval([1.0, 0.5])
    assert overall.pass_at_1 == mean_interval([1.0, 0.0])
    assert overall.errors_as_zeros == pytest.approx(1.5 / 4)
    assert (overall.tasks, overall.tasks_scored, overall.missing) == (5, 2, 0.6)


def test_errors_as_zeros_are_given_only_where_there_are_errors() -> None:
    [fine] = summarise([a_result(0.5)])
    assert (fine.overall.errors_as_zeros, fine.overall.missing) == (None, 0)
    lost = [a_result(1.0, repetition=1), a_result(None, repetition=2), a_result(0.5, task_id="b")]
    [summary] = summarise(lost)
    assert summary.overall.errors_as_zeros == pytest.approx(0.5)
    assert summary.overall.missing == 0.25
    [broken] = summarise([a_result(None)])
    assert (broken.overall.errors_as_zeros, broken.overall.missing) == (0.0, 1.0)


def test_without_a_scored_trial_there_is_no_mean() -> None:
    [summary] = summarise([a_result(None), a_result(None, repetition=2)])
    assert (summary.overall.mean, summary.overall.pass_at_1) == (None, None)
    assert (summary.pass_at_k, summary.pass_hat_k) == (None, None)


def test_no_results_have_no_summaries() -> None:
    assert summarise([]) == []


def test_the_agent_with_the_highest_mean_comes_first() -> None:
    results = [
        a_result(None, agent="broken"),
        a_result(0.0, agent="nop"),
        a_result(0.5, agent="b"),
        a_result(0.5, agent="a"),
        a_result(1.0, agent="oracle"),
    ]
    agents = [summary.agent for summary in summarise(results)]
    assert agents == ["oracle", "a", "b", "nop", "broken"]


def test_with_repetitions_pass_at_k_and_pass_hat_k_are_given() -> None:
    outcomes = {"a": (1.0, 1.0), "b": (1.0, 0.0), "c": (0.0, 0.0)}
    [summary] = summarise(
        a_result(reward, task_id=task, repetition=n)
        for task, rewards in outcomes.items()
        for n, reward in enumerate(rewards, start=1)
    )
    assert summary.repetitions == 2
    assert summary.pass_at_k == pytest.approx(2 / 3)
    assert summary.pass_hat_k == pytest.approx(1 / 3)
    assert summary.overall.pass_at_1 == mean_interval([1.0, 0.5, 0.0])
    assert summary.overall.mean == mean_interval([1.0, 0.5, 0.0])


def test_a_task_that_lost_a_repetition_to_an_error_is_not_in_pass_at_k() -> None:
    [summary] = summarise(
        [
            a_result(0.0, task_id="a", repetition=1),
            a_result(1.0, task_id="a", repetition=2),
            a_result(0.0, task_id="b", repetition=1),
            a_result(None, task_id="b", repetition=2),
            a_result(1.0, task_id="c", repetition=1),
            a_result(1.0, task_id="c", repetition=2),
        ]
    )
    assert (summary.pass_at_k, summary.pass_hat_k, summary.pass_k_tasks) == (1.0, 0.5, 2)
    assert summary.overall.mean == mean_interval([0.5, 0.0, 1.0])


def test_with_one_repetition_there_is_no_pass_at_k() -> None:
    [summary] = summarise([a_result(), a_result(task_id="b")])
    assert (summary.repetitions, summary.pass_at_k, summary.pass_hat_k) == (1, None, None)


def test_domains_are_sorted_and_difficulties_go_from_easy_to_hard() -> None:
    difficulties = ["hard", None, "easy", "brutal", "medium"]
    [summary] = summarise(
        a_result(n / 4, task_id=str(n), difficulty=difficulty, domain="yx"[n % 2])
        for n, difficulty in enumerate(difficulties)
    )
    assert list(summary.by_domain) == ["x", "y"]
    assert list(summary.by_difficulty) == ["easy", "medium", "hard", "brutal", "unspecified"]
    assert summary.by_difficulty["easy"].mean == mean_interval([0.5])
    assert summary.by_domain["x"].mean == mean_interval([0.25, 0.75])


def test_holdout_tasks_are_summarised_apart() -> None:
    results = [a_result(1.0), a_result(0.0, task_id="h", domain="hidden", visibility="holdout")]
    [summary] = summarise(results)
    assert summary.overall.mean == mean_interval([1.0])
    assert list(summary.by_domain) == ["electrical"]
    assert summary.holdout is not None
    assert summary.holdout.mean == mean_interval([0.0])
    [public] = summarise(results, public_only=True)
    assert public.holdout is None
    assert public.overall == summary.overall
    assert (summary.attempts, public.attempts) == (2, 1)


def test_a_trial_counts_once_with_its_final_attempt_and_costs_all_of_them() -> None:
    attempts = [
        a_result(1.0, attempt=2, usd=0.5, tokens_in=100),
        a_result(None, attempt=1, usd=0.25, tokens_in=50),
        a_result(None, attempt=1, task_id="b"),
        a_result(None, attempt=2, task_id="b", error_cause="provider"),
    ]
    [summary] = summarise(attempts)
    assert (summary.overall.trials, summary.overall.scored) == (2, 1)
    assert summary.overall.causes == {"provider": 1}
    assert summary.attempts == 4
    assert summary.usd == Total(0.75, known=2, of=4)
    assert summary.tokens_in == Total(150, known=2, of=4)
    assert summary.duration_sec == 40


def test_a_scored_attempt_outweighs_later_errors() -> None:
    earned, broken = a_result(1.0, attempt=1), a_result(None, attempt=2)
    assert final_results([earned, broken]) == [earned]
    assert final_results([broken, earned]) == [earned]


def test_a_cost_nobody_knows_is_none_and_not_zero() -> None:
    [summary] = summarise([a_result(tokens_out=0), a_result(task_id="b")])
    assert summary.usd == Total(None, known=0, of=2)
    assert summary.tokens_out == Total(0, known=1, of=2)
