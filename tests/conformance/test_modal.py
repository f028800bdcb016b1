"""Modal's SDK drives real commands, through a stand-in for its servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from pytest_aecbench.backends.remote import RemoteBackend
from pytest_aecbench.errors import LaunchError
from tests.conformance.vendors import (
    ONE_OF_EACH,
    WHOLE_RUNS,
    InContainers,
    VendorConformance,
    VendorFaults,
)
from tests.standins.executor import Executor
from tests.standins.modal import ModalServer

pytestmark = pytest.mark.needs("namespaces")


@pytest.fixture(scope="class")
def running(executor: Executor) -> Iterator[ModalServer]:
    """One server for many tests, since the SDK has one client for the whole process."""
    from pytest_aecbench.backends.modal import modal  # type: ignore[attr-defined]  # as it imports it

    server = ModalServer(executor)
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        yield server
        modal.Client.from_env().close()
    server.close()


@pytest.fixture
def server(running: ModalServer) -> ModalServer:
    running.reset()
    return running


@pytest.fixture
def backend(server: ModalServer) -> Any:
    from pytest_aecbench.backends.modal import ModalBackend

    return ModalBackend()


class TestModal(VendorConformance):
    by_day = ONE_OF_EACH


class TestModalInContainers(InContainers):
    pass


class TestFaults(VendorFaults):
    name = "modal"
    left_to_night = WHOLE_RUNS
    key_options: ClassVar = {"token_id": "MODAL_TOKEN_ID", "token_secret": "MODAL_TOKEN_SECRET"}
    sdk_repeats = True

    def test_what_a_task_asks_for_is_what_is_sent(
        self, backend: RemoteBackend, server: ModalServer, image_ref: str, tmp_path: Path
    ) -> None:
        limits = {"cpus": 1.5, "memory_mb": 512, "network": False, "lifetime_sec": 1234.5}
        sandbox = self.launch(backend, image_ref, tmp_path, **limits)
        sent = server.sandboxes[sandbox.handle.handle_id]
        assert sent.request.timeout_secs == 1235
        assert sent.request.resources.milli_cpu_max == 1500
        assert sent.request.resources.memory_mb_max == 512
        assert sent.request.network_access.network_access_type == 2  # blocked
        assert list(sent.request.entrypoint_args) == ["sleep", "infinity"]
        assert sent.tags["aecbench.trial"] == "trial"
        assert sent.tags["aecbench.pid"] == str(os.getpid())
        sandbox.teardown()

    def test_gpus_are_asked_for_by_the_type_in_the_settings(
        self, server: ModalServer, image_ref: str, tmp_path: Path
    ) -> None:
        from pytest_aecbench.backends.modal import ModalBackend

        backend = ModalBackend({"gpu": "A100:4"})
        assert backend.refuse_gpus() is None
        sandbox = self.launch(backend, image_ref, tmp_path, gpus=2)
        gpu = server.sandboxes[sandbox.handle.handle_id].request.resources.gpu_config
        assert (gpu.gpu_type, gpu.count) == ("A100", 2)
        sandbox.teardown()

    def test_settings_are_sent(self, server: ModalServer, image_ref: str, tmp_path: Path) -> None:
        from pytest_aecbench.backends.modal import ModalBackend

        backend = ModalBackend({"region": "eu", "cloud": "aws", "timeout_sec": 600})
        sandbox = self.launch(backend, image_ref, tmp_path, lifetime_sec=300)
        sent = server.sandboxes[sandbox.handle.handle_id].request
        assert list(sent.scheduler_placement.regions) == ["eu"]
        assert sent.cloud_provider_str.lower() == "aws"
        sandbox.teardown()
        with pytest.raises(LaunchError, match=r"compute\.modal\.timeout_sec is 600.*may need 700"):
            self.launch(backend, image_ref, tmp_path, lifetime_sec=700)
