"""E2B's SDK drives real commands, through a stand-in for its servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_aecbench.backends.remote import RemoteBackend
from pytest_aecbench.errors import LaunchError
from tests.conformance.vendors import InContainers, VendorConformance, VendorFaults
from tests.standins.e2b import E2BServer
from tests.standins.executor import Executor

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture
def server(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> Iterator[E2BServer]:
    server = E2BServer(executor)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


@pytest.fixture
def backend(server: E2BServer) -> Any:
    from pytest_aecbench.backends.e2b import E2BBackend

    return E2BBackend()


class TestE2B(VendorConformance):
    left_to_night = ("test_a_process_that_stops_all_others_is_ended",)


class TestE2BInContainers(InContainers):
    pass


class TestFaults(VendorFaults):
    name = "e2b"
    key_options: ClassVar = {"api_key": "E2B_API_KEY", "api_url": "E2B_API_URL"}

    def test_what_a_task_asks_for_is_what_is_sent(
        self, backend: RemoteBackend, server: E2BServer, task_dir: Path, tmp_path: Path
    ) -> None:
        (task_dir / "task.toml").write_text("[environment]\ncpus = 1.5\nmemory_mb = 513\n")
        image_ref = backend.build_environment(task_dir=task_dir)
        limits = {"cpus": 1.5, "memory_mb": 513, "network": False, "lifetime_sec": 1234.5}
        sandbox = self.launch(backend, image_ref, tmp_path, **limits)
        (template,) = server.called("POST /v3/templates")
        assert (template.body["cpuCount"], template.body["memoryMB"]) == (2, 514)
        sent = server.sandboxes[sandbox.handle.handle_id].request
        assert sent["timeout"] == 1235
        assert sent["allow_internet_access"] is False
        assert sent["metadata"]["aecbench.trial"] == "trial"
        assert sent["metadata"]["aecbench.pid"] == str(os.getpid())
        sandbox.teardown()

    def test_a_lifetime_beyond_the_plan_is_refused_before_anything_is_started(
        self, backend: RemoteBackend, server: E2BServer, image_ref: str, tmp_path: Path
    ) -> None:
        with pytest.raises(LaunchError, match=r"lives 3600 s at most.*max_lifetime_sec"):
            self.launch(backend, image_ref, tmp_path, lifetime_sec=7200)
        assert server.called(server.CREATE) == []

    def test_what_is_not_limited_is_said(self, backend: RemoteBackend) -> None:
        assert backend.describe().endswith("; no limit on storage")

    def test_more_than_the_template_has_is_refused(
        self, backend: RemoteBackend, task_dir: Path, tmp_path: Path
    ) -> None:
        (task_dir / "task.toml").write_text("[environment]\nmemory_mb = 512\n")
        image_ref = backend.build_environment(task_dir=task_dir)
        with pytest.raises(LaunchError, match="memory_mb belongs to the template, which has 512"):
            self.launch(backend, image_ref, tmp_path, memory_mb=2048)
