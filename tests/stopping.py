"""Runs that stop in a phase of our choice, to be signalled or killed there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.project import Project

PHASES = ("launch", "agent", "verify", "collect", "teardown")
PATIENCE_SEC = 90.0

# The first trial that comes to a phase named in BLOCK stays there until the file "go" is there;
# agents and verifiers as processes in their sandbox, the other phases in the backend.
BLOCKING_BACKEND = """
import os, time
from dataclasses import replace
from pathlib import Path

from pytest_aecbench.backends.local import LocalBackend

HERE = Path(__file__).parent


def is_first(phase):
    for block in os.environ.get("BLOCK", "").split():
        if block.partition(".")[0] == phase:
            try:
                with (HERE / f"at-{block}").open("x") as file:
                    file.write(str(os.getpid()))
                return True
            except FileExistsError:
                pass
    return False


def stay(phase):
    if is_first(phase):
        while not (HERE / "go").exists():
            time.sleep(0.02)


class Blocking(LocalBackend):
    def _start(self, *args):
        stay("launch")
        return super()._start(*args)

    def execute_trial(self, *, handle, request):
        # The verifier's sandbox is probed beside the agent, with nothing to upload.
        for path, phase in (("/tests", "verify"), ("/solution", "agent")):
            if path in request.uploads and is_first(phase):
                seconds = os.environ["SECONDS_TO_SLEEP"]
                request = replace(request, command=f"sleep {seconds} & sleep {seconds}")
        return super().execute_trial(handle=handle, request=request)

    def collect_outputs(self, *, handle):
        stay("collect")
        return super().collect_outputs(handle=handle)

    def teardown(self, *, handle):
        stay("teardown")
        super().teardown(handle=handle)


def pytest_aecbench_make_backend(config, name):
    return Blocking(os.environ.get("MODE", "auto")) if name == "blocking" else None
"""


def wait_until(condition: Callable[[], object], what: str = "it") -> None:
    deadline = time.monotonic() + PATIENCE_SEC
    while not condition():
        assert time.monotonic() < deadline, f"{what} never happened"
        time.sleep(0.02)


def processes(part: str, text: str) -> Iterator[int]:
    """Yield the processes that have the text in this part of what /proc says of them."""
    for path in Path("/proc").glob(f"[0-9]*/{part}"):
        try:
            if text.encode() in path.read_bytes():
                yield int(path.parent.name)
        except OSError:
            continue


def start(project: Project, *arguments: str) -> subprocess.Popen[str]:
    """Start pytest on a task whose agent makes the file ``started``, and wait for that."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", "tasks", *arguments],
        cwd=project.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    wait_until(lambda: list(project.path.glob("jobs/*/*/workspace/started")), "the agent's start")
    return process


def worker_of(project: Project) -> int:
    """Return the process that has a trial under way."""

    def notes() -> list[Path]:
        return list(project.path.glob("artefacts/ledger/*/.*.running"))

    wait_until(lambda: len(notes()) == 1, "the end of all others")
    (note,) = notes()
    return int(json.loads(note.read_text().splitlines()[0])["aecbench.pid"])


class BlockedRun:
    """A run of three tasks whose first trial to come to a phase stays there."""

    before: tuple[str, ...] = ()

    def __init__(self, project: Project, block: str, *arguments: str, mode: str = "auto") -> None:
        self.project = project
        self.path = project.path
        # A number of seconds that no other process sleeps for.
        self.seconds = f"{3600 + os.getpid()}.{time.monotonic_ns() % 10**9}"
        for name in ("a", "b", "c"):
            project.task(f"civil/{name}")
        (self.path / "conftest.py").write_text(BLOCKING_BACKEND)
        (self.path / "tmp").mkdir()
        self._process = self._start(*arguments, BLOCK=block, MODE=mode)
        self.pid = self._process.pid

    def _start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        argv = [*self.before, sys.executable, "-m", "pytest", "tasks", "--aec-backend=blocking"]
        return subprocess.Popen(
            [*argv, *arguments, "-p", "no:cacheprovider"],
            cwd=self.path,
            env={
                **os.environ,
                "TMPDIR": str(self.path / "tmp"),
                "SECONDS_TO_SLEEP": self.seconds,
                **env,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def process_at(self, block: str) -> int:
        """Wait until a trial is blocked, and return the process that runs it."""
        note = self.path / f"at-{block}"
        wait_until(lambda: note.exists() and note.read_text(), block)
        if block.startswith(("agent", "verify")):
            wait_until(lambda: len(self.sleeping()) >= 2, f"{block} in its sandbox")
        return int(note.read_text())

    def signal(self, whom: str, number: signal.Signals, block: str) -> None:
        """Send a signal to the controller, to the worker that is blocked, or to all of them."""
        worker = self.process_at(block)
        if whom == "group":
            os.killpg(self.pid, number)
        else:
            os.kill(self.pid if whom == "controller" else worker, number)

    def let_go(self) -> None:
        (self.path / "go").touch()

    def end(self) -> tuple[int, str]:
        """Wait for the run's end; return its exit code and what it printed."""
        output, _ = self._process.communicate(timeout=PATIENCE_SEC)
        return self._process.returncode, output

    def stop_reading(self) -> None:
        """Read no more of what the run prints."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def wait(self) -> int:
        """Wait for the end of a run whose output is not read; return its exit code."""
        return self._process.wait(timeout=PATIENCE_SEC)

    def run_again(self) -> str:
        """Run the tasks again, with nothing in the way; return what was printed."""
        process = self._start("--aec-experiment-id=again")
        output, _ = process.communicate(timeout=PATIENCE_SEC)
        assert process.returncode == 0, output
        return output

    def records(self) -> list[dict[str, Any]]:
        """Return the records of the run that was blocked."""
        return [one for one in self.project.records() if one["experiment_id"] != "again"]

    def validities(self) -> list[str]:
        """Return what the run's records are worth; no trial has two."""
        tasks = [record["task"]["task_id"] for record in self.records()]
        assert len(tasks) == len(set(tasks)), tasks
        return sorted(record["evaluation"]["validity"] for record in self.records())

    def sleeping(self) -> list[int]:
        """Return the processes of agents and verifiers that are blocked."""
        return list(processes("cmdline", f"sleep\0{self.seconds}\0"))

    def running(self) -> list[int]:
        """Return the run's own processes."""
        return list(processes("environ", f"SECONDS_TO_SLEEP={self.seconds}\0"))

    def wait_until_nothing_is_left(self) -> None:
        """Wait for the end of all that the run left."""
        deadline = time.monotonic() + PATIENCE_SEC
        while left := self.left():
            assert time.monotonic() < deadline, left
            time.sleep(0.02)

    def left(self) -> list[str]:
        """Return whatever the run left: processes, notes, half-written files, directories."""
        sandboxes = processes("cmdline", f"{self.path}/tmp/aecbench-")  # their first processes
        found = [f"process {pid}" for pid in (*self.sleeping(), *self.running(), *sandboxes)]
        found += map(str, self.path.glob("artefacts/ledger/*/.*"))
        found += map(str, (self.path / "tmp").glob("aecbench-*/homes/*"))
        return found


class TerminalRun(BlockedRun):
    """A blocked run in a terminal of its own."""

    before = (sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])")

    def close_terminal(self) -> None:
        self._process.kill()
        self._process.communicate()
