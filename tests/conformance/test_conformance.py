"""Every backend keeps the contract that third parties' backends are held to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from pytest_aecbench.backends import ComputeBackend, Limits
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.testing import BackendConformance
from pytest_aecbench.testing.sandbox import Launch, launching
from tests.conformance.disks import small_disk
from tests.conformance.private_engine import PrivateEngine


class LocalConformance(BackendConformance):
    """A sandbox of the local backend has its files on the host's disks."""

    @pytest.fixture
    def launch_on_small_disk(
        self, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Launch]:
        with small_disk(tmp_path):
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
            yield request.getfixturevalue("launch")


@pytest.mark.needs("namespaces")
class TestLocalInNamespaces(LocalConformance):
    @pytest.fixture
    def backend(self) -> ComputeBackend:
        return LocalBackend("namespaces")


class TestLocalByRewriting(LocalConformance):
    enforces_network = False
    runs_as_other_users = False
    # Its sandboxes share the host's programs and processes.
    test_broken_programs_are_not_an_error_of_the_backend = None  # type: ignore[assignment]
    test_a_process_that_stops_all_others_is_ended = None  # type: ignore[assignment]

    @pytest.fixture
    def backend(self) -> ComputeBackend:
        return LocalBackend("rewriting")


@pytest.mark.needs("docker")
class TestDocker(BackendConformance):
    enforces_memory = True
    # It takes its whole patience here; the other backends try it by day.
    left_to_night = ("test_a_process_that_stops_all_others_is_ended",)

    @pytest.fixture
    def backend(self, docker_backend: ComputeBackend) -> ComputeBackend:
        return docker_backend

    @pytest.fixture
    def launch_on_small_disk(
        self,
        private_engine: PrivateEngine,
        task_dir: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Launch]:
        """Start containers of an engine that has a small disk and no network."""
        from pytest_aecbench.backends.docker import DockerBackend

        monkeypatch.setenv("DOCKER_HOST", private_engine.host)
        backend = DockerBackend(run_id="conformance")
        image_ref = backend.build_environment(task_dir=task_dir)
        with launching(backend, image_ref, tmp_path) as launch:
            yield partial(launch, limits=Limits(network=False))
        backend.close()

    @pytest.mark.slow
    @pytest.mark.needs("dockerd")
    def test_a_disk_that_an_agent_fills_is_not_an_error_of_the_backend(
        self, launch_on_small_disk: Launch
    ) -> None:
        super().test_a_disk_that_an_agent_fills_is_not_an_error_of_the_backend(launch_on_small_disk)
