"""What dead runs left is settled by the next run, without harm to others."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
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


TOKEN = "t0ken-5ecret-value"


@pytest.fixture
def killed(
    project: Project, own_machine: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], None]:
    """Kill a run that has its files elsewhere, when its agent has written a secret."""
    monkeypatch.setenv("MY_TOKEN", TOKEN)

    def kill() -> None:
        handed = '[solution.env]\nA = "${MY_TOKEN}"\n'
        project.task(toml=handed, solve='echo "$A" > a; touch started; sleep 4321')
        options = ("-q", "tasks", "--aec-local-mode=rewriting", "-o", "aec_jobs_root=elsewhere")
        argv = [sys.executable, "-m", "pytest", *options]
        with subprocess.Popen(argv, cwd=project.path, stdout=subprocess.DEVNULL) as process:
            try:
                wait_until(lambda: list(project.path.glob("elsewhere/*/*/workspace/started")))
            finally:
                process.kill()
        project.task(toml=handed)

    return kill


def crashed(project: Project) -> dict[str, Any]:
    """Return the record of the run that was killed."""
    (record,) = (one for one in project.records() if one["evaluation"]["validity"] == "crashed")
    return record


@pytest.mark.parametrize("has_lease", [True, False], ids=["lease", "no lease"])
def test_the_next_run_finds_files_of_a_dead_one_where_that_had_put_them(
    project: Project, own_machine: Path, killed: Callable[[], None], has_lease: bool
) -> None:
    killed()
    if not has_lease:
        for lease in (own_machine / "runs").iterdir():
            lease.unlink()
    project.run().assert_outcomes(passed=1)
    (written,) = project.path.glob("elsewhere/*/*/workspace/a")
    assert written.read_text() == "<MY_TOKEN>\n"
    assert crashed(project)["warnings"] == []


def test_the_record_of_a_dead_trial_says_that_its_files_are_gone(
    project: Project, killed: Callable[[], None]
) -> None:
    killed()
    shutil.rmtree(project.path / "elsewhere")
    project.run().assert_outcomes(passed=1)
    assert crashed(project)["warnings"] == [
        "not checked for secrets: the files of this trial, which were not found"
    ]


def test_the_record_of_a_dead_trial_names_the_secrets_that_the_next_run_does_not_know(
    project: Project, killed: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed()
    monkeypatch.delenv("MY_TOKEN")
    project.task(toml="")
    project.run().assert_outcomes(passed=1)
    assert crashed(project)["warnings"] == [
        "not checked for secrets: the files of this trial, for MY_TOKEN"
    ]


def test_the_next_run_searches_no_directory_that_is_not_the_trial_s(
    project: Project, own_machine: Path, killed: Callable[[], None]
) -> None:
    killed()
    for lease in (own_machine / "runs").iterdir():
        lease.unlink()
    (note,) = project.path.glob("artefacts/ledger/*/.*.running")
    labels, data, rest = note.read_bytes().split(b"\n", 2)
    changed = json.loads(data)
    changed["outputs"]["jobs_dir"] = "precious"
    note.write_bytes(b"\n".join((labels, json.dumps(changed).encode(), rest)))
    precious = project.path / "precious/file"
    precious.parent.mkdir()
    precious.write_text(TOKEN)
    project.run().assert_outcomes(passed=1)
    assert precious.read_text() == TOKEN


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
