"""Images for Cloud Batch: built by a real engine, and pushed to a registry on the loopback."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_aecbench.backends.gcp import GCPBatchBackend
from pytest_aecbench.errors import BuildError, SettingsError
from tests.conformance.conftest import BASE, write_context
from tests.standins.batch import BatchServer
from tests.standins.registry import RegistryServer
from tests.standins.server import Fault

pytestmark = [pytest.mark.needs("namespaces"), pytest.mark.needs("docker")]


@pytest.fixture
def registry(google: BatchServer) -> Iterator[RegistryServer]:
    registry = RegistryServer()
    engine = dict(os.environ)
    yield registry
    registry.close()
    pattern, form = registry.reference("*/*/*"), "{{.Repository}}:{{.Tag}}"
    listing = ["docker", "images", "--format", form, pattern]
    listed = subprocess.check_output(listing, env=engine, text=True).split()
    if listed:
        subprocess.run(["docker", "rmi", *listed], check=True, env=engine, capture_output=True)


def backend_for(google: BatchServer, registry: RegistryServer) -> GCPBatchBackend:
    repository = registry.reference("project-1/aecbench")
    return GCPBatchBackend({"endpoint": google.url, "repository": repository})


@pytest.fixture
def task_dir(tmp_path: Path) -> Path:
    return write_context(tmp_path / "Voltage drop", f"{BASE}RUN echo built > /built\n")


def pushes(registry: RegistryServer) -> int:
    return len(registry.called(registry.PUSH))


def test_an_image_is_built_pushed_and_named_by_its_content(
    google: BatchServer, registry: RegistryServer, task_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = backend_for(google, registry)
    reference = backend.build_environment(task_dir=task_dir)
    assert reference.startswith(registry.reference("project-1/aecbench/voltage-drop:"))
    assert pushes(registry) == 1
    # What a machine pulls is what was built.
    subprocess.run(["docker", "rmi", "-f", reference], check=True, capture_output=True)
    command = ["docker", "run", "--rm", "--network=none", reference, "cat", "/built"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    assert shown.stdout == "built\n"
    # The same content is built no more, by this process or another, which need no engine then.
    with monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nowhere/socket")
        assert backend.build_environment(task_dir=task_dir) == reference
        assert backend_for(google, registry).build_environment(task_dir=task_dir) == reference
    assert pushes(registry) == 1
    write_context(task_dir, f"{BASE}RUN echo other > /built\n")
    assert backend.build_environment(task_dir=task_dir) != reference
    assert pushes(registry) == 2


def test_the_token_of_the_account_opens_the_registry(
    google: BatchServer, registry: RegistryServer, task_dir: Path
) -> None:
    backend = backend_for(google, registry)
    credentials: Any = backend._cloud.credentials
    credentials.refresh(_request())
    registry.password = credentials.token
    backend.build_environment(task_dir=task_dir)
    assert pushes(registry) == 1


def _request() -> Any:
    from google.auth.transport.requests import Request

    return Request()


FAILURES: dict[str, tuple[Fault | None, str, str, type[Exception], str]] = {
    "build": (
        None,
        "RUN echo shown; exit 3\n",
        "",
        BuildError,
        r"environment/Dockerfile: the build failed; .*returned a non-zero code: 3\n(.*\n)*  shown",
    ),
    "push denied": (
        Fault("POST .*/blobs/uploads", times=99, status=403, message="denied"),
        "",
        "",
        BuildError,
        r"voltage-drop:\w+: the push failed; .*403.*; give your account the role artifactreg",
    ),
    "not allowed to look": (
        Fault("HEAD .*/manifests", times=9, status=403),
        "",
        "",
        SettingsError,
        r"gcp: looking for .*: not allowed; give your account the role artifactregistry.writer",
    ),
    "no engine": (
        None,
        "",
        "tcp://127.0.0.1:9",
        BuildError,
        r"no Docker engine to build the image with; .*; start one, or set docker_image",
    ),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_what_fails_is_said_with_what_to_do(
    google: BatchServer,
    registry: RegistryServer,
    task_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    fault, line, engine, expected, message = FAILURES[kind]
    write_context(task_dir, BASE + line)
    if fault is not None:
        registry.faults.append(fault)
    if engine:
        monkeypatch.setenv("DOCKER_HOST", engine)
    with pytest.raises(expected, match=message):
        backend_for(google, registry).build_environment(task_dir=task_dir)
    assert registry.manifests == {}


def test_without_a_repository_the_right_one_is_named(google: BatchServer, task_dir: Path) -> None:
    with pytest.raises(SettingsError, match=r"compute\.gcp\.repository is not set; name a reposit"):
        GCPBatchBackend({"endpoint": google.url}).examine([task_dir])
