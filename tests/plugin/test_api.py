"""Runs and evaluations that Python code starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import pytest_aecbench
from pytest_aecbench import SettingsError, evaluate
from tests.project import HALF, Project


@pytest.fixture(autouse=True)
def tasks(project: Project) -> None:
    project.task("electrical/ohms-law", toml='[metadata]\ntags = ["lite"]\n')
    project.task("civil/other")


def test_a_run_returns_its_records(
    project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    result = pytest_aecbench.run(
        run_name="mine",
        agents=["oracle", f"half={HALF}"],
        concurrency=2,
        backend="local",
        directory=project.path,
    )
    assert (result.exit_code, result.passed, result.experiment_id) == (1, False, "mine")
    assert sorted(result.rewards) == [0.35, 0.35, 1, 1]
    assert result.mean_reward == pytest.approx(0.675)
    assert {record.trial_id for record in result.records} == {
        record["trial_id"] for record in project.records()
    }
    assert "2 failed, 2 passed" in capfd.readouterr().out


def test_a_subset_is_a_word_of_the_tasks_metadata(project: Project) -> None:
    lite = pytest_aecbench.run(run_name="small", subset="lite", directory=project.path)
    assert [record.task.task_id for record in lite.records] == ["electrical/ohms-law"]
    full = pytest_aecbench.run(subset="full", repetitions=2, directory=project.path)
    assert (full.passed, len(full.records)) == (True, 4)
    with pytest.raises(SettingsError, match=r"^subset: no task has the word 'huge' in its meta"):
        pytest_aecbench.run(subset="huge", directory=project.path)


def test_an_evaluation_returns_new_records_of_the_same_agents(project: Project) -> None:
    first = pytest_aecbench.run("mine", agents=["oracle", "nop"], directory=project.path)
    second = evaluate(
        run_name="mine",
        agents=["nop"],
        tasks=["civil"],
        experiment_id="again",
        options={"threshold": 0},
        pytest_args=["-q"],
        directory=project.path,
    )
    assert (second.passed, second.experiment_id, second.rewards) == (True, "again", (0.0,))
    (record,) = second.records
    (old,) = [one for one in first.records if (one.agent.name, one.task.domain) == ("nop", "civil")]
    assert record.agent == old.agent
    assert record.evaluates is not None
    assert record.evaluates.trial_id == old.trial_id


def test_a_resumed_run_returns_what_it_reuses(project: Project) -> None:
    first = pytest_aecbench.run("mine", tasks=["civil"], directory=project.path)
    again = pytest_aecbench.run(options={"resume": "mine"}, directory=project.path)
    assert (again.experiment_id, len(again.records)) == ("mine", 2)
    assert first.records[0] in again.records


def test_a_mistake_is_one_line_and_nothing_runs(project: Project) -> None:
    for wrong, message in (
        ({"backend": "lcal"}, "--aec-backend: 'lcal' is not known; did you mean 'local'?"),
        ({"run_name": "../x"}, "--aec-experiment-id: '../x' cannot name an experiment; "),
        ({"concurrency": 0}, "concurrency: 0 is not valid; use a number from 1"),
        (
            {"tasks": ["no/such"]},
            "tasks: 'no/such' is not a task; use the path or ",
        ),
    ):
        with pytest.raises(SettingsError) as error:
            pytest_aecbench.run(directory=project.path, **wrong)
        assert str(error.value).startswith(message)
        assert "\n" not in str(error.value)
    with pytest.raises(SettingsError, match=r"^--aec-evaluate: experiment 'nosuch' not found in "):
        evaluate("nosuch", directory=project.path)
    assert project.records() == []


def test_a_run_in_which_nothing_could_start_has_no_records(
    project: Project, tmp_path: Path
) -> None:
    result = pytest_aecbench.run(tasks=[tmp_path], directory=project.path)
    assert (result.exit_code, result.records, result.mean_reward) == (5, (), None)


def test_ctrl_c_lets_pytest_end_in_order(project: Project) -> None:
    project.task("civil/other", solve="sleep 1000")
    code = "import pytest_aecbench; pytest_aecbench.run('mine', tasks=['civil'])"
    process = subprocess.Popen(
        [sys.executable, "-c", code], start_new_session=True, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while not list(project.path.glob("jobs/mine/*/workspace")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=120) != 0
    assert project.record()["evaluation"]["validity"] == "interrupted"
