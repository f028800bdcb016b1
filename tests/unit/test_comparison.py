"""Two experiments are compared from trials that belong together, and honestly about the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_aecbench.reports.comparison import (
    Comparison,
    bootstrap_bounds,
    compare,
    judge_regression,
)
from pytest_aecbench.reports.markdown import comparison_blocks
from pytest_aecbench.reports.results import TrialResult
from pytest_aecbench.reports.text import comparison_lines


def trial(task_id: str = "civil/a", reward: float | None = 1.0, **more: Any) -> TrialResult:
    """Return a result whose key follows from task, files, agent and repetition, as a real one's."""
    digest = more.get("task_digest", f"files of {task_id}")
    agent, repetition = more.get("agent", "it"), more.get("repetition", 1)
    fields: dict[str, Any] = {
        "task_id": task_id,
        "agent": agent,
        "repetition": repetition,
        "attempt": 1,
        "domain": "civil",
        "difficulty": None,
        "visibility": "public",
        "scored": reward is not None,
        "reward": reward,
        "passed": None if reward is None else reward >= 1,
        "error_cause": "launch" if reward is None else None,
        "tokens_in": None,
        "tokens_out": None,
        "usd": None,
        "duration_sec": 1.0,
        "trial_key": f"{digest}, {more.get('identity', agent)}, {repetition}",
        "task_digest": digest,
    }
    more.pop("identity", None)
    return TrialResult(**{**fields, **more})


def compared(before: list[TrialResult], after: list[TrialResult], **more: Any) -> Comparison:
    return compare(before, after, names=("A", "B"), **more)


def test_the_same_trials_are_paired_by_their_key() -> None:
    found = compared(
        [trial("civil/a", 1.0), trial("civil/b", 0.5)],
        [trial("civil/b", 0.7), trial("civil/a", 0.0)],
    )
    (agent,) = found.agents
    assert (agent.name, agent.paired_by, agent.pairs) == ("it", "trial", 2)
    assert (agent.before, agent.after, agent.change) == pytest.approx((0.75, 0.35, -0.4))
    assert [task.task_id for task in agent.worse] == ["civil/a"]
    assert [task.task_id for task in agent.better] == ["civil/b"]
    assert found.left_out == {}


def test_two_tasks_with_the_same_files_are_not_mixed_up() -> None:
    before = [trial("civil/a", 1.0, task_digest="x"), trial("civil/b", 0.0, task_digest="x")]
    (agent,) = compared(before, before).agents
    assert agent.pairs == 2
    assert agent.change == 0


def test_a_task_that_was_moved_is_still_the_same() -> None:
    found = compared(
        [trial("civil/a", 1.0, task_digest="x")], [trial("water/a", 0.5, task_digest="x")]
    )
    assert found.agents[0].paired_by == "trial"
    assert found.left_out == {}


def test_an_agent_whose_settings_changed_is_paired_by_its_name() -> None:
    before = [trial(identity="v1"), trial(agent="other")]
    found = compared(before, [trial(reward=0.5, identity="v2"), trial(agent="new")])
    assert [(agent.name, agent.paired_by) for agent in found.agents] == [("it", "name")]
    assert found.left_out == {"only in A": 1, "only in B": 1}


def test_different_agents_are_paired_by_task_and_repetition_where_each_side_has_one() -> None:
    before = [trial(agent="old", repetition=n, reward=0.2) for n in (1, 2)]
    after = [trial(agent="new", repetition=n, reward=0.6) for n in (1, 2, 3)]
    found = compared(before, after)
    (agent,) = found.agents
    assert (agent.name, agent.paired_by, agent.pairs) == ("old > new", "task", 2)
    assert agent.change == pytest.approx(0.4)
    assert found.left_out == {"only in B": 1}
    text = "\n".join(comparison_lines(found))
    assert "paired: 2 (same task files and repetition, different agents)" in text


def test_several_different_agents_are_not_paired_by_guessing() -> None:
    found = compared([trial(agent="old")], [trial(agent="new"), trial(agent="newer")])
    assert found.agents == ()
    assert found.left_out == {"only in A": 1, "only in B": 2}
    assert "nothing is compared: " in "\n".join(comparison_lines(found))


def test_trials_of_changed_files_are_not_compared_and_the_task_is_named() -> None:
    found = compared(
        [trial("civil/a"), trial("civil/b", task_digest="old")],
        [trial("civil/a"), trial("civil/b", task_digest="new")],
    )
    assert found.agents[0].pairs == 1
    assert found.left_out == {"of a task that was changed": 2}
    assert found.changed_tasks == ("civil/b",)
    assert "  changed: civil/b" in list(comparison_lines(found))


