"""Daytona's SDK drives real commands, through a stand-in for its servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.remote import RemoteBackend
from pytest_aecbench.testing import BackendConformance
from tests.conformance.vendors import VendorFaults
from tests.standins.daytona import DaytonaServer
from tests.standins.executor import Executor
from tests.standins.plaintext import allow_http

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[DaytonaServer]:
    import daytona._sync.object_storage

    executor = Executor(LocalBackend("namespaces"))
    server = DaytonaServer(executor)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    storage: Any = daytona._sync.object_storage
    monkeypatch.setattr(storage, "S3Store", allow_http(storage.S3Store))
    yield server
    server.close()
    executor.close()


@pytest.fixture
def backend(server: DaytonaServer) -> Any:
    from pytest_aecbench.backends.daytona import DaytonaBackend

    return DaytonaBackend()


class TestDaytona(BackendConformance):
    @pytest.fixture
    def backend(self, server: DaytonaServer) -> Any:
        from pytest_aecbench.backends.daytona import DaytonaBackend

        return DaytonaBackend()


class TestFaults(VendorFaults):
    name = "daytona"

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
