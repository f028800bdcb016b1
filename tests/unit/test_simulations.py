"""Intervals, tests and designs hold what they promise, in exact counts and in simulations.

The tables of ``docs/statistics.md`` are those that the nightly tests print.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import fmean

import pytest

from pytest_aecbench.reports.paired import MIN_TASKS, sign_flip_p
from pytest_aecbench.reports.power import least_detectable
from pytest_aecbench.reports.statistics import LEVEL, difference_interval, mean_interval

PAGE = Path(__file__).parents[2] / "docs/statistics.md"
MEANS = (0.02, 0.1, 0.3, 0.5)  # and 0.98, 0.9, 0.7, because all is symmetric


def in_page(kind: str, repetitions: int, shares: Iterable[float]) -> str:
    """Print a row of a table, in per cent, and return it as the page has it."""
    row = f"| {kind} | {repetitions} | {' | '.join(f'{100 * share:.1f}' for share in shares)} |"
    print(row)
    return row


# Rewards: a task's own chance is drawn from Beta, wide; its repetitions are drawn from that chance.


def chance(draw: random.Random, mean: float) -> float:
    return draw.betavariate(2 * mean, 2 * (1 - mean))


def pass_or_fail(draw: random.Random, mean: float) -> float:
    return float(draw.random() < mean)


def four_criteria(draw: random.Random, mean: float) -> float:
    return sum(draw.random() < mean for _ in range(4)) / 4


def rarely_less(draw: random.Random, mean: float) -> float:
    """Return a high reward nearly always, and 0 or much less at times: what variances miss."""
    low, high = (0.5, 1.0) if mean >= 0.5 else (0.0, 0.5)
    return high if draw.random() < (mean - low) / (high - low) else low


Reward = Callable[[random.Random, float], float]
KINDS: dict[str, tuple[Reward, bool]] = {
    "0/1, tasks differ": (pass_or_fail, True),
    "0/1, tasks alike": (pass_or_fail, False),
    "four criteria": (four_criteria, True),
    "two levels": (rarely_less, False),
}


def task_means(
    draw: random.Random, kind: str, tasks: int, repetitions: int, mean: float
) -> list[float]:
    reward, differ = KINDS[kind]
    chances = (chance(draw, mean) if differ else mean for _ in range(tasks))
    return [fmean(reward(draw, own) for _ in range(repetitions)) for own in chances]


def coverage(kind: str, tasks: int, repetitions: int, mean: float, times: int) -> float:
    draw = random.Random(f"{kind} {tasks} {repetitions} {mean}")
    covered = 0
    for _ in range(times):
        found = mean_interval(task_means(draw, kind, tasks, repetitions, mean))
        covered += found.low <= mean <= found.high
    return covered / times


def exact_coverage(tasks: int, mean: float) -> float:
    """Return the probability that the interval of single 0/1 trials holds the mean."""
    total = 0.0
    for passed in range(tasks + 1):
        found = mean_interval([1.0] * passed + [0.0] * (tasks - passed))
        if found.low <= mean <= found.high:
            total += math.comb(tasks, passed) * mean**passed * (1 - mean) ** (tasks - passed)
    return total


@pytest.mark.parametrize("tasks", [5, 6, 7, 10, 14, 20, 50, 100])
def test_intervals_of_single_trials_that_pass_or_fail_hold_the_mean_in_95_of_100_cases(
    tasks: int,
) -> None:
    found = {mean: exact_coverage(tasks, mean / 100) for mean in range(2, 100, 4)}
    assert min(found.values()) >= 0.95, found


@pytest.mark.parametrize(
    ("kind", "tasks", "repetitions", "mean"),
    [
        ("0/1, tasks differ", 5, 3, 0.9),
        ("0/1, tasks alike", 14, 3, 0.98),
        ("four criteria", 14, 1, 0.9),
        ("two levels", 5, 1, 0.98),
        ("two levels", 50, 10, 0.7),
    ],
)
def test_simulated_intervals_hold_the_mean(
    kind: str, tasks: int, repetitions: int, mean: float
) -> None:
    assert coverage(kind, tasks, repetitions, mean, times=300) >= 0.93


@pytest.mark.parametrize("kind", KINDS)
def test_intervals_of_the_difference_of_two_groups_of_tasks_hold_it(kind: str) -> None:
    draw = random.Random(kind)
    means, times = (0.5, 0.3), 300
    held = 0
    for _ in range(times):
        one, other = (mean_interval(task_means(draw, kind, 8, 1, mean)) for mean in means)
        found = difference_interval(one, other)
        held += found.low <= means[0] - means[1] <= found.high
    assert held / times >= 0.95


def test_intervals_of_both_ends_mirror_each_other() -> None:
    draw = random.Random(1)
    for tasks in (1, 5, 14, 80):
        values = task_means(draw, "four criteria", tasks, 3, 0.8)
        one, other = mean_interval(values), mean_interval(1 - value for value in values)
        assert (one.low, one.high) == pytest.approx((1 - other.high, 1 - other.low), abs=1e-6)


def regressions(kind: str, tasks: int, repetitions: int, mean: float, times: int) -> float:
    """Return the share of comparisons of an agent with itself that call a regression."""
    draw = random.Random(f"{kind} {tasks} {repetitions} {mean}")
    reward, differ = KINDS[kind]
    called = 0
    for _ in range(times):
        changes = []
        for _ in range(tasks):
            own = chance(draw, mean) if differ else mean
            before, after = (fmean(reward(draw, own) for _ in range(repetitions)) for _ in "ab")
            changes.append(after - before)
        called += tasks >= MIN_TASKS and fmean(changes) < 0 and sign_flip_p(changes) <= LEVEL
    return called / times


@pytest.mark.parametrize("tasks", [6, 8, 14])
@pytest.mark.parametrize("kind", ["four criteria", "0/1, tasks alike"])
def test_an_agent_compared_with_itself_regresses_in_2_5_of_100_cases_at_most(
    kind: str, tasks: int
) -> None:
    times = 600
    noise = 3 * math.sqrt(0.025 * 0.975 / times)
    assert regressions(kind, tasks, 3, 0.7, times) <= 0.025 + noise


Change = Callable[[random.Random, int, float], float]


def by_luck(draw: random.Random, repetitions: int, difference: float) -> float:
    """Return a task's change where the chance of every trial falls from above to below a half."""
    before, after = (
        fmean(pass_or_fail(draw, (1 + shift) / 2) for _ in range(repetitions))
        for shift in (difference, -difference)
    )
    return after - before


