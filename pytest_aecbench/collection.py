"""Collection: which directories are ours, and which trials a task has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.config import is_configured, is_worker, settings_of
from pytest_aecbench.confining import dataset_of
from pytest_aecbench.nodes import TaskDirectory, TaskFile, TaskTree, TrialItem, is_task

if TYPE_CHECKING:
    from pathlib import Path


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse tasks that are not those of the run's dataset, before there are workers."""
    if is_configured(session.config) and not is_worker(session.config):
        dataset_of(session.config)


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
    """Give the template its agents and repetitions."""
    if isinstance(metafunc.definition.parent, TaskFile):
        settings = settings_of(metafunc.config)
        names = [agent.name for agent in settings.agents]
        metafunc.parametrize("agent", settings.agents, ids=names)
        metafunc.parametrize("repetition", range(1, settings.repetitions + 1))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the trials of tasks that the run's dataset does not have."""
    if is_configured(config) and (dataset := dataset_of(config)) is not None:
        tasks_root = settings_of(config).tasks_root
        directories = {tasks_root / task_id for task_id in dataset.tasks}
        outside = [
            item
            for item in items
            if isinstance(item, TrialItem) and item.path.parent not in directories
        ]
        if outside:
            config.hook.pytest_deselected(items=outside)
            left_out = set(outside)
            items[:] = [item for item in items if item not in left_out]
