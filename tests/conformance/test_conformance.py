"""Every backend keeps the contract that third parties' backends are held to."""

from __future__ import annotations

import pytest

from pytest_aecbench.backends import ComputeBackend
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.testing import BackendConformance


@pytest.mark.needs("namespaces")
class TestLocalInNamespaces(BackendConformance):
    @pytest.fixture
    def backend(self) -> ComputeBackend:
        return LocalBackend("namespaces")


class TestLocalByRewriting(BackendConformance):
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

    @pytest.fixture
    def backend(self, docker_backend: ComputeBackend) -> ComputeBackend:
        return docker_backend
