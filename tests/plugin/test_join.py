"""Runs of one experiment: a second one is refused, or shares its trials with the first."""

from __future__ import annotations

import signal
from collections import Counter

import pytest

from tests.costs import at_night
from tests.project import Project
from tests.stopping import BlockedRun, wait_until

pytestmark = pytest.mark.slow  # about records, not versions

MODES = pytest.mark.parametrize("mode", [(), at_night(("-n2",))], ids=["plain", "n2"])
BLOCKING = "--aec-backend=blocking"


def refusal(result: pytest.RunResult) -> str:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines if line.strip()]
    return line


def scored(project: Project) -> Counter[str]:
    records = project.records()
    return Counter(one["task"]["task_id"] for one in records if one["evaluation"]["reward"] == 1)


@MODES
def test_an_experiment_under_way_is_not_run_a_second_time(
    project: Project, mode: tuple[str, ...]
) -> None:
    first = BlockedRun(project, "launch", "--aec-experiment-id=mine", *mode)
    first.process_at("launch")
    for given in ("--aec-resume=mine", "--aec-resume", "--aec-experiment-id=mine"):
        line = refusal(project.run(BLOCKING, given, *mode))
        assert f"{given.partition('=')[0]}: another run is working on 'mine'; wait until" in line
        assert "--aec-join" in line
    first.let_go()
    assert first.end()[0] == 0
    assert scored(project) == {"civil/a": 1, "civil/b": 1, "civil/c": 1}
    project.run(BLOCKING, "--aec-resume=mine").assert_outcomes(passed=3)
    assert scored(project).total() == 3


@MODES
def test_a_run_that_joins_takes_only_trials_that_no_other_run_has(
    project: Project, mode: tuple[str, ...]
) -> None:
    first = BlockedRun(project, "launch", "--aec-experiment-id=mine", "-v")
    first.process_at("launch")
    join = (BLOCKING, "--aec-resume=mine", "--aec-join", "-rs", *mode)
    result = project.run(*join)
    result.assert_outcomes(passed=2, skipped=1)
    assert "another run of the experiment is running this trial" in result.stdout.str()
    # Of what the other run has not finished yet, nothing is run twice either.
    project.run(*join, "--aec-rerun=all").assert_outcomes(passed=2, skipped=1)
    first.let_go()
    returncode, output = first.end()
    assert returncode == 0
    assert output.count("PASSED (1, reused)") == 2
    assert scored(project) == {"civil/a": 1, "civil/b": 1, "civil/c": 1}
    assert not first.left()


def test_several_runs_may_begin_an_experiment_together(project: Project) -> None:
    together = ("--aec-experiment-id=mine", "--aec-join")
    first = BlockedRun(project, "launch", *together)
    first.process_at("launch")
    project.run(BLOCKING, *together).assert_outcomes(passed=2, skipped=1)
    first.let_go()
    assert first.end()[0] == 0
    assert scored(project).total() == 3


@MODES
def test_an_experiment_whose_run_was_killed_can_be_continued_at_once(
    project: Project, mode: tuple[str, ...]
) -> None:
    first = BlockedRun(project, "agent", "--aec-experiment-id=mine", *mode)
    first.signal("group", signal.SIGKILL, "agent")
    first.end()
    project.run(BLOCKING, "--aec-resume=mine").assert_outcomes(passed=3)
    assert scored(project) == {"civil/a": 1, "civil/b": 1, "civil/c": 1}
    first.wait_until_nothing_is_left()


def test_another_run_removes_the_claims_of_one_that_was_killed(project: Project) -> None:
    first = BlockedRun(project, "agent", "--aec-experiment-id=mine")
    first.signal("group", signal.SIGKILL, "agent")
    first.end()
    claims = project.path / "artefacts/ledger/mine/.claims"
    assert claims.is_dir()
    project.run(BLOCKING).assert_outcomes(passed=3)
    wait_until(lambda: not claims.exists(), "the end of the claims")


def test_an_id_that_has_records_is_not_used_again_in_silence(anyhow: Project) -> None:
    anyhow.task()
    anyhow.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    line = refusal(anyhow.run("--aec-experiment-id=mine"))
    assert "--aec-experiment-id: 'mine' has records in artefacts/ledger; continue it " in line
    assert "with --aec-resume=mine, or give another id" in line
    assert len(anyhow.records()) == 1


def test_an_experiment_file_that_was_run_is_not_run_again_in_silence(project: Project) -> None:
    project.task()
    (project.path / "mine.yaml").write_text("experiment_id: mine\nagents:\n  - harness: oracle\n")
    project.run("--aec-experiment=mine.yaml").assert_outcomes(passed=1)
    line = refusal(project.run("--aec-experiment=mine.yaml"))
    assert "mine.yaml: experiment_id: 'mine' has records in " in line
    project.run("--aec-experiment=mine.yaml", "--aec-resume").assert_outcomes(passed=1)
    assert len(project.records()) == 1


def test_an_evaluation_needs_an_id_of_its_own(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    again = ("--aec-evaluate=mine", "--aec-experiment-id=again")
    project.run(*again).assert_outcomes(passed=1)
    assert refusal(project.run(*again)).endswith(
        "'again' has records in artefacts/ledger; give another id"
    )


@pytest.mark.parametrize(("rerun", "records"), [("error", 1), ("all", 2)])
def test_an_id_may_be_begun_or_continued_with_one_command(
    project: Project, rerun: str, records: int
) -> None:
    project.task()
    for _ in range(2):
        command = ("--aec-experiment-id=mine", f"--aec-rerun={rerun}")
        project.run(*command).assert_outcomes(passed=1)
    assert len(project.records()) == records


def test_what_only_looks_at_trials_is_not_refused(project: Project) -> None:
    project.task()
    project.run("--aec-experiment-id=mine").assert_outcomes(passed=1)
    assert project.run("--aec-experiment-id=mine", "--collect-only").ret == 0
    assert project.run("--aec-experiment-id=mine", "--aec-check=structure").ret == 0


def test_to_join_needs_an_experiment(project: Project) -> None:
    project.task()
    line = refusal(project.run("--aec-join"))
    assert "--aec-join: is about an experiment; add --aec-resume=ID" in line
