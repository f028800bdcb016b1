"""Collection: which directories are ours, and which trials a task has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_aecbench.config import settings_of
from pytest_aecbench.nodes import TaskDirectory, TaskFile, TaskTree, is_task

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Directory | None:
    """Take over task directories, and directories that hold some."""
    if is_task(os.fspath(path)):
        return TaskDirectory.from_parent(parent, path=path)
    try:
        with os.scandir(path) as entries:
            holds_tasks = any(entry.is_dir() and is_task(entry.path) for entry in entries)
    except OSError:
        return None  # pytest itself says what is wrong with it
    if holds_tasks and not (path / "__init__.py").is_file():
        return TaskTree.from_parent(parent, path=path)
    return None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the template its agents and repetitions, or its checks."""
    if isinstance(metafunc.definition.parent, TaskFile):
        settings = settings_of(metafunc.config)
        if settings.checks:
            metafunc.parametrize("check", settings.checks)
            return
        names = [agent.name for agent in settings.agents]
        metafunc.parametrize("agent", settings.agents, ids=names)
        metafunc.parametrize("repetition", range(1, settings.repetitions + 1))
