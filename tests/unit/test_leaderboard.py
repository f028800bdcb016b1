"""A leaderboard has a row per agent, over experiments, and never mixes versions of a task."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from pytest_aecbench.ledger.record import (
    AgentIdentity,
    Cost,
    Evaluated,
    Evaluation,
    TaskIdentity,
    Timing,
    TrialRecord,
)
from pytest_aecbench.reports.leaderboard import leaderboard, newest_versions
from pytest_aecbench.reports.summary import Total
from tests.unit.test_record import STARTED, a_record, failed, scored

UNVERIFIED = Evaluation(reward=None, threshold=1.0, passed=None, validity="unverified")


def record(
    agent: str = "it",
    task_id: str = "civil/a",
    reward: float | None = 1.0,
    *,
    digest: str = "d",
    minute: int = 0,
    model: str = "m",
    visibility: str = "public",
    **more: Any,
) -> TrialRecord:
    started = STARTED + timedelta(minutes=minute)
    fields: dict[str, Any] = {
        "agent": AgentIdentity(name=agent, harness="tool_loop", model=f"{agent}-{model}"),
        "task": TaskIdentity(
            task_id=task_id,
            digest=digest,
            domain=task_id.partition("/")[0],
            visibility=visibility,
        ),
        "evaluation": failed() if reward is None else scored(reward),
        "timing": Timing(started_at=started, finished_at=started + timedelta(seconds=30)),
        "cost": Cost(tokens_in=10, tokens_out=1, usd=0.5),
    }
    return a_record(**{**fields, **more})


def test_a_row_per_agent_over_all_experiments_best_first() -> None:
    board = leaderboard(
        [
            record("weak", reward=0.2, experiment_id="one"),
            record("strong", reward=0.8, experiment_id="one"),
            record("strong", reward=1.0, experiment_id="two", minute=1),
            record("strong", "civil/b", None, experiment_id="two", minute=2),
        ]
    )
    strong, weak = board.rows
    assert (strong.agent, weak.agent) == ("strong", "weak")
    assert strong.summary.overall.mean is not None
    assert strong.summary.overall.mean.mean == pytest.approx(0.9)
    assert (strong.summary.overall.trials, strong.summary.overall.errors) == (3, 1)
    assert strong.error_rate == pytest.approx(1 / 3)
    overall = strong.summary.overall
    assert (overall.tasks, weak.summary.overall.tasks, board.tasks) == (2, 1, 2)
    assert overall.tasks_scored == 1
    assert overall.errors_as_zeros == pytest.approx(0.45)
    assert strong.experiments == 2
    assert strong.summary.usd.value == pytest.approx(1.5)
    assert strong.summary.duration_sec == 90


def test_only_the_newest_version_of_a_task_counts_for_everyone_and_the_rest_is_said() -> None:
    board = leaderboard(
        [
            record("old", reward=1.0, digest="1"),
            record("old", "civil/b", 0.5, minute=1),
            record("new", reward=0.5, digest="2", minute=2),
        ]
    )
    assert [one.agent for one in board.rows] == ["new", "old"]
    assert board.rows[1].summary.overall.trials == 1
    assert board.set_aside == {"civil/a": 1}


def test_work_that_was_verified_again_counts_once_by_its_latest_verdict() -> None:
    first = record(reward=0.0)
    again = record(reward=0.5, minute=1, evaluates=evaluated(first))
    at_last = record(reward=1.0, minute=2, evaluates=evaluated(again))
    other = record("other", reward=0.25)
    for records in ([first, again, at_last, other], [other, at_last, first, again]):
        best, worst = leaderboard(records).rows
        assert best.summary.overall.trials == worst.summary.overall.trials == 1
        assert best.summary.overall.mean is not None
        assert best.summary.overall.mean.mean == 1.0


def test_work_that_was_verified_again_stays_the_trial_that_it_was_with_its_cost() -> None:
    failed_first = record(reward=None, experiment_id="first")
    retried = record(reward=0.0, experiment_id="first", minute=1, attempt=2)
    again = record(
        reward=1.0,
        experiment_id="again",
        minute=9,
        evaluates=evaluated(retried),
        cost=Cost(),
        timing=Timing(
            started_at=STARTED + timedelta(minutes=9),
            finished_at=STARTED + timedelta(minutes=9, seconds=1),
        ),
    )
    (row,) = leaderboard([failed_first, retried, again]).rows
    overall = row.summary.overall
    assert (overall.trials, overall.errors, overall.missing) == (1, 0, 0.0)
    assert overall.mean is not None
    assert overall.mean.mean == 1.0
    assert row.summary.usd == Total(1.0, 2, 2)
    assert row.summary.tokens_in == Total(20, 2, 2)
    assert row.summary.duration_sec == 60


def test_an_error_of_a_verification_takes_no_reward_away() -> None:
    first = record(reward=0.75)
    broken = record(reward=None, minute=1, evaluates=evaluated(first))
    (row,) = leaderboard([first, broken]).rows
    assert (row.summary.overall.trials, row.summary.overall.errors) == (1, 0)


@pytest.mark.timeout(20)
def test_records_that_evaluate_one_another_are_ranked() -> None:
    one, two = record(), record(minute=1)
    records = [
        one.model_copy(update={"evaluates": evaluated(two)}),
        two.model_copy(update={"evaluates": evaluated(one)}),
        record("other").model_copy(update={"evaluates": evaluated(record())}),
    ]
    itself = record("self")
    records.append(itself.model_copy(update={"evaluates": evaluated(itself)}))
    assert len(leaderboard(records).rows) == 3


def evaluated(record: TrialRecord) -> Evaluated:
    return Evaluated(experiment_id=record.experiment_id, trial_id=record.trial_id)


def test_the_newest_version_is_the_one_attempted_last_whatever_the_order() -> None:
    records = [record(digest="2", minute=5), record(digest="1", minute=1)]
    for order in (records, records[::-1]):
        kept, set_aside = newest_versions(order)
        assert [one.task.digest for one in kept] == ["2"]
        assert set_aside == {"civil/a": 1}


def test_held_out_tasks_count_only_when_asked_for() -> None:
    records = [record(), record(task_id="secret/b", reward=0.0, visibility="holdout")]
    public, everything = leaderboard(records), leaderboard(records, holdout=True)
    assert (public.rows[0].summary.overall.trials, public.held_out) == (1, 1)
    assert (everything.rows[0].summary.overall.trials, everything.held_out) == (2, 0)


def test_trials_with_mounts_count_only_when_asked_for() -> None:
    seen = {"mounts": ("/home/me:/mnt:ro",)}
    mounted = record(task_id="civil/b", reward=0.0)
    environment = mounted.environment.model_copy(update=seen)
    records = [record(), mounted.model_copy(update={"environment": environment})]
    without, everything = leaderboard(records), leaderboard(records, mounted=True)
    assert (without.rows[0].summary.overall.trials, without.mounted) == (1, 1)
    assert (everything.rows[0].summary.overall.trials, everything.mounted) == (2, 0)


def test_pass_at_k_is_for_as_many_trials_as_all_agents_have() -> None:
    records = [record("a", reward=r, repetition=n) for n, r in enumerate((1.0, 0.0, 0.0), start=1)]
    records += [record("b", reward=1.0, repetition=n) for n in (1, 2)]
    board = leaderboard(records)
    assert board.k == 2
    assert {one.agent: one.pass_at_k for one in board.rows} == {
        "a": pytest.approx(2 / 3),
        "b": 1.0,
    }
    wanted = leaderboard(records, k=3)
    assert {one.agent: one.pass_at_k for one in wanted.rows} == {"a": 1.0, "b": None}


def test_repetitions_of_several_experiments_are_told_apart_and_retries_are_not_trials() -> None:
    records = [
        record(reward=None, experiment_id="one", attempt=1),
        record(reward=1.0, experiment_id="one", attempt=2, minute=1),
        record(reward=0.0, experiment_id="two", minute=2),
    ]
    (row,) = leaderboard(records).rows
    assert (row.summary.overall.trials, row.summary.overall.errors) == (2, 0)
    assert row.summary.attempts == 3


def test_an_agent_is_its_settings_and_not_its_name() -> None:
    renamed = record("new-name", minute=1).model_copy(update={"agent": record("it").agent})
    assert len(leaderboard([record("it"), renamed]).rows) == 1
    same_name = [record("it", model="1", reward=1.0), record("it", model="2", reward=0.5)]
    names = [one.agent for one in leaderboard(same_name).rows]
    assert names == ["it (tool_loop:it-1)", "it (tool_loop:it-2)"]


def test_an_agent_whose_scores_are_missing_does_not_lead() -> None:
    lucky = [record("lucky", f"civil/{n}", None if n else 1.0) for n in range(14)]
    choosy = [record("choosy", "civil/0", 1.0)]
    honest = [record("honest", f"civil/{n}", 0.5) for n in range(14)]
    board = leaderboard([*lucky, *choosy, *honest])
    assert [(row.agent, row.complete) for row in board.rows] == [
        ("honest", True),
        ("choosy", False),
        ("lucky", False),
    ]
    assert [row.missing for row in board.rows] == [0, *[pytest.approx(13 / 14)] * 2]
    assert [row.summary.overall.tasks_scored for row in board.rows] == [14, 1, 1]


def test_agents_are_compared_in_pairs_on_the_tasks_that_both_have_scores_of() -> None:
    rewards = {"best": 1.0, "good": 0.9, "weak": 0.2}
    records = [
        record(agent, f"civil/{n}", reward) for agent, reward in rewards.items() for n in range(8)
    ]
    records[-1] = record("weak", "civil/7", None)
    pairs = leaderboard(records).pairs
    assert [(pair.agent, pair.other, pair.difference.n) for pair in pairs] == [
        ("best", "good", 8),
        ("best", "weak", 7),
        ("good", "weak", 7),
    ]
    assert [pair.difference.mean for pair in pairs] == pytest.approx([0.1, 0.8, 0.7])
    # By hand: all of n differ to one side, 2 / 2 ** n; Holm's factors are 3 for the least, then 2.
    assert [pair.p for pair in pairs] == pytest.approx([3 * 2 / 2**8, 2 * 2 / 2**7, 2 * 2 / 2**7])


def test_a_pair_with_too_few_tasks_has_no_p_and_does_not_raise_those_of_others() -> None:
    records = [
        record(agent, f"civil/{n}", reward)
        for agent, reward, tasks in (("a", 1.0, 6), ("b", 0.5, 6), ("c", 0.2, 3))
        for n in range(tasks)
    ]
    pairs = leaderboard(records).pairs
    assert [pair.p for pair in pairs] == [2 / 2**6, None, None]


def test_no_records_give_an_empty_board() -> None:
    assert leaderboard([]).rows == ()


def test_nothing_is_ranked_without_records() -> None:
    board = leaderboard([])
    assert (board.rows, board.pairs, board.tasks) == ((), (), 0)
