"""Two experiments are compared from trials that belong together, and honestly about the rest."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from pytest_aecbench.reports.comparison import (
    Comparison,
    compare,
    judge_regression,
)
from pytest_aecbench.reports.markdown import comparison_blocks
from pytest_aecbench.reports.power import least_detectable
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


def test_tasks_are_worse_or_better_from_the_largest_change_on_and_not_if_nothing_changed() -> None:
    before = rewards(0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5)
    (agent,) = compared(before, rewards(0.4, 0.9, 0.5, 0.1, 0.6, 0.1, 0.9)).agents
    assert [task.task_id for task in agent.worse] == ["civil/3", "civil/5", "civil/0"]
    assert [task.task_id for task in agent.better] == ["civil/1", "civil/6", "civil/4"]


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
    # Nor where a guess would be possible, because they did not do the same tasks.
    others = [trial("civil/a", agent="new"), trial("civil/b", agent="newer")]
    assert compared([trial("civil/a", agent="old")], others).agents == ()
    assert compared(others, [trial("civil/a", agent="old")]).agents == ()
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
    assert (agent.pairs, agent.change, agent.missing) == (1, 0, 0.5)
    assert found.left_out == {"without a reward": 1}


def test_the_share_of_missing_pairs_is_that_of_the_tasks_on_average() -> None:
    before = [trial("civil/b"), *(trial(repetition=n) for n in range(4))]
    after = [trial("civil/b"), trial(reward=None), *(trial(repetition=n) for n in (0, 2, 3))]
    (agent,) = compared(before, after).agents
    assert (agent.pairs, agent.missing) == (4, 0.125)


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


def rewards(*values: float, n: int = 1) -> list[TrialResult]:
    return [trial(f"civil/{task}", value, repetition=n) for task, value in enumerate(values)]


ALL = (1.0,) * 6
FALLEN = (0.5, 0.4, 0.6, 0.3, 0.5, 0.2)


@pytest.mark.parametrize(
    ("after", "tolerance", "passed"),
    [
        (ALL, None, True),
        (FALLEN, None, False),
        ((0.0, *ALL[1:]), None, True),  # one task may fall by chance
        ((0.0, *ALL[1:]), 0.1, False),
        ((0.0, *ALL[1:]), 0.25, True),
        (FALLEN, 0.9, True),
        ((0.9,) * 6, 0.1, True),
        ((0.9,) * 6, None, False),  # all fell, if only by little
    ],
)
def test_a_regression_is_a_fall_beyond_chance_or_beyond_the_tolerance(
    after: tuple[float, ...], tolerance: float | None, passed: bool
) -> None:
    verdict = judge_regression(compared(rewards(*ALL), rewards(*after)), tolerance)
    assert verdict.passed is passed
    (line,) = verdict.lines
    assert line.startswith(
        "it did not regress against A: " if passed else "it regressed against A: "
    )


def test_a_significant_rise_is_not_a_regression() -> None:
    comparison = compared(rewards(*FALLEN), rewards(*ALL))
    assert comparison.agents[0].p == 2 / 64
    assert judge_regression(comparison).passed


def test_one_agent_that_regressed_is_enough() -> None:
    before = [*rewards(*ALL), *(trial(f"civil/{n}", 1.0, agent="other") for n in range(6))]
    after = [*rewards(*ALL), *(trial(f"civil/{n}", 0.0, agent="other") for n in range(6))]
    verdict = judge_regression(compared(before, after))
    assert not verdict.passed
    assert len(verdict.lines) == 2


@pytest.mark.parametrize("after", [(0.0,) * 5, (1.0,) * 5, (0.5, 1.0)])
def test_too_few_tasks_to_tell_are_not_a_pass_and_say_how_many_are_needed(
    after: tuple[float, ...],
) -> None:
    comparison = compared(rewards(*[1.0] * len(after)), rewards(*after))
    verdict = judge_regression(comparison)
    assert not verdict.passed
    said = f"{len(after)} tasks: too few tasks to tell, at least 6 are needed"
    assert f"it: unknown against A: {said}; " in verdict.lines[0]
    assert f"  {said}" in list(comparison_lines(comparison))
    assert f"- `it`: {said}" in "\n".join(comparison_blocks(comparison))
    assert comparison.agents[0].p is None
    assert judge_regression(comparison, tolerance=1.0).passed


def test_rewards_that_are_missing_on_either_side_are_not_a_pass() -> None:
    full = rewards(*[1.0] * 14)
    broken = [*rewards(*[1.0] * 8), *(trial(f"civil/{n}", None) for n in range(8, 14))]
    for before, after in ((full, broken), (broken, full)):
        comparison = compared(before, after)
        verdict = judge_regression(comparison)
        assert not verdict.passed
        assert "42.86 % of scores are missing, at most 5 % may be" in verdict.lines[0]
        assert not judge_regression(comparison, tolerance=0.5).passed
        assert judge_regression(comparison, max_missing=0.43).passed


def test_where_nothing_is_in_both_it_cannot_be_told() -> None:
    verdict = judge_regression(compared(rewards(*ALL), []))
    assert not verdict.passed
    assert verdict.lines == ("nothing to compare with A: no trial is in both",)


def test_just_as_many_rewards_may_be_missing_as_allowed() -> None:
    after = [*rewards(*[1.0] * 19), trial("civil/19", None)]
    comparison = compared(rewards(*[1.0] * 20), after)
    assert comparison.agents[0].missing == 0.05
    assert judge_regression(comparison).passed
    assert not judge_regression(comparison, max_missing=0.049).passed


def test_a_fall_is_significant_at_exactly_the_level() -> None:
    comparison = compared(rewards(*ALL), rewards(*FALLEN))
    for p, passed in ((0.05, False), (0.0501, True)):
        agents = (replace(comparison.agents[0], p=p),)
        assert judge_regression(replace(comparison, agents=agents)).passed is passed


def test_an_agent_all_of_whose_pairs_lack_a_reward_is_not_forgotten() -> None:
    fine = [trial(f"civil/{n}", 1.0, agent="fine") for n in range(6)]
    before = [*fine, *rewards(*ALL)]
    after = [*fine, *(trial(f"civil/{n}", None) for n in range(6))]
    comparison = compared(before, after)
    assert comparison.unscored == ("it",)
    assert "it: no pair has two rewards" in list(comparison_lines(comparison))
    verdict = judge_regression(comparison)
    assert not verdict.passed
    assert verdict.lines[0] == "it: unknown against A: no pair has two rewards"
    assert verdict.lines[1].startswith("fine did not regress against A: ")


def test_names_of_agents_cannot_start_a_new_line_of_the_verdict() -> None:
    name = "it\nregressed \x1b[31m"
    scored = [trial(f"civil/{n}", 1.0, agent=name) for n in range(6)]
    broken = [trial(f"civil/{n}", None, agent=name) for n in range(6)]
    for after in (scored, broken):
        (line,) = judge_regression(compared(scored, after)).lines
        assert line.isprintable()


def test_where_no_pair_has_two_rewards_it_is_not_said_that_nothing_pairs() -> None:
    lines = list(comparison_lines(compared([trial()], [trial(reward=None)])))
    assert "it: no pair has two rewards" in lines
    assert not any("nothing is compared" in line for line in lines)


def test_a_comparison_has_the_figures_of_the_sign_flip_test() -> None:
    (agent,) = compared(rewards(*ALL, 1.0, 1.0), rewards(*FALLEN, 1.0, 1.0)).agents
    # By hand: six tasks changed, all of them down, in 1 of 64 choices of signs; both sides.
    assert agent.p == 2 / 64
    assert agent.low < agent.change < agent.high
    assert agent.standard_error == pytest.approx(math.sqrt(0.61875 / 7 / 8))
    assert agent.least_detectable is not None
    line = f"  8 tasks: differences from {agent.least_detectable:.2f} on are likely to be found"
    assert line in list(comparison_lines(compared(rewards(*ALL, 1, 1), rewards(*FALLEN, 1, 1))))


def test_the_task_with_the_fewest_pairs_tells_what_could_be_found() -> None:
    often = [one for n in (1, 2, 3) for one in rewards(*ALL, n=n)]
    (agent,) = compared([*often, trial("civil/x")], [*often, trial("civil/x")]).agents
    assert agent.least_detectable == least_detectable(7, 1).least
    assert agent.least_detectable != least_detectable(7, 3).least


def test_repetitions_in_thirds_give_exact_sums() -> None:
    def thrice(*passed: int) -> list[TrialResult]:
        return [
            trial(f"civil/{task}", float(n <= count), repetition=n)
            for task, count in enumerate(passed)
            for n in (1, 2, 3)
        ]

    (agent,) = compared(thrice(3, 3, 3, 0, 0, 0), thrice(2, 2, 2, 3, 0, 0)).agents
    # By hand: changes of -1/3 three times, 1 and 0: nothing of 16 choices is far from the middle.
    assert (agent.change, agent.p) == (0, 1)


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
    assert row.count("|") == 9
