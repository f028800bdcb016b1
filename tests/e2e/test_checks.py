"""The shipped tasks, checked as a user checks them: all are sound, and no exploit pays."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_aecbench.checks import EXPLOITS, STANDARD
from pytest_aecbench.checks.ledger import checked
from pytest_aecbench.task import Task
from tests.checking import Checked, run_checks

ROOT = Path(__file__).parents[2]
TASKS = sorted(path.parent for path in (ROOT / "tasks").glob("*/*/task.toml"))


def check(directory: Path, *arguments: str) -> Checked:
    (directory / "tasks").symlink_to(ROOT / "tasks")
    return run_checks(directory, "-n2", *arguments)


def skipped(found: Checked) -> set[str]:
    assert found.code == 0, found.output
    assert {record["outcome"] for record in found.records} <= {"passed", "skipped"}
    return {record["check"] for record in found.records if record["outcome"] == "skipped"}


@pytest.mark.needs("namespaces")
def test_all_tasks_are_sound_and_no_exploit_pays(tmp_path: Path) -> None:
    found = check(tmp_path, "tasks", "--aec-check=all", "--aec-local-mode=namespaces")
    assert skipped(found) <= {"exploit:preload"}  # where there is no compiler
    for task in TASKS:
        summary = checked(tmp_path / "artefacts/ledger", Task.load(task).digest)
        assert summary is not None
        assert summary.sound
        assert {*summary.passed, *summary.skipped} == {*STANDARD, *EXPLOITS}


def test_all_tasks_are_sound_by_rewriting_too(tmp_path: Path) -> None:
    found = check(tmp_path, "tasks", "--aec-check", "--aec-local-mode=rewriting")
    assert skipped(found) <= {"offline"}
    assert len(found.records) == len(STANDARD) * len(TASKS)


@pytest.mark.needs("docker")
def test_a_task_is_sound_and_no_exploit_pays_in_containers(tmp_path: Path) -> None:
    found = check(
        tmp_path, "tasks/building/egress-width", "--aec-check=all", "--aec-backend=docker"
    )
    assert skipped(found) == {"exploit:preload"}  # its image has no compiler
    assert len(found.records) == len(STANDARD) + len(EXPLOITS)
