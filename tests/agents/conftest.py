"""Sandboxes for agents, on the backend that needs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

from pytest_aecbench.backends.local import LocalBackend
from pytest_aecbench.backends.sandbox import Sandbox
from pytest_aecbench.tasks.task import Task
from tests.agents.recursion import Workshop
from tests.tasks import write_least, write_tree

MakeTask = Callable[..., Task]
Mode = Literal["auto", "namespaces", "rewriting"]
MODES = [pytest.param("namespaces", marks=pytest.mark.needs("namespaces")), "rewriting"]


@pytest.fixture
def mode() -> Mode:
    """The way in which the local backend makes sandboxes; override it to choose."""
    return "auto"


@pytest.fixture
def sandbox(tmp_path: Path, mode: Mode) -> Iterator[Sandbox]:
    """A running sandbox."""
    backend = LocalBackend(mode)
    workspace = tmp_path / "trial" / "workspace"
    workspace.mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    image = backend.build_environment(task_dir=tmp_path / "empty")
    made = Sandbox(backend, backend.launch_trial(image_ref=image, workspace_dir=workspace))
    yield made
    made.close()


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
