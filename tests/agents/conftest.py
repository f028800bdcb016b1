"""Sandboxes for agents: on the backend that needs nothing, and at night in containers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from pytest_aecbench.backends import Limits
from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.tasks.task import Task
from tests.agents.recursion import Workshop
from tests.tasks import write_least, write_tree

MakeTask = Callable[..., Task]
Mode = Literal["auto", "namespaces", "rewriting", "docker"]
DOCKER = pytest.param("docker", marks=[pytest.mark.needs("docker"), pytest.mark.nightly])
MODES = [pytest.param("namespaces", marks=pytest.mark.needs("namespaces")), "rewriting"]
# For ``pytestmark``: on this machine by day, and in containers at night.
anywhere = pytest.mark.parametrize("mode", ["auto", DOCKER], indirect=True)


@pytest.fixture
def mode(request: pytest.FixtureRequest) -> Mode:
    """The backend, and the way in which the local one makes sandboxes; override it to choose."""
    chosen: Mode = getattr(request, "param", "auto")
    return chosen


@pytest.fixture
def sandbox(tmp_path: Path, mode: Mode) -> Iterator[Sandbox]:
    """A running sandbox; a container has no network."""
    backend: Any
    if mode == "docker":
        from pytest_aecbench.backends.docker import DockerBackend

        backend = DockerBackend(run_id="agents")
    else:
        backend = LocalBackend(mode)
    workspace = tmp_path / "trial" / "workspace"
    workspace.mkdir(parents=True)
    files = {"environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /workspace\n"}
    image = backend.build_environment(
        task_dir=write_tree(tmp_path / "image", files if mode == "docker" else {})
    )
    limits = Limits(network=False) if mode == "docker" else None
    handle = backend.launch_trial(image_ref=image, workspace_dir=workspace, limits=limits)
    made = Sandbox(backend, handle)
    yield made
    made.close()
    if mode == "docker":
        backend.close()


@pytest.fixture
def make_task(tmp_path: Path, sandbox: Sandbox) -> MakeTask:
    """Write a task; its tools are in the sandbox."""

    def make(toml: str = "", tools: dict[str, str] | None = None) -> Task:
        files = {f"tools/{name}.py": source for name, source in (tools or {}).items()}
        directory = write_tree(write_least(tmp_path / "task", toml), files)
        if files:
            sandbox.execute("true", uploads={"/workspace/tools": directory / "tools"})
        return Task.load(directory)

    return make


@pytest.fixture
def workshop(tmp_path: Path, sandbox: Sandbox) -> Workshop:
    """Tasks and runs of the harness ``rlm``."""
    return Workshop(tmp_path, sandbox)
