"""A task whose files change while its trial runs is an error with a record, and the run goes on."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from tests.project import Project

pytestmark = pytest.mark.slow  # about files of tasks, not versions

# Does something to the files of one task, after its agent or after its verifier.
CHANGING = """
    import os, shutil, pytest

    @pytest.fixture
    def {fixture}({fixture}, aec_task, aec_trial):
        if aec_task.task_id == "civil/a":
            {change}
        return {fixture}
"""
CHANGES = {
    "the task removed": "shutil.rmtree(aec_task.path)",
    "the prompt removed": "(aec_task.path / 'instruction.md').unlink()",
    "the verifier edited": "(aec_task.path / 'tests/verify.py').write_text('print(1)')",
    "the settings broken": "(aec_task.path / 'task.toml').write_text('[')",
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_task_that_changes_before_it_is_verified_is_an_error(
    anyhow: Project, change: str
) -> None:
    anyhow.task("civil/a")
    anyhow.task("civil/b")
    conftest = CHANGING.format(fixture="aec_execution", change=CHANGES[change])
    anyhow.pytester.makeconftest(conftest)
    result = anyhow.run("--junitxml=out.xml")
    result.assert_outcomes(passed=1, errors=1)
    errors = [error.get("message") or "" for error in ElementTree.parse("out.xml").iter("error")]
    evaluations = {record["task"]["task_id"]: record["evaluation"] for record in anyhow.records()}
    assert evaluations["civil/b"]["reward"] == 1
    assert evaluations["civil/a"]["validity"] == "error"
    assert evaluations["civil/a"]["error"]["cause"] == "task"
    assert len(errors) == 1
    if change == "the verifier edited":
        message = evaluations["civil/a"]["error"]["message"]
        assert message.endswith("tests/verify.py changed while the trial ran; run the trial again")


@pytest.mark.parametrize("change", ["the task removed", "the prompt removed"])
def test_a_task_that_vanishes_after_it_is_verified_keeps_its_reward(
    anyhow: Project, change: str
) -> None:
    anyhow.task("civil/a")
    conftest = CHANGING.format(fixture="aec_reward", change=CHANGES[change])
    anyhow.pytester.makeconftest(conftest)
    anyhow.run().assert_outcomes(passed=1)
    assert anyhow.record()["evaluation"]["reward"] == 1


def test_a_task_that_vanishes_before_its_next_trial_is_an_error_with_a_record(
    anyhow: Project,
) -> None:
    anyhow.task("civil/a")
    change = CHANGES["the task removed"]
    anyhow.pytester.makeconftest(CHANGING.format(fixture="aec_reward", change=change))
    result = anyhow.run("--aec-repetitions=2")
    result.assert_outcomes(passed=1, errors=1)
    second = next(record for record in anyhow.records() if record["repetition"] == 2)
    assert second["evaluation"]["error"]["type"] == "TaskError"
    assert second["task"]["digest"] == "unknown"
    assert second["completeness"] == "partial"
    assert "internal" not in result.stderr.str().lower()


def test_a_record_that_cannot_be_made_is_an_error_with_a_record(anyhow: Project) -> None:
    anyhow.task("civil/a")
    anyhow.task("civil/b")
    trouble = "aec_trial.timing['agent'] = 'long'"
    anyhow.pytester.makeconftest(CHANGING.format(fixture="aec_reward", change=trouble))
    result = anyhow.run("--junitxml=out.xml")
    result.assert_outcomes(passed=1, errors=1)
    evaluations = {record["task"]["task_id"]: record["evaluation"] for record in anyhow.records()}
    assert evaluations["civil/b"]["reward"] == 1
    assert evaluations["civil/a"]["reward"] is None
    assert evaluations["civil/a"]["error"]["type"] == "ValidationError"
    assert len(list(ElementTree.parse("out.xml").iter("error"))) == 1
    assert not list(ElementTree.parse("out.xml").iter("failure"))