def test_errors_are_no_zeros() -> None:
    found = compared(
        [trial("civil/a"), trial("civil/b")], [trial("civil/a"), trial("civil/b", None)]
    )
    (agent,) = found.agents
    assert (agent.pairs, agent.change) == (1, 0)
    assert found.left_out == {"without a reward": 1}


def test_a_trial_counts_by_its_scored_attempt() -> None:
    after = [
        trial(reward=None, attempt=1),
        trial(reward=0.5, attempt=2),
        trial(reward=None, attempt=3),
    ]
    (agent,) = compared([trial()], after).agents
    assert agent.after == 0.5


def test_held_out_trials_count_only_when_asked_for() -> None:
    both = [trial("civil/a"), trial("secret/b", visibility="holdout")]
    found = compared(both, both)
    assert found.agents[0].pairs == 1
    assert found.left_out == {"held out": 2}
    assert "secret" not in "\n".join([*comparison_lines(found), *comparison_blocks(found)])
    assert compared(both, both, holdout=True).agents[0].pairs == 2


def test_tasks_weigh_the_same_however_often_they_are_repeated() -> None:
    before = [trial("civil/a", 1.0, repetition=n) for n in range(1, 5)] + [trial("civil/b", 1.0)]
    after = [trial("civil/a", 0.5, repetition=n) for n in range(1, 5)] + [trial("civil/b", 1.0)]
    (agent,) = compared(before, after).agents
    assert agent.change == pytest.approx(-0.25)


def test_the_interval_is_the_same_every_time_and_holds_the_mean() -> None:
    values = [0.1, -0.3, 0.25, 0.0, -0.05, 0.4]
    low, high = bootstrap_bounds(values)
    assert (low, high) == bootstrap_bounds(values)
    assert (low, high) != bootstrap_bounds(values, seed=1)
    assert low is not None
    assert high is not None
    assert low < sum(values) / len(values) < high
    assert bootstrap_bounds([0.5]) == bootstrap_bounds([]) == (None, None)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8))
def test_bounds_lie_within_the_values(values: list[float]) -> None:
    low, high = bootstrap_bounds(values)
    assert low is not None
    assert high is not None
    assert min(values) - 1e-8 <= low <= high <= max(values) + 1e-8


def rewards(*values: float) -> list[TrialResult]:
    return [trial(f"civil/{number}", value) for number, value in enumerate(values)]


@pytest.mark.parametrize(
    ("after", "tolerance", "passed"),
    [
        ((1.0, 1.0, 1.0, 1.0), None, True),
        ((0.5, 0.4, 0.6, 0.3), None, False),
        ((0.0, 1.0, 1.0, 1.0), None, True),  # one task may fall by chance
        ((0.0, 1.0, 1.0, 1.0), 0.2, False),
        ((0.0, 1.0, 1.0, 1.0), 0.25, True),
        ((0.5, 0.4, 0.6, 0.3), 0.9, True),
        ((0.9, 0.9, 0.9, 0.9), 0.1, True),
    ],
)
def test_a_regression_is_a_fall_beyond_chance_or_beyond_the_tolerance(
    after: tuple[float, ...], tolerance: float | None, passed: bool
) -> None:
    verdict = judge_regression(compared(rewards(1, 1, 1, 1), rewards(*after)), tolerance)
    assert verdict.passed is passed
    (line,) = verdict.lines
    assert line.startswith(
        "it did not regress against A: " if passed else "it regressed against A: "
    )


def test_one_agent_that_regressed_is_enough() -> None:
    before = [*rewards(1, 1, 1), *(trial(f"civil/{n}", 1.0, agent="other") for n in range(3))]
    after = [*rewards(1, 1, 1), *(trial(f"civil/{n}", 0.0, agent="other") for n in range(3))]
    verdict = judge_regression(compared(before, after))
    assert not verdict.passed
    assert len(verdict.lines) == 2


def test_every_line_fits_80_columns_and_names_change_nothing_in_markdown() -> None:
    name = "a|b`<i>" + "x" * 50
    before = [trial(f"civil/{n}", 1.0, agent=name) for n in range(30)]
    after = [trial(f"civil/{n}", 0.0, agent=name) for n in range(30)]
    found = compared(before, after)
    lines = list(comparison_lines(found))
    assert all(len(line) <= 80 for line in lines)
    assert "  worse: 20 more" in lines
    text = "\n\n".join(comparison_blocks(found))
    assert "<i>" not in text
    (row,) = [line for line in text.splitlines() if "-1.00 to" in line]
    assert row.count("|") == 7
