"""Submissions of trials to Cloud Batch: the end of one trial is not that of its siblings."""

from __future__ import annotations

import signal
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_aecbench.backends import (
    BackendExecutionRequest,
    Limits,
    TrialHandle,
    TrialOutcome,
    TrialRequest,
)
from pytest_aecbench.backends.gcp import GCPBatchBackend, scripts, submission
from pytest_aecbench.backends.gcp.staging import Image
from pytest_aecbench.backends.gcp.submission import Submission
from pytest_aecbench.errors import BackendError
from tests.conformance.gcp import BUCKET, IMAGE
from tests.costs import at_night
from tests.standins.batch import BatchServer

pytestmark = pytest.mark.needs("namespaces")

# Writes an archive whose first entries are long names of long names, then ends the container.
FORGE = f"""
python3 - <<'PYTHON'
import tarfile
entry = tarfile.TarInfo("././@LongLink")
entry.type, entry.size = tarfile.GNUTYPE_LONGNAME, 1
block = entry.tobuf(tarfile.GNU_FORMAT) + b"a".ljust({tarfile.BLOCKSIZE}, b"\\0")
with open("/mnt/disks/aecbench/agent-0.tar", "wb") as file:
    file.write(block * 2000)
PYTHON
kill -9 -1
"""

# Ends or stops all that the outer script has started, and with it what keeps time.
STOP = """
python3 - <<'PYTHON'
import os
mine, parents = os.getpid(), {}
for pid in filter(str.isdecimal, os.listdir("/proc")):
    with open(f"/proc/{pid}/stat") as file:
        parents[int(pid)] = int(file.read().rpartition(")")[2].split()[1])
above = [mine]
while above[-1] > 1:
    above.append(parents[above[-1]])
outer = above[-2]  # below the first process of the sandbox
for pid in (pid for pid, parent in parents.items() if parent == outer):
    os.kill(pid, SIGNAL if pid not in above else 19)
PYTHON
"""


class Trials:
    """Three trials of a backend that were launched, and not submitted yet."""

    def __init__(self, backend: GCPBatchBackend, directory: Path) -> None:
        self.backend = backend
        self.directory = directory
        task_dir = directory / "task"
        task_dir.mkdir()
        toml = f'[environment]\ndocker_image = "{IMAGE}"\n'
        (task_dir / "task.toml").write_text(toml)
        self.image = backend.build_environment(task_dir=task_dir)
        self.handles = [self._launch(directory / f"trial-{number}") for number in range(3)]

    def _launch(self, directory: Path) -> TrialHandle:
        workspace = directory / "workspace"
        workspace.mkdir(parents=True)
        return self.backend.launch_trial(image_ref=self.image, workspace_dir=workspace)

    def requests(self, agent: str = ":", timeout_sec: float = 60) -> list[TrialRequest]:
        """Return a request for each; ``agent`` is the command of the first."""
        commands = [
            BackendExecutionRequest(text, timeout_sec=timeout_sec) for text in (agent, ":", ":")
        ]
        return [
            TrialRequest(
                handle.handle_id,
                self.image,
                self.directory / handle.handle_id / "workspace",
                command,
                BackendExecutionRequest("true", timeout_sec=timeout_sec),
                Limits(lifetime_sec=30),
                self.image,
            )
            for handle, command in zip(self.handles, commands, strict=True)
        ]

    def ended_well(self, outcomes: Mapping[str, object]) -> list[int]:
        """Return the numbers of the trials that have an outcome, and no error."""
        found = [outcomes.get(handle.handle_id) for handle in self.handles]
        return [number for number, one in enumerate(found) if isinstance(one, TrialOutcome)]


@pytest.fixture
def trials(google: BatchServer, tmp_path: Path) -> Iterator[Trials]:
    options = {"endpoint": google.url, "hide_bucket": False, "poll_sec": 0.1}
    backend = GCPBatchBackend(options)
    made = Trials(backend, tmp_path)
    yield made
    for handle in made.handles:
        backend.teardown(handle=handle)
    backend.close()
    assert not google.jobs
    assert not google.machines.buckets.names(BUCKET)


def test_an_archive_that_an_agent_forged_costs_no_sibling_its_result(trials: Trials) -> None:
    outcomes = dict(trials.backend.submit_trials(requests=trials.requests(FORGE)))
    assert trials.ended_well(outcomes) == [1, 2]
    assert isinstance(outcomes[trials.handles[0].handle_id], Exception)


def test_an_archive_that_is_too_large_stays_in_the_bucket(
    trials: Trials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "TOTAL_CAP", 1_000_000)
    requests = trials.requests("head -c 2000000 /dev/urandom >left")
    outcomes = dict(trials.backend.submit_trials(requests=requests))
    assert trials.ended_well(outcomes) == [1, 2]
    error = outcomes[requests[0].trial_id]
    assert isinstance(error, BackendError)
    assert "/agent-0.tar: it has over 1000000 bytes; " in str(error)
    assert not (requests[0].workspace_dir / "left").exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, at_night(signal.SIGSTOP)], ids=["kill", "stop"])
def test_an_agent_that_stops_its_keepers_is_ended_after_its_time(
    trials: Trials, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(scripts, "GUARD_SEC", 2)
    agent = STOP.replace("SIGNAL", str(int(number)))
    outcomes = dict(trials.backend.submit_trials(requests=trials.requests(agent, 2)))
    assert trials.ended_well(outcomes) == [1, 2]
    error = outcomes[trials.handles[0].handle_id]
    assert "the task has ended without the agent's result" in str(error)


def test_an_error_of_any_class_is_that_of_its_trial_alone(trials: Trials) -> None:
    requests = trials.requests()
    requests[1] = replace(requests[1], image_ref="none that was built")
    failing = requests[0].trial_id

    def home_of(trial_id: str) -> Path | None:
        if trial_id == failing:
            raise RuntimeError("a mistake of the program")
        return trials.directory / "homes" / trial_id

    plan = replace(trials.backend._plan(), home_of=home_of)
    outcomes = dict(Submission(plan, requests).outcomes())
    assert trials.ended_well(outcomes) == [2]
    assert [type(outcomes[one.trial_id]) for one in requests[:2]] == [RuntimeError, KeyError]


def test_a_trial_torn_down_before_its_job_starts_costs_no_sibling_its_result(
    trials: Trials, google: BatchServer
) -> None:
    requests = trials.requests()
    trials.backend.teardown(handle=trials.handles[1])
    outcomes = dict(trials.backend.submit_trials(requests=requests))
    assert trials.ended_well(outcomes) == [0, 2]
    assert len(google.called(google.CREATE)) == 1


def test_trials_that_are_all_torn_down_while_their_files_go_up_leave_nothing(
    trials: Trials, google: BatchServer
) -> None:
    requests = trials.requests()

    class ImagesOfTrialsThatEnd(dict[str, Image]):
        def __getitem__(self, name: str) -> Image:
            for one in requests:
                submitted.cancel(one.trial_id)
            return super().__getitem__(name)

    plan = trials.backend._plan()
    submitted = Submission(replace(plan, images=ImagesOfTrialsThatEnd(plan.images)), requests)
    assert list(submitted.outcomes()) == []
    assert google.called(google.CREATE) == []
    assert google.machines.buckets.names(BUCKET) == []
