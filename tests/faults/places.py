"""Where runs take place: on this machine, on a Docker engine, and at a vendor's stand-in."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pytest_aecbench.backends.local import LocalBackend
from tests.standins.e2b import E2BServer
from tests.standins.executor import Executor
from tests.standins.server import Fault
from tests.stopping import processes

__all__ = ["E2B", "PLACES", "Docker", "Local", "Place"]


class Place(ABC):
    """A backend, how its sandboxes are hurt from outside, and what it has of them."""

    name = ""
    dockerfile = "FROM python:3.11-slim\nWORKDIR /workspace\n"

    def environment(self) -> dict[str, str]:
        """Return the variables that runs need here."""
        return {}

    @abstractmethod
    def storm(self, temporary: Path, rng: random.Random) -> None:
        """Do to sandboxes and calls what happens on a bad day."""

    @abstractmethod
    def left(self, temporary: Path) -> list[str]:
        """Return the sandboxes that are left."""


class Local(Place):
    """Sandboxes are processes on this machine."""

    name = "local"

    def storm(self, temporary: Path, rng: random.Random) -> None:
        """Kill the first process of a sandbox."""
        found = list(processes("cmdline", f"{temporary}/aecbench-"))
        if found:
            with suppress(ProcessLookupError):
                os.kill(rng.choice(found), signal.SIGKILL)

    def left(self, temporary: Path) -> list[str]:
        """Return first processes of sandboxes, and their directories."""
        found = [f"process {pid}" for pid in processes("cmdline", f"{temporary}/aecbench-")]
        return found + [str(path) for path in temporary.glob("aecbench-*/homes/*")]


class Docker(Place):
    """Sandboxes are containers of the engine that the docker command uses."""

    name = "docker"

    def storm(self, temporary: Path, rng: random.Random) -> None:
        """Kill a container from outside."""
        found = self.left(temporary)
        if found:
            subprocess.run(["docker", "kill", rng.choice(found)], capture_output=True, check=False)

    def left(self, temporary: Path) -> list[str]:
        """Return the containers of this experiment."""
        command = [
            "docker",
            "ps",
            "-aq",
            "--filter",
            f"label=aecbench.experiment={temporary.parent.name}",
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


class E2B(Place):
    """Sandboxes are rented of a stand-in for E2B's servers."""

    name = "e2b"

    def __init__(self) -> None:
        self._executor = Executor(LocalBackend("namespaces"))
        self._server = E2BServer(self._executor)

    def environment(self) -> dict[str, str]:
        """Return the variables that lead the SDK to the stand-in."""
        return self._server.environment()

    def storm(self, temporary: Path, rng: random.Random) -> None:
        """Refuse calls, break connections off, and take a sandbox away."""
        until = time.monotonic() + 3
        self._server.faults += [
            Fault(self._server.CREATE, 2, status=429),
            Fault("", 10, status=503, until=until),
            Fault(self._server.DOWNLOAD, 1, drop=True, until=until),
        ]
        for sandbox_id in list(self._server.sandboxes)[:1]:
            self._server.preempt(sandbox_id)

    def left(self, temporary: Path) -> list[str]:
        """Return the sandboxes that the stand-in still rents out."""
        return list(self._server.sandboxes)

    def close(self) -> None:
        """End the stand-in and all that it rented out."""
        self._server.close()
        self._executor.close()


@contextmanager
def _e2b() -> Iterator[Place]:
    place = E2B()
    try:
        yield place
    finally:
        place.close()


@contextmanager
def _local() -> Iterator[Place]:
    yield Local()


@contextmanager
def _docker() -> Iterator[Place]:
    yield Docker()


PLACES = {"local": _local, "docker": _docker, "e2b": _e2b}
