"""Collection: which directories are ours, and which trials a task has."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_aecbench.plugin.items import SandboxItem
from pytest_aecbench.plugin.nodes import (
    NamelessDirectory,
    TaskDirectory,
    TaskFile,
    TaskTree,
    is_task,
)
from pytest_aecbench.plugin.state import is_configured, is_worker, settings_of, state_of
from pytest_aecbench.text import counted, is_utf8

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Refuse tasks that are not those of the run's dataset, before there are workers."""
    if is_configured(session.config) and not is_worker(session.config):
        _ = state_of(session.config).dataset


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Directory | None:
    """Take over task directories, and directories that hold some."""
    if is_task(os.fspath(path)):
        return _named(TaskDirectory, path, parent)
    try:
        with os.scandir(path) as entries:
            holds_tasks = any(entry.is_dir() and is_task(entry.path) for entry in entries)
    except OSError:
        return None  # pytest itself says what is wrong with it
    if holds_tasks and not (path / "__init__.py").is_file():
        return _named(TaskTree, path, parent)
    return None


def _named(kind: type[pytest.Directory], path: Path, parent: pytest.Collector) -> pytest.Directory:
    if not is_utf8(path.name):
        return NamelessDirectory.at(path, parent)
    node: pytest.Directory = kind.from_parent(parent, path=path)
    return node


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give the template its agents and repetitions, or its checks."""
    if isinstance(metafunc.definition.parent, TaskFile):
        settings, stored = settings_of(metafunc.config), state_of(metafunc.config).stored
        if settings.checks:
            metafunc.parametrize("check", settings.checks)
            return
        from pytest_aecbench.plugin.evaluate import unique_names

        agents = stored.agents if stored else settings.agents
        repetitions = stored.repetitions if stored else range(1, settings.repetitions + 1)
        metafunc.parametrize("agent", agents, ids=unique_names(agents))
        metafunc.parametrize("repetition", repetitions)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Let wrong settings end the run in one line, though they are first needed in collection."""
    report = yield
    if refusal := state_of(collector.config).refusal:
        raise refusal
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Deselect the trials that experiment or dataset do not ask for, as ``-k`` does."""
    trials = [item for item in items if isinstance(item, SandboxItem)]
    left_out = {item for item in trials if not item.parent.is_selected}
    left_out |= _outside_dataset(session.config, trials)
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        session.config.hook.pytest_deselected(items=[t for t in trials if t in left_out])
    if len(left_out) == len(trials) and not session.testsfailed:
        _refuse_none(session.config, len({item.parent for item in trials}))


def _outside_dataset(config: pytest.Config, trials: list[SandboxItem]) -> set[SandboxItem]:
    dataset = state_of(config).dataset if is_configured(config) else None
    if dataset is None:
        return set()
    tasks_root = settings_of(config).tasks_root
    directories = {tasks_root / task_id for task_id in dataset.tasks}
    return {item for item in trials if item.path.parent not in directories}


_NONE_SELECTED = "aecbench_none_selected"


def _refuse_none(config: pytest.Config, found: int) -> None:
    """Refuse a run of an experiment that selects nothing: that is never what was meant."""
    if not config.getoption("--aec-experiment"):
        return
    file = config.getoption("--aec-experiment")
    message = (
        f"{file}: tasks: {counted(found, 'task')} found, but none is selected; select some of them"
        if found
        else f"{file}: no tasks are found; name their directory, as in: pytest tasks"
    )
    if is_worker(config):  # a UsageError in a worker is not shown, so the controller raises it
        config.workeroutput[_NONE_SELECTED] = message  # type: ignore[attr-defined]
    else:
        raise pytest.UsageError(message)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object, error: object) -> None:
    """Raise the usage error that a worker could not show."""
    if message := getattr(node, "workeroutput", {}).get(_NONE_SELECTED):
        raise pytest.UsageError(message)
