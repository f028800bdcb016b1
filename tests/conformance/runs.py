"""Whole runs on an engine, watched from outside while they go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from tests.conformance.conftest import BASE
from tests.project import Project

DOCKERFILE = {"environment/Dockerfile": BASE}
NEVER_ENDS = "sleep 4321"


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.05)


class EngineRun:
    """pytest in a process of its own on a project's tasks, and what the engine has of it."""

    def __init__(self, project: Project, engine: Any) -> None:
        self.project = project
        self.engine = engine
        self.process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "tasks", "--aec-backend=docker", *arguments],
            cwd=self.project.path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )

    def wait_for(self, condition: Callable[[], object]) -> None:
        """Wait for something that happens while pytest runs."""

        def happened() -> object:
            assert self.process is not None
            found = condition()
            assert found or self.process.poll() is None, self.process.communicate()[0]
            return found

        wait_until(happened)

    def wait_for_command(self, command: str = NEVER_ENDS) -> None:
        """Wait until a command is under way in a container."""
        self.wait_for(lambda: any(command in shown for shown in self.processes()))

    def processes(self) -> list[str]:
        """Return the command lines of all that runs in the containers."""
        return [line for container in self.containers() for line in self._lines(container)]

    def container_of(self, command: str = NEVER_ENDS) -> str:
        """Return the id of the container in which a command is under way."""
        for container in self.containers():
            if any(command in line for line in self._lines(container)):
                return str(container["Id"])
        raise AssertionError(f"{command!r} runs nowhere")

    def _lines(self, container: dict[str, Any]) -> list[str]:
        from docker.errors import APIError

        if container["State"] != "running":
            return []
        with suppress(APIError):  # it has ended since it was listed
            listed = self.engine.top(container["Id"])["Processes"] or ()
            return [" ".join(line) for line in listed]
        return []

    def signal(self, number: int) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, number)

    def end(self) -> str:
        """Wait until pytest has ended; return what it printed."""
        assert self.process is not None
        try:
            return self.process.communicate(timeout=90)[0]
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            pytest.fail(f"pytest does not end: {self.process.communicate()[0]}")

    @property
    def returncode(self) -> int | None:
        assert self.process is not None
        return self.process.returncode

    def _filters(self) -> list[dict[str, str]]:
        ledger = self.project.path / "artefacts/ledger"
        return [{"label": f"aecbench.experiment={path.name}"} for path in ledger.glob("*")]

    def containers(self) -> list[dict[str, Any]]:
        return [
            one
            for filters in self._filters()
            for one in self.engine.containers(all=True, filters=filters)
        ]

    def left(self) -> list[str]:
        """Return the names of all that the engine has of this project's trials."""
        found = [one["Names"][0].lstrip("/") for one in self.containers()]
        for filters in self._filters():
            found += [one["Name"] for one in self.engine.networks(filters=filters)]
            found += [one["Name"] for one in self.engine.volumes(filters=filters)["Volumes"] or ()]
        return sorted(found)

    def validities(self) -> list[str]:
        """Return how the trials were judged, without rewards of those that have none."""
        for record in self.project.records():
            evaluation = record["evaluation"]
            assert (evaluation["reward"] is None) == (evaluation["validity"] != "scored")
        return sorted(record["evaluation"]["validity"] for record in self.project.records())
