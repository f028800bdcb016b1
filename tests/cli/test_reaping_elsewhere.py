"""What a live run owns is left alone by others that cannot see its processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_reaping import kill_with_its_watcher
from tests.elsewhere import in_another_namespace, on_another_machine, under_another_name
from tests.project import SOLVE, Project
from tests.stopping import processes, wait_until

pytestmark = pytest.mark.needs("machines")

REAP = (sys.executable, "-c", "from pytest_aecbench.cli import main; main()", "reap")
LOCAL = ("--backend=local", "--json")
Elsewhere = Callable[..., list[str]]


@pytest.fixture
def project(pytester: pytest.Pytester, own_machine: Path) -> Project:
    return Project(pytester, ())


@pytest.fixture
def running(project: Project) -> Iterator[subprocess.Popen[str]]:
    """A run whose one trial waits for the file ``go`` in its workspace, and then passes."""
    project.task(solve=f"touch started; until [ -e go ]; do sleep 0.1; done; {SOLVE}")
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "-q", "tasks", "--aec-local-mode=rewriting"],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: workspaces(project))
    yield process
    process.kill()
    process.communicate()


def workspaces(project: Project) -> list[Path]:
    return [path.parent for path in project.path.glob("jobs/*/*/workspace/started")]


def let_it_pass(project: Project, running: subprocess.Popen[str]) -> None:
    """Let the run's trial go on, which it can only if nothing was taken from it."""
    (workspace,) = workspaces(project)
    (workspace / "go").touch()
    output, _ = running.communicate(timeout=60)
    assert running.returncode == 0, output
    (record,) = project.records()
    assert record["evaluation"]["reward"] == 1


def reaped(command: list[str], project: Project) -> dict[str, Any]:
    ended = subprocess.run(command, cwd=project.path, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


@pytest.fixture(params=["namespace", "machine", "boot"])
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Elsewhere:
    """A place with this host's name and files, where its processes cannot be looked up."""
    if request.param == "namespace":
        return in_another_namespace
    machine = Path("/etc/machine-id")
    ids = machine.read_text() if request.param == "boot" and machine.exists() else None
    return lambda *argv: on_another_machine(tmp_path, *argv, machine=ids)


def test_reaping_elsewhere_leaves_a_live_run_alone_and_says_so(
    running: subprocess.Popen[str], project: Project, own_machine: Path, elsewhere: Elsewhere
) -> None:
    (home,) = (own_machine / "homes").iterdir()
    found = reaped(elsewhere(*REAP, *LOCAL), project)
    assert (found["removed"], found["recorded"]) == ({"local": []}, [])
    assert found["left_alone"]["local"] == [home.name]
    (run,) = (own_machine / "runs").glob("*.json")
    assert found["left_alone"]["runs"] == [run.stem]
    let_it_pass(project, running)


def test_a_run_elsewhere_leaves_a_live_run_alone(
    running: subprocess.Popen[str], project: Project, elsewhere: Elsewhere
) -> None:
    project.task("electrical/other", instruction="Another task.")
    pytest_there = (sys.executable, "-m", "pytest", "-q", "tasks/electrical/other")
    second = subprocess.run(
        elsewhere(*pytest_there, "--aec-local-mode=rewriting", "--aec-experiment-id=second"),
        cwd=project.path,
        capture_output=True,
        text=True,
    )
    assert second.returncode == 0, second.stdout
    (record,) = project.records()
    assert record["experiment_id"] == "second"
    (project.path / f"artefacts/ledger/second/{record['trial_id']}.json").unlink()
    let_it_pass(project, running)


def test_a_silent_run_is_dead_wherever_it_was(
    running: subprocess.Popen[str], project: Project, own_machine: Path, elsewhere: Elsewhere
) -> None:
    (home,) = (own_machine / "homes").iterdir()
    kill_with_its_watcher(running, home)
    (lease,) = (own_machine / "runs").glob("*.json")
    (note,) = project.path.glob("artefacts/ledger/*/.*.running")
    for path in (home / "owner.json", lease, note):
        os.utime(path, (0, 0))
    found = reaped(elsewhere(*REAP, *LOCAL), project)
    assert found["removed"] == {"local": [home.name]}
    assert [trial["task_id"] for trial in found["recorded"]] == ["electrical/ohms-law"]
    assert found["left_alone"] == {}
    assert project.record()["evaluation"]["validity"] == "crashed"
    assert list((own_machine / "runs").iterdir()) == []
    # Its processes could not be seen from there, so they end when this machine is reaped.
    assert list(processes("environ", f"={home.name}."))
    assert reaped([*REAP, *LOCAL], project)["removed"] == {"local": [home.name]}
    wait_until(lambda: not list(processes("environ", f"={home.name}.")))


def test_another_host_name_hides_no_process(
    running: subprocess.Popen[str], project: Project, own_machine: Path
) -> None:
    (home,) = (own_machine / "homes").iterdir()
    command = under_another_name(*REAP, *LOCAL)
    assert reaped(command, project)["removed"] == {"local": []}
    assert home.is_dir()
    kill_with_its_watcher(running, home)
    assert reaped(command, project)["removed"] == {"local": [home.name]}
