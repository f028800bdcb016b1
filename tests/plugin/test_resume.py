"""A run that is taken up again reuses what has a reward and runs the rest."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from tests.plugin.conftest import in_every_mode
from tests.project import HALF, SOLVE, Project


@in_every_mode
def test_only_what_has_no_reward_runs_again(anyhow: Project) -> None:
    anyhow.task("civil/good")
    anyhow.task("civil/low", solve="true")
    broken = anyhow.task("civil/broken", test_sh="exit 1")
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1, failed=1, errors=1)
    first = {record["trial_id"] for record in anyhow.records()}
    result = anyhow.run("--aec-resume=mine", "-v", "--junitxml=out.xml")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    text = result.stdout.str()
    assert "aec: resuming: 2 trials settled already" in text
    assert "PASSED (1, reused)" in text
    assert "FAILED (0, reused)" in text
    new = [record for record in anyhow.records() if record["trial_id"] not in first]
    assert [record["task"]["task_id"] for record in new] == ["civil/broken"]
    assert {record["experiment_id"] for record in new} == {"mine"}
    summary = next(line.split() for line in result.outlines if line.startswith("oracle "))
    assert summary[:4] == ["oracle", "3", "1", "0.50"]
    cases = list(ET.parse(anyhow.path / "out.xml").getroot().iter("testcase"))
    ids = {p.get("value") for case in cases for p in case.iter("property") if p.get("name") == ID}
    assert len(ids & first) == 2
    (broken / "tests/test.sh").write_text("python3 /tests/verify.py\n")
    anyhow.run("--aec-resume=mine").assert_outcomes(passed=2, failed=1)


ID = "aec.trial_id"


def test_a_reused_trial_says_what_went_wrong_as_it_did_when_it_ran(anyhow: Project) -> None:
    anyhow.task("civil/a", solve="echo '{}' > output.jsonl; exit 3")
    anyhow.task("civil/b", solve="echo '{}' > output.jsonl")
    anyhow.task("civil/c", solve="true")
    lines = []
    for option in ("--aec-experiment-id=mine", "--aec-resume=mine"):
        result = anyhow.run(option)
        result.assert_outcomes(failed=3)
        lines.append([line for line in result.outlines if "needed 1" in line and " - " not in line])
    first, reused = lines
    assert reused == first
    assert len(first) == 3
    assert sum("no /workspace/output.jsonl written" in line for line in first) == 1


def test_a_record_that_vanishes_before_it_is_reused_is_one_line(anyhow: Project) -> None:
    anyhow.task()
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    anyhow.pytester.makeconftest(
        """
        def pytest_runtest_logstart():
            from pathlib import Path
            for path in Path("artefacts/ledger/mine").glob("*-*.json"):
                path.unlink(missing_ok=True)
        """
    )
    result = anyhow.run("--aec-resume=mine")
    result.assert_outcomes(errors=1)
    assert "LedgerError: " in result.stdout.str()
    assert "the trial was to be reused" in result.stdout.str()
    assert "Traceback" not in result.stdout.str()


def test_a_changed_task_is_run_again(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.task("civil/b")
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=2)
    anyhow.task("civil/b", instruction="Write to /workspace/output.jsonl, please.")
    anyhow.run("--aec-resume=mine").assert_outcomes(passed=2)
    assert len(anyhow.records()) == 3


def test_another_agent_is_another_trial(anyhow: Project) -> None:
    anyhow.task()
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    anyhow.run("--aec-resume=mine", "--aec-agent=nop").assert_outcomes(failed=1)
    assert len(anyhow.records()) == 2


@pytest.mark.parametrize(("rerun", "records"), [("error", 2), ("failed", 3), ("all", 4)])
def test_what_runs_again_can_be_chosen(project: Project, rerun: str, records: int) -> None:
    project.task("civil/good")
    project.task("civil/low", solve="true")
    project.run("--aec-experiment-id=mine")
    result = project.run("--aec-resume=mine", f"--aec-rerun={rerun}")
    result.assert_outcomes(passed=1, failed=1)
    assert len(project.records()) == records


def test_without_an_id_the_latest_experiment_is_taken_up(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=zzz-first").assert_outcomes(passed=1)
    project.run("--aec-experiment-id=aaa-second").assert_outcomes(passed=1)
    result = project.run("--aec-resume")
    result.assert_outcomes(passed=1)
    assert "aec: experiment aaa-second" in result.stdout.str()
    assert len(project.records()) == 2


def test_reused_rewards_meet_todays_threshold(project: Project) -> None:
    project.task()
    project.run(f"--aec-agent={HALF}", "--aec-experiment-id=mine").assert_outcomes(failed=1)
    resumed = ("--aec-resume=mine", f"--aec-agent={HALF}")
    project.run(*resumed, "--aec-threshold=0.3").assert_outcomes(passed=1)
    assert len(project.records()) == 1


@pytest.mark.parametrize(
    ("own", "before", "today", "runs_again"),
    [
        (1, ["--aec-threshold=0.3"], [], True),
        (1, ["--aec-threshold=0.3"], ["--aec-threshold=0.5"], True),
        (1, [], ["--aec-threshold=0.3"], False),
        (0.3, ["--aec-threshold=0.5"], [], False),
    ],
)
def test_only_rewards_that_fail_todays_threshold_run_again(
    anyhow: Project, own: float, before: list[str], today: list[str], runs_again: bool
) -> None:
    anyhow.task(toml=f"[metadata]\npass_threshold = {own}\n")
    half = f"--aec-agent={HALF}"
    anyhow.run(half, "--aec-experiment-id=mine", *before)
    result = anyhow.run(half, "--aec-resume=mine", "--aec-rerun=failed", *today)
    assert len(anyhow.records()) == 1 + runs_again
    result.assert_outcomes(**{"failed" if runs_again else "passed": 1})


@pytest.mark.parametrize(
    ("before", "today", "is_shown"), [("0.3", "0.5", True), ("0.5", "0.3", False)]
)
def test_the_summary_says_how_agents_of_reused_trials_ended_that_fail_today(
    project: Project, before: str, today: str, is_shown: bool
) -> None:
    project.task()
    agent = f"--aec-agent={HALF}; exit 3"
    project.run(agent, "--aec-experiment-id=mine", f"--aec-threshold={before}")
    result = project.run(agent, "--aec-resume=mine", f"--aec-threshold={today}")
    assert len(project.records()) == 1
    assert ("exited non-zero" in result.stdout.str()) == is_shown


def test_a_reused_reward_counts_for_each_place_of_its_task(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    anyhow.task("building/b")
    result = anyhow.run("--aec-resume=mine", "--junitxml=out.xml")
    result.assert_outcomes(passed=2)
    assert len(anyhow.records()) == 1
    summary = next(line.split() for line in result.outlines if line.startswith("oracle "))
    assert summary[:3] == ["oracle", "2", "0"]
    assert "2 attempts" not in result.stdout.str()
    properties = ET.parse(anyhow.path / "out.xml").getroot().iter("property")
    tasks = {one.get("value") for one in properties if one.get("name") == "aec.task"}
    assert tasks == {"civil/a", "building/b"}


def test_a_reused_reward_counts_for_the_name_that_its_agent_has_now(anyhow: Project) -> None:
    anyhow.task()
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    result = anyhow.run("--aec-resume=mine", "--aec-agent=alias=oracle")
    result.assert_outcomes(passed=1)
    assert len(anyhow.records()) == 1
    assert [line for line in result.outlines if line.startswith("alias ")]


SOLVES_ONE_PLACE = f"""
from pytest_aecbench import AgentResult