def by_task(draw: random.Random, repetitions: int, difference: float) -> float:
    """Return a task's change where some tasks fall from 1 to 0, however often repeated."""
    return -float(draw.random() < difference)


def found_share(
    tasks: int, repetitions: int, difference: float, change: Change, times: int
) -> float:
    """Return how often a fall by the difference is found."""
    draw = random.Random(f"{tasks} {repetitions}")
    found = 0
    for _ in range(times):
        changes = [change(draw, repetitions, difference) for _ in range(tasks)]
        found += fmean(changes) < 0 and sign_flip_p(changes) <= LEVEL
    return found / times


@pytest.mark.parametrize(("tasks", "repetitions"), [(8, 1), (14, 1), (14, 3), (50, 1), (100, 3)])
@pytest.mark.parametrize("change", [by_luck, by_task])
def test_the_least_detectable_difference_is_found_in_80_of_100_cases(
    tasks: int, repetitions: int, change: Change
) -> None:
    least = least_detectable(tasks, repetitions).least
    assert least is not None
    noise = 3 * math.sqrt(0.8 * 0.2 / 400)
    assert found_share(tasks, repetitions, least, change, times=400) >= 0.8 - noise


@pytest.mark.parametrize("tasks", [6, 8, 10, 14, 20, 30, 50, 100, 200, 500])
def test_the_table_of_least_detectable_differences_is_that_of_the_page(tasks: int) -> None:
    cells = (f"{least_detectable(tasks, repetitions).least:.2f}" for repetitions in (1, 3, 10))
    assert f"| {tasks} | {' | '.join(cells)} |" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("repetitions", [1, 3, 10])
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_coverage_is_that_of_the_page(kind: str, repetitions: int) -> None:
    lowest = [
        min(coverage(kind, tasks, repetitions, mean, times=1000) for mean in MEANS)
        for tasks in (5, 8, 14, 30, 50, 100, 200, 500)
    ]
    row = in_page(kind, repetitions, lowest)
    assert min(lowest) >= 0.93
    assert row in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("repetitions", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_table_of_false_regressions_is_that_of_the_page(kind: str, repetitions: int) -> None:
    times = 2000
    highest = [
        max(regressions(kind, tasks, repetitions, mean, times) for mean in (0.5, 0.7, 0.9))
        for tasks in (5, 6, 8, 10, 14, 20, 30, 50)
    ]
    row = in_page(kind, repetitions, highest)
    assert max(highest) <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / times)
    assert row in PAGE.read_text(encoding="utf-8")
