"""Whole runs in lanes at each vendor, through its real SDK: records, rewards, and nothing left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.ledger.journal import attempts
from tests.costs import at_night
from tests.e2e.test_vendors import plugins_for, serving
from tests.project import SOLVE, Project
from tests.stopping import wait_until

pytestmark = [
    pytest.mark.needs("namespaces"),
    pytest.mark.slow,
    pytest.mark.usefixtures("own_machine"),  # whose slots others do not have
]

each_vendor = pytest.mark.parametrize("vendor", ["e2b", at_night("modal"), at_night("daytona")])
DOCKERFILE = "FROM python:3.11-slim\nWORKDIR /workspace\n"

# Agents go on when as many are there as MEET says. Vendors are asked for all sandboxes at once.
MEETING = f"""
import os, threading
from pytest_aecbench.agents import AgentResult
from pytest_aecbench.backends.remote import RemoteBackend

RemoteBackend.first_at_once = None
together = threading.Barrier(int(os.environ["MEET"]))


class Meeting:
    def __init__(self, spec): pass
    def run(self, task, sandbox, limits):
        together.wait(120)
        half = task.path.name.endswith("9")
        sandbox.execute("echo '{{}}' > /workspace/output.jsonl" if half else {SOLVE!r})
        return AgentResult("completed")


def pytest_aecbench_make_agent(config, spec):
    return Meeting(spec) if spec.harness == "meeting" else None
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> Project:
    """An empty project."""
    return Project(pytester, ())


def write_project(project: Project, count: int) -> None:
    toml = '[verifier]\nenvironment_mode = "shared"\n'  # one sandbox for each trial
    for number in range(count):
        files = {"environment/Dockerfile": DOCKERFILE}
        project.task(f"civil/t{number}", toml=toml, files=files, solve="sleep 10000")
    (project.path / "conftest.py").write_text(MEETING)


def command(vendor: str, count: int, *arguments: str) -> list[str]:
    argv = [sys.executable, "-m", "pytest", "tasks", f"--aec-backend={vendor}"]
    return [*argv, f"--aec-concurrency={count}", *plugins_for(vendor), *arguments]


@each_vendor
def test_fifty_trials_in_flight(
    vendor: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(project, 50)
    monkeypatch.setenv("MEET", "50")
    with serving(vendor, LocalBackend("namespaces"), monkeypatch) as server:
        done = subprocess.run(
            command(vendor, 50, "--aec-agent=meeting"),
            cwd=project.path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert "5 failed, 45 passed" in done.stdout, done.stdout
        assert server.sandboxes == {}
        assert len(server.called(server.CREATE)) == 50
    rewards = {
        record["task"]["task_id"]: record["evaluation"]["reward"] for record in project.records()
    }
    assert rewards == {f"civil/t{n}": 0.0 if n % 10 == 9 else 1.0 for n in range(50)}
    assert list(project.path.glob("artefacts/ledger/*/.*")) == []


@each_vendor
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_lost_or_left_when_a_run_ends_early(
    vendor: str, number: signal.Signals, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_project(project, 12)
    monkeypatch.setenv("MEET", "1")
    with serving(vendor, LocalBackend("namespaces"), monkeypatch) as server:
        process = subprocess.Popen(
            command(vendor, 12, "--aec-experiment-id=mine"),
            cwd=project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        wait_until(lambda: agents_at_work(project) == 12, "the start of all agents")
        os.kill(process.pid, number)
        output, _ = process.communicate(timeout=60)
        if number == signal.SIGKILL:
            assert len(server.sandboxes) == 12
            again = [*command(vendor, 12, "--aec-agent=meeting"), "-k", "t0"]
            done = subprocess.run(
                again, cwd=project.path, capture_output=True, text=True, timeout=120, check=False
            )
            assert "aec: recorded 12 trials that died with a run" in done.stdout, done.stdout
        else:
            assert process.returncode == pytest.ExitCode.INTERRUPTED, output
            assert "12 interrupted in" in output
        assert server.sandboxes == {}
    found = [one for one in project.records() if one["evaluation"]["validity"] != "scored"]
    wanted = "crashed" if number == signal.SIGKILL else "interrupted"
    assert [record["evaluation"]["validity"] for record in found] == [wanted] * 12
    assert list(project.path.glob("artefacts/ledger/*/.*")) == []


def agents_at_work(project: Project) -> int:
    """Return how many trials have come to their agent."""
    found = attempts(project.path / "artefacts/ledger", "mine")
    return sum(attempt.phase == "agent" for attempt in found)
