"""Daytona's SDK drives real commands, through a stand-in for its servers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.testing import BackendConformance
from tests.conformance.vendors import VendorFaults
from tests.standins.daytona import DaytonaServer
from tests.standins.executor import Executor

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[DaytonaServer]:
    import daytona._sync.object_storage

    executor = Executor(LocalBackend("namespaces"))
    server = DaytonaServer(executor)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    # The one thing that the SDK cannot be told: to send a build's files without TLS.
    storage: Any = daytona._sync.object_storage
    monkeypatch.setattr(storage, "S3Store", partial(_without_tls, storage.S3Store))
    yield server
    server.close()
    executor.close()


def _without_tls(store: Any, **options: Any) -> Any:
    options["client_options"] = {**options.get("client_options", {}), "allow_http": True}
    return store(**options)


@pytest.fixture
def backend(server: DaytonaServer) -> Any:
    from pytest_aecbench.backends.daytona import DaytonaBackend

    return DaytonaBackend.fresh()


class TestDaytona(BackendConformance):
    @pytest.fixture
    def backend(self, server: DaytonaServer) -> Any:
        from pytest_aecbench.backends.daytona import DaytonaBackend

        return DaytonaBackend.fresh()


class TestFaults(VendorFaults):
    name = "daytona"
