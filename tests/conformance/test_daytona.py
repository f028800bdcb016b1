"""Daytona's SDK drives real commands, through a stand-in for its servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_aecbench.backends.remote import RemoteBackend
from tests.conformance.vendors import (
    WHOLE_RUNS,
    InContainers,
    StandIn,
    VendorConformance,
    VendorFaults,
)
from tests.standins.daytona import DaytonaServer
from tests.standins.executor import Executor
from tests.standins.plaintext import allow_http

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture
def server(executor: Executor, monkeypatch: pytest.MonkeyPatch) -> Iterator[DaytonaServer]:
    import daytona._sync.object_storage

    server = DaytonaServer(executor)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    storage: Any = daytona._sync.object_storage
    monkeypatch.setattr(storage, "S3Store", allow_http(storage.S3Store))
    yield server
    server.close()


@pytest.fixture
def backend(server: DaytonaServer) -> Any:
    from pytest_aecbench.backends.daytona import DaytonaBackend

    return DaytonaBackend()


class TestDaytona(VendorConformance):
    pass


class TestDaytonaInContainers(InContainers):
    pass


class TestFaults(VendorFaults):
    name = "daytona"
    left_to_night = WHOLE_RUNS
    key_options: ClassVar = {"api_key": "DAYTONA_API_KEY", "api_url": "DAYTONA_API_URL"}

    @pytest.mark.nightly  # Daytona counts a lifetime in whole minutes
    def test_a_lifetime_that_ends_takes_the_sandbox(
        self, backend: RemoteBackend, image_ref: str, server: StandIn, tmp_path: Path
    ) -> None:
        super().test_a_lifetime_that_ends_takes_the_sandbox(backend, image_ref, server, tmp_path)

    def test_what_a_task_asks_for_is_what_is_sent(
        self, backend: RemoteBackend, server: DaytonaServer, task_dir: Path, tmp_path: Path
    ) -> None:
        toml = "[environment]\ncpus = 1.5\nmemory_mb = 1500\nstorage_mb = 5000\n"
        (task_dir / "task.toml").write_text(toml)
        image_ref = backend.build_environment(task_dir=task_dir)
        sandbox = self.launch(backend, image_ref, tmp_path, network=False, lifetime_sec=1234.5)
        (snapshot,) = server.called("POST /snapshots")
        asked = {name: snapshot.body[name] for name in ("cpu", "memory", "disk")}
        assert asked == {"cpu": 2, "memory": 2, "disk": 5}
        sent = server.sandboxes[sandbox.handle.handle_id].request
        assert sent["ttlMinutes"] == 21
        assert sent["autoStopInterval"] == 0
        assert sent["autoDeleteInterval"] == 0
        assert sent["networkBlockAll"] is True
        assert sent["user"] == "root"
        assert sent["labels"]["aecbench.trial"] == "trial"
        assert sent["labels"]["aecbench.pid"] == str(os.getpid())
        sandbox.teardown()
