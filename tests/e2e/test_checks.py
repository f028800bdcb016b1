"""The shipped tasks, checked as a user checks them: all are sound, and no exploit pays."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from pytest_aecbench.ledger.checks import EXPLOITS, STANDARD, checked
from pytest_aecbench.tasks.task import Task
from tests.checking import Checked, run_checks, write_task
from tests.e2e.shipped import ROOT, SOME, one_or_all

pytestmark = pytest.mark.slow
# These need one kind of machine, or git in the image.
ELSEWHERE = {"exploit:preload", "exploit:git-objects"}


def check(directory: Path, names: Iterable[str], *arguments: str) -> Checked:
    """Check copies of tasks under other names, because agents may find the tasks themselves."""
    for name in names:
        shutil.copytree(ROOT / "tasks" / name, directory / f"tasks/{name}-copy", symlinks=True)
    return run_checks(directory, "-n2", "tasks", *arguments)


def skipped(found: Checked) -> set[str]:
    assert found.code == 0, found.output
    assert {record["outcome"] for record in found.records} <= {"passed", "skipped"}
    return {record["check"] for record in found.records if record["outcome"] == "skipped"}


@pytest.mark.needs("namespaces")
@one_or_all
def test_tasks_are_sound_and_no_exploit_pays(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = check(tmp_path, names, "--aec-check=all", "--aec-local-mode=namespaces")
    assert skipped(found) <= ELSEWHERE
    for name in names:
        task = Task.load(ROOT / "tasks" / name)
        summary = checked(tmp_path / "artefacts/ledger", task.digest)
        assert summary is not None
        assert summary.sound
        assert {*summary.passed, *summary.skipped} == {*STANDARD, *EXPLOITS}


@pytest.mark.nightly
@pytest.mark.parametrize("names", [SOME])
def test_tasks_are_sound_by_rewriting_too(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = check(tmp_path, names, "--aec-check", "--aec-local-mode=rewriting")
    assert skipped(found) <= {"offline"}
    assert len(found.records) == len(STANDARD) * len(names)


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_a_task_is_sound_in_containers(tmp_path: Path) -> None:
    found = check(tmp_path, SOME[:1], "--aec-check", "--aec-backend=docker")
    assert skipped(found) == set()
    assert len(found.records) == len(STANDARD)


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
@pytest.mark.nightly
@pytest.mark.parametrize("names", [SOME])
def test_no_exploit_pays_in_containers(tmp_path: Path, names: tuple[str, ...]) -> None:
    found = check(tmp_path, names, "--aec-check=exploits", "--aec-backend=docker")
    assert skipped(found) <= ELSEWHERE
    assert len(found.records) == len(EXPLOITS) * len(names)


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_an_image_that_cannot_be_built_is_a_finding_of_its_check_alone(tmp_path: Path) -> None:
    dockerfile = "FROM python:3.11-slim\nRUN exit 3\n"
    write_task(tmp_path / "tasks/a", {"environment/Dockerfile": dockerfile})
    found = run_checks(tmp_path, "tasks", "--aec-backend=docker", "--aec-check=image,solution")
    assert found.outcomes("a") == {"image": "failed", "solution": "skipped"}
    assert "the image cannot be built" in found.record("a", "image")["message"]


@pytest.mark.needs("docker")
@pytest.mark.usefixtures("alone_on_engine")
def test_what_an_image_brings_along_is_found_wherever_it_is(tmp_path: Path) -> None:
    copies = {
        "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\nCOPY a.gz /srv/\n"
        "RUN gunzip /srv/a.gz\n",
    }
    task = write_task(tmp_path / "tasks/a", copies)
    packed = gzip.compress((task / "tests/verify.py").read_bytes())
    (task / "environment/a.gz").write_bytes(packed)
    found = run_checks(tmp_path, "tasks", "--aec-backend=docker", "--aec-check=secrecy")
    assert found.failed("a") == ["secrecy"]
    assert found.record("a", "secrecy")["message"] == "/srv/a in the sandbox is tests/verify.py"
