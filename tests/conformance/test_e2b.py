"""E2B's SDK drives real commands, through a stand-in for its servers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.testing import BackendConformance
from tests.conformance.vendors import VendorFaults
from tests.standins.e2b import E2BServer
from tests.standins.executor import Executor

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[E2BServer]:
    executor = Executor(LocalBackend("namespaces"))
    server = E2BServer(executor)
    for name, value in server.environment().items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()
    executor.close()


@pytest.fixture
def backend(server: E2BServer) -> Any:
    from pytest_aecbench.backends.e2b import E2BBackend

    return E2BBackend.fresh()


class TestE2B(BackendConformance):
    @pytest.fixture
    def backend(self, server: E2BServer) -> Any:
        from pytest_aecbench.backends.e2b import E2BBackend

        return E2BBackend.fresh()


class TestFaults(VendorFaults):
    name = "e2b"
