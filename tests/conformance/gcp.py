"""What the tests of the gcp backend work with: a project whose runs lead to the stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.cloud import batch_v1

from tests.project import Project
from tests.standins.batch import BatchServer
from tests.standins.batch_boxes import LOST_REPORTS, PREEMPTED, TIMED_OUT

__all__ = ["BUCKET", "ENDS", "IMAGE", "Cloud", "Run"]

BUCKET = "project-1-aecbench"
IMAGE = "python:3.11-slim"
# The cause and the words of the error for each exit code of a task.
ENDS = {
    PREEMPTED: ("backend_lost", "the spot machine was preempted; use --aec-retries, or"),
    LOST_REPORTS: ("backend_lost", "stopped reporting; its memory may be too small"),
    50003: ("backend_lost", "the machine was rebooted in mid-task; use --aec-retries"),
    50004: ("backend_lost", "the task did not respond to Batch; use --aec-retries"),
    TIMED_OUT: ("backend", "it took longer than its agent,*raise --aec-timeout-multiplier"),
    50006: ("backend_lost", "the machine was replaced in mid-task; use --aec-retries"),
    125: ("launch", "the container cannot be started; its image may be missing*artifactregistry"),
    137: ("backend", "failed; Task state is updated from RUNNING to FAILED*"),
}


class Run:
    """pytest in a process of its own; what it prints is in a file."""

    def __init__(self, directory: Path, env: Mapping[str, str], args: tuple[str, ...]) -> None:
        self._said = directory / "said.txt"
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "tasks", *args],
                cwd=directory,
                env={**os.environ, **env},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, seconds: float) -> int:
        """Wait for its end, and return the exit code."""
        return self.process.wait(seconds)

    def output(self) -> str:
        """Return what it has printed so far."""
        return self._said.read_text(errors="replace")


class Cloud:
    """Both stand-ins, and a project that uses them; ``options`` are those of ``compute.gcp``."""

    def __init__(self, server: BatchServer, project: Project, env: Mapping[str, str]) -> None:
        self.server = server
        self.buckets = server.machines.buckets
        self.project = project
        self.env = dict(env)
        self.configure()

    @property
    def options(self) -> dict[str, Any]:
        return {"endpoint": self.server.url, "hide_bucket": False, "poll_sec": 0.2}

    def configure(self, **options: Any) -> None:
        """Write the project's file."""
        lines = ["[compute]", 'backend = "gcp"', "[compute.gcp]"]
        given = {**self.options, **options}
        lines += [f"{key} = {json.dumps(value)}" for key, value in given.items()]
        (self.project.path / "aec-bench.toml").write_text("\n".join(lines) + "\n")

    def task(self, task_id: str = "electrical/ohms-law", toml: str = "", **parts: Any) -> Path:
        """Write a task that runs in an image of the registry, verified apart by default."""
        environment = f'[environment]\ndocker_image = "{IMAGE}"\n'
        if "[verifier]" not in toml:
            toml += '[verifier]\nenvironment_mode = "separate"\n'
        return self.project.task(task_id, toml=environment + toml, **parts)

    def run(self, *args: str) -> pytest.RunResult:
        """Run the project's trials."""
        with self.environment():
            return self.project.run(*args)

    @contextmanager
    def environment(self) -> Iterator[None]:
        """Lead the clients to the stand-ins."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.env.items():
                patch.setenv(name, value)
            yield

    def start(self, *args: str) -> Run:
        """Start a run in a process of its own."""
        return Run(self.project.path, self.env, args)

    def reap(self, *args: str) -> str:
        """Run ``aec-bench reap`` for this backend, and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest_aecbench", "reap", "--backend=gcp", *args],
            cwd=self.project.path,
            env={**os.environ, **self.env},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def is_running(self, tasks: int) -> bool:
        """Return whether so many tasks run."""
        running = batch_v1.TaskStatus.State.RUNNING
        found = [task for run in list(self.server.jobs.values()) for task in run.tasks]
        return sum(task.status.state == running for task in found) >= tasks

    def left(self) -> tuple[list[str], list[str]]:
        """Return the jobs and objects that there are."""
        try:
            names = self.buckets.names(BUCKET)
        except KeyError:
            names = []
        return sorted(self.server.jobs), sorted(names)

    def created(self) -> int:
        """Return how many jobs were created."""
        return len(self.server.called(self.server.CREATE))
