"""Reliability against k, and the price of results, worked out by hand."""

from __future__ import annotations

import pytest

from pytest_aecbench.reports.columns import cells
from pytest_aecbench.reports.reliability import reliability
from pytest_aecbench.reports.results import TrialResult
from pytest_aecbench.reports.spending import SPENT, efficient, spending
from tests.unit.test_leaderboard import record


def results(*made: tuple[str, int, float | None]) -> list[TrialResult]:
    return [
        TrialResult.from_record(record("it", task, reward, repetition=repetition, minute=minute))
        for minute, (task, repetition, reward) in enumerate(made)
    ]


def test_curves_are_over_tasks_with_enough_trials() -> None:
    found = reliability(
        results(
            *(("a", n, 1.0) for n in (1, 2, 3)),
            *(("b", 1, 1.0), ("b", 2, 0.0), ("b", 3, 0.0)),
            *(("c", 1, 1.0), ("c", 2, None), ("c", 3, None)),
        )
    )
    assert found is not None
    assert (found.n, found.tasks, found.of) == (3, 2, 3)
    # Of b's three trials one passed: 1/3, 1 - 1/3, 1; and for all of k: 1/3, 0, 0.
    assert found.pass_at == pytest.approx((2 / 3, (1 + 2 / 3) / 2, 1.0))
    assert found.pass_hat == pytest.approx((2 / 3, 0.5, 0.5))


def test_without_a_score_there_is_no_curve() -> None:
    assert reliability(results(("a", 1, None))) is None


def attempt(task: str, attempt_: int, reward: float | None, usd: float | None) -> TrialResult:
    made = record("it", task, reward, attempt=attempt_, minute=attempt_, cost={"usd": usd})
    return TrialResult.from_record(made)


def test_a_trial_costs_what_all_of_its_attempts_cost() -> None:
    found = spending(
        [
            attempt("a", 1, None, 0.5),
            attempt("a", 2, 1.0, 1.5),
            attempt("b", 1, 0.0, 1.0),
            attempt("c", 1, 1.0, None),
        ],
        lambda result: {"a": 3.0, "b": 5.0}.get(result.task_id),
    )
    assert (found.trials, found.usd_known) == (3, 2)
    assert found.usd_per_trial == pytest.approx(1.5)
    assert found.usd_per_pass == pytest.approx(3.0)  # c passed too, but at an unknown cost
    assert found.tokens_out_per_trial is None
    assert found.agent_sec == 4.0
    assert cells(SPENT, found) == ("1.5000 (2 known)", "3.0000", "-", "4.0 s")


def test_efficient_is_what_no_other_beats_in_both() -> None:
    assert efficient([(3, 0.9), (1, 0.5), (2, 0.4), (1, 0.6), (4, 0.9)]) == [3, 0]
