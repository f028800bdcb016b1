"""The workflows are valid and call steps of .ci that exist."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.slow  # about files around the code, not versions

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
STEPS = ROOT / ".ci/steps"

if not WORKFLOWS:  # as where the wheel is tested beside some of the files
    pytest.skip("workflows are checked in the repository", allow_module_level=True)


def steps_of(workflow: Path) -> list[dict[str, Any]]:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    return [step for job in jobs for step in job["steps"]]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_step_uses_an_action_or_runs_a_command(workflow: Path) -> None:
    assert all(("run" in step) != ("uses" in step) for step in steps_of(workflow))


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_every_job_has_a_deadline(workflow: Path) -> None:
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].values()
    assert all("timeout-minutes" in job for job in jobs)


@pytest.mark.skipif(not STEPS.is_file(), reason="this tree has no .ci/steps")
def test_the_steps_that_workflows_call_exist() -> None:
    defined = set(re.findall(r"^(\w+)\(\) {", STEPS.read_text(encoding="utf-8"), re.MULTILINE))
    commands = [step["run"] for path in WORKFLOWS for step in steps_of(path) if "run" in step]
    lists = [found for text in commands for found in re.findall(r"\. \.ci/steps && (.*?)'", text)]
    called = {part.split()[0] for found in lists for part in found.split(" && ")}
    assert called
    assert called - defined == set()


@pytest.mark.skipif(not STEPS.is_file(), reason="this tree has no .ci/steps")
@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("readme_command trials", "pytest tasks"),
        ("readme_command tests", "pytest -n auto"),
        ("readme_command nothing", "README.md has no command for nothing"),
        ("interpreter 2.9", "no Python 2.9 found"),
    ],
)
def test_a_step_that_finds_nothing_to_do_fails(step: str, said: str) -> None:
    result = subprocess.run(
        ["bash", "-c", f". .ci/steps; found=$({step}); echo $found"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (result.returncode == 0) == ("pytest" in said)
    assert said in result.stdout + result.stderr


@pytest.mark.skipif(not STEPS.is_file(), reason="this tree has no .ci/steps")
def test_only_a_run_in_which_tests_failed_is_tried_again() -> None:
    again = ["bash", "-c", ". .ci/steps; again 9 false || exit"]
    assert subprocess.run(again, cwd=ROOT, capture_output=True).returncode == 9
