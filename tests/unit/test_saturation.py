"""The report on saturation says which tasks do not tell agents apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from pytest_aecbench.ledger.record import AgentIdentity, TrialRecord
from pytest_aecbench.reports.saturation import saturation
from tests.unit.test_leaderboard import evaluated, record


def trials(task: str, outcomes: Mapping[str, Sequence[int]]) -> list[TrialRecord]:
    """Return a record for each trial of each agent, passed for 1 and failed for 0."""
    return [
        record(agent, task, float(passed), repetition=number)
        for agent, passes in outcomes.items()
        for number, passed in enumerate(passes, start=1)
    ]


@pytest.mark.parametrize(
    ("outcomes", "verdict"),
    [
        ({"a": [1, 1], "b": [1, 1]}, "all pass"),
        ({"a": [0, 0], "b": [0]}, "none passes"),
        ({"a": [1, 0], "b": [1, 1]}, "luck"),
        ({"a": [1, 1], "b": [0, 0], "c": [0, 1]}, "luck"),
        ({"a": [1, 0]}, "luck"),
        ({"a": [1, 1], "b": [0, 0]}, "tells apart"),
        ({"a": [1], "b": [0]}, "tells apart"),
        ({"a": [1, 1]}, "one agent"),
        ({"a": [0]}, "one agent"),
    ],
)
def test_a_task_is_judged_by_all_trials_of_its_agents(
    outcomes: Mapping[str, Sequence[int]], verdict: str
) -> None:
    found = saturation(trials("civil/a", outcomes))
    (task,) = found.tasks
    assert task.verdict == verdict
    assert {name: count for name, count in found.verdicts.items() if count} == {verdict: 1}


def test_tasks_that_say_least_come_first_with_their_figures() -> None:
    found = saturation(
        [
            *trials("civil/apart", {"a": [1], "b": [0]}),
            *trials("civil/luck", {"a": [1, 0, 0], "b": [1], "c": [1, 1]}),
            *trials("civil/none", {"a": [0, 0], "b": [0, 0]}),
            *trials("civil/all", {"a": [1], "b": [1]}),
        ]
    )
    assert [task.task_id for task in found.tasks] == [
        "civil/all",
        "civil/none",
        "civil/luck",
        "civil/apart",
    ]
    luck = found.tasks[2]
    assert (len(luck.agents), luck.trials, luck.passed) == (3, 6, 4)
    assert (luck.undecided, luck.repeated) == (1, 2)
    assert found.notes == (
        "tasks: all pass 1, none passes 1, luck 1, tells apart 1, one agent 0",
        "luck cannot be seen without repetitions: tasks 2",
    )


def test_references_errors_earlier_versions_and_held_out_tasks_do_not_count() -> None:
    def reference(name: str, reward: float) -> TrialRecord:
        agent = AgentIdentity(name=name, harness=name)
        return record(reward=reward).model_copy(update={"agent": agent})

    records = [
        record("a", reward=0.0, digest="old", minute=-5),
        *trials("civil/a", {"a": [1], "b": [1]}),
        record("c", reward=None),
        reference("oracle", 1.0),
        reference("nop", 0.0),
        record("a", "civil/s", 0.0, visibility="holdout"),
    ]
    found = saturation(records)
    assert [(task.task_id, task.verdict) for task in found.tasks] == [("civil/a", "all pass")]
    assert found.notes[-4:] == (
        "not counted: 1 of held-out tasks",
        "not counted: 2 of oracle, nop and replay",
        "not counted: 1 of earlier versions of tasks",
        "not counted: 1 without a score",
    )
    assert len(saturation(records, holdout=True).tasks) == 2


def test_work_that_was_verified_again_is_not_luck() -> None:
    first = record("a", reward=0.0)
    again = record("a", reward=1.0, minute=5, evaluates=evaluated(first))
    (task,) = saturation([first, again]).tasks
    assert task.agents == ((1, 1),)


def test_trials_of_several_experiments_are_trials_of_the_same_agent() -> None:
    records = [record("a", reward=0.0), record("a", reward=1.0, experiment_id="two", minute=5)]
    (task,) = saturation(records).tasks
    assert (task.agents, task.verdict) == (((1, 2),), "luck")


def test_retries_of_a_trial_are_not_repetitions() -> None:
    records = [record("a", reward=None, attempt=1), record("a", reward=1.0, attempt=2, minute=1)]
    (task,) = saturation(records).tasks
    assert task.agents == ((1, 1),)