class Local:
    def run(self, task, sandbox, limits):
        if task.path.name == "a":
            sandbox.execute({SOLVE!r})
        return AgentResult("completed")

def pytest_aecbench_make_agent(config, spec):
    return Local() if spec.harness == "local" else None
"""


def test_a_trial_reuses_its_own_record_before_that_of_another_place(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.task("civil/b")
    (anyhow.path / "conftest.py").write_text(SOLVES_ONE_PLACE)
    agent = "--aec-agent=local:x"
    anyhow.run(agent, "--aec-experiment-id=mine").assert_outcomes(passed=1, failed=1)
    anyhow.run(agent, "--aec-resume=mine").assert_outcomes(passed=1, failed=1)
    assert len(anyhow.records()) == 2
    anyhow.run(agent, "--aec-resume=mine", "--aec-rerun=failed", "-n0")
    again = [record["task"]["task_id"] for record in anyhow.records()]
    assert sorted(again) == ["civil/a", "civil/b", "civil/b"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--aec-resume=nosuch"], "--aec-resume: experiment 'nosuch' not found in "),
        (["--aec-resume"], "--aec-resume: no experiment in "),
        (["--aec-resume=x", "--aec-experiment-id=y"], "leave --aec-experiment-id out"),
        (["--aec-rerun=some"], "--aec-rerun: 'some' is not valid; use one of"),
    ],
)
def test_what_cannot_be_taken_up_is_one_line(
    project: Project, arguments: list[str], message: str
) -> None:
    project.task()
    result = project.run(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    assert message in line
