"""What dead runs left is settled by the next run, without harm to others."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from pytest_aecbench.host.owner import Owner
from tests.costs import at_night
from tests.project import Project
from tests.stopping import BlockedRun, wait_until


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    return Project(pytester, ())


def leases(run: BlockedRun) -> list[str]:
    return [path.name for path in (run.path / "tmp").glob("aecbench-*/runs/*")]


@pytest.mark.parametrize("workers", [(), at_night(("-n2",))], ids=["plain", "n2"])
def test_the_next_run_ends_the_lease_of_a_killed_one(
    project: Project, workers: tuple[str, ...]
) -> None:
    run = BlockedRun(project, "agent", *workers)
    run.signal("controller", signal.SIGKILL, "agent")
    run.end()
    wait_until(lambda: not run.running(), "the end of its workers")
    assert len(leases(run)) == 1
    run.run_again()
    assert leases(run) == []
    validities = run.validities()
    validities.remove("interrupted" if workers else "crashed")
    assert set(validities) <= {"scored"}  # by the worker that was not blocked


def test_ctrl_c_of_one_run_says_nothing_about_the_trials_of_another(project: Project) -> None:
    run = BlockedRun(project, "agent")
    run.process_at("agent")
    (note,) = project.path.glob("artefacts/ledger/*/.*.running")
    _, data, phase = note.read_bytes().split(b"\n", 2)
    died = {**json.loads(data), "run_id": "another", "trial_id": str(uuid4())}
    labels = replace(Owner.current(), started="1").labels()
    lines = (json.dumps(labels).encode(), json.dumps(died).encode(), phase)
    note.with_name(f".{died['trial_id']}.running").write_bytes(b"\n".join(lines))
    run.signal("controller", signal.SIGINT, "agent")
    run.end()
    found = {one["run_id"]: one["evaluation"]["validity"] for one in run.records()}
    assert found.pop("another") == "crashed"
    assert set(found.values()) == {"interrupted"}


BACKEND = """
import threading
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.errors import BackendError, SettingsError
from pytest_aecbench.trials import reaping

reaping._LIMIT_SEC = 0.2

class Away(LocalBackend):
    def close(self):
        super().close()
        raise BackendError("away: the engine does not answer")

    def reap(self, *, dry_run=False):
        raise SettingsError("away: the key is refused")

class Stuck(LocalBackend):
    def reap(self, *, dry_run=False):
        threading.Event().wait()

class Broken(LocalBackend):
    def reap(self, *, dry_run=False):
        raise RuntimeError("no such\\nluck")

class Careful(LocalBackend):
    def reap(self, *, dry_run=False):
        self.left_alone = list("abcde")
        return []

def pytest_aecbench_make_backend(config, name):
    made = {"away": Away, "stuck": Stuck, "broken": Broken, "careful": Careful}.get(name)
    return made and made()
"""
CAREFUL = (
    "careful: left 5 alone whose run may be alive in another container, "
    "on another machine, or before this boot: a, b, c, …"
)
ENDS = {
    "away": [
        "away: the engine does not answer",
        "what dead runs left cannot be removed; away: the key is refused",
    ],
    "stuck": ["stuck: what dead runs left is not removed after 0 s; run aec-bench reap"],
    "broken": ["what dead runs left cannot be removed; broken: no such luck"],
    "careful": [CAREFUL],
}


@pytest.mark.parametrize("backend", ENDS)
def test_no_run_waits_for_what_others_left_nor_stops_because_of_it(
    project: Project, own_machine: Path, backend: str
) -> None:
    project.task()
    (project.path / "conftest.py").write_text(BACKEND)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tasks", f"--aec-backend={backend}"],
        cwd=project.path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    for line in ENDS[backend]:
        assert lines.count(f"aec: {line}") == 1, ended.stdout
    assert project.record()["evaluation"]["reward"] == 1
    assert list((own_machine / "runs").iterdir()) == []
