"""``BackendConformance``: all tests together, and the fixtures that they use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.testing.commands import CommandConformance
from pytest_aecbench.testing.hostility import HostilityConformance
from pytest_aecbench.testing.images import ImageConformance
from pytest_aecbench.testing.limits import LimitConformance
from pytest_aecbench.testing.outputs import OutputConformance
from pytest_aecbench.testing.processes import ProcessConformance
from pytest_aecbench.testing.sandbox import Launch, RunningSandbox, launching, write
from pytest_aecbench.testing.sandboxes import SandboxConformance
from pytest_aecbench.testing.uploads import UploadConformance

if TYPE_CHECKING:
    from pytest_aecbench.backends import ComputeBackend

__all__ = ["BackendConformance"]

_SMALL_MB = 256


# pytest runs the tests of the last base first.
class BackendConformance(
    HostilityConformance,
    LimitConformance,
    OutputConformance,
    UploadConformance,
    ProcessConformance,
    CommandConformance,
    SandboxConformance,
    ImageConformance,
):
    """Tests that every backend passes; the flags say what a backend is not able to do.

    Override the fixture ``backend``, and ``task_dir`` if the image needs something else: it must
    have bash and the usual small tools, and its working directory must be ``/workspace``.
    """

    enforces_network = True
    runs_as_other_users = True

    @pytest.fixture
    def backend(self) -> ComputeBackend:
        """The backend under test."""
        raise NotImplementedError("override the fixture 'backend'")

    @pytest.fixture
    def task_dir(self, tmp_path: Path) -> Path:
        """The task whose environment the sandboxes use."""
        directory = tmp_path / "conformance"
        dockerfile = "FROM python:3.11-slim\nWORKDIR /workspace\n"
        write(directory / "environment/Dockerfile", dockerfile)
        return directory

    @pytest.fixture
    def image_ref(self, backend: ComputeBackend, task_dir: Path) -> str:
        """The built environment."""
        return backend.build_environment(task_dir=task_dir)

    @pytest.fixture
    def launch(self, backend: ComputeBackend, image_ref: str, tmp_path: Path) -> Iterator[Launch]:
        """Start a sandbox on each call, with ``files`` in its workspace; all are removed."""
        with launching(backend, image_ref, tmp_path) as launch:
            yield launch

    @pytest.fixture
    def launch_on_small_disk(self, launch: Launch) -> Launch:
        """Start a sandbox whose disk a test can fill; override it if no limit is enforced."""
        return partial(launch, limits=Limits(storage_mb=_SMALL_MB))

    @pytest.fixture
    def sandbox(self, launch: Launch) -> RunningSandbox:
        """A running sandbox."""
        return launch()
