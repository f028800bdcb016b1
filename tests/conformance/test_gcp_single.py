"""The gcp backend with single commands: each is a job of one task, and files outlive it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_aecbench.backends.gcp import GCPBatchBackend, scripts, single
from pytest_aecbench.testing import BackendConformance
from pytest_aecbench.testing.sandbox import Launch
from tests.conformance.disks import small_disk
from tests.standins.batch import BatchServer
from tests.standins.buckets import Buckets
from tests.standins.executor import Executor
from tests.standins.registry import FullRegistry

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture(scope="module")
def buckets() -> Iterator[Buckets]:
    made = Buckets()
    yield made
    made.close()


@pytest.fixture
def server(
    executor: Executor, buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BatchServer]:
    server = BatchServer(executor, buckets, capacity=32)
    for name, value in server.environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


@pytest.fixture(scope="module")
def registry() -> Iterator[FullRegistry]:
    server = FullRegistry()
    yield server
    server.close()


@pytest.fixture
def backend(server: BatchServer, registry: FullRegistry) -> Iterator[GCPBatchBackend]:
    backend = GCPBatchBackend(
        {
            "endpoint": server.url,
            "repository": registry.reference("project-1/aecbench"),
            "hide_bucket": False,
            "poll_sec": 0.05,
            "single": True,
        },
        run_id="conformance",
    )
    yield backend
    backend.close()


class TestGCP(BackendConformance):
    keeps_processes = False
    # One of each kind; the night tries the others.
    about_images = (
        "test_an_image_is_named_by_its_content",
        "test_streams_and_exit_code_are_kept_apart",
        "test_the_workspace_starts_with_what_was_given",
        "test_an_uploaded_directory_replaces_what_was_there",
        "test_a_deadline_ends_everything_the_command_started",
        "test_what_a_command_leaves_running_lives_on",
        "test_only_what_is_safe_to_read_is_collected",
        "test_a_removed_sandbox_is_gone",
    )

    @pytest.fixture
    def backend(self, backend: GCPBatchBackend) -> GCPBatchBackend:
        return backend

    @pytest.fixture(autouse=True)
    def _impatience(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        """Wait for a machine that is stopped from within only as long as a test may take."""
        if "stops_all" in request.node.name:
            monkeypatch.setattr(scripts, "GUARD_SEC", 3)
            monkeypatch.setattr(single, "START_SEC", 3)

    @pytest.fixture
    def launch_on_small_disk(
        self,
        request: pytest.FixtureRequest,
        buckets: Buckets,  # whose objects are not on that disk
        executor: Executor,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[Launch]:
        with small_disk(tmp_path):
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
            monkeypatch.setattr(executor, "home", tmp_path / "executor")
            yield request.getfixturevalue("launch")
