"""A dataset of exactly the tasks of a generated suite, unchanged since they were made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from pytest_aecbench.datasets.manifest import MAX_MANIFEST_BYTES, Source
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import read_regular, shown_path
from pytest_aecbench.tasks.digest import task_digest
from pytest_aecbench.tasks.task import TASK_FILE, Task

__all__ = ["SuiteTasks", "suite_tasks"]

_RECORD = "generation.json"
_OPTION = "--from-suite"


class SuiteTasks(NamedTuple):
    """The tasks of a suite, and where they come from."""

    tasks: list[Task]
    source: Source


def suite_tasks(directory: Path, tasks_root: Path) -> SuiteTasks:
    """Return the tasks that the suite's record lists.

    Raises:
        SettingsError: the directory is not a suite below the tasks, or a task has changed.

    """
    root = directory.resolve()
    if not root.is_relative_to(tasks_root.resolve()):
        raise SettingsError(
            f"{_OPTION}: {shown_path(directory)} is not below {shown_path(tasks_root)}; "
            "generate the suite there"
        )
    record = _record(directory)
    prefix = root.relative_to(tasks_root.resolve())
    tasks = []
    for name, about in record["tasks"].items():
        path = tasks_root / prefix / name
        is_inside = path.resolve().is_relative_to(root) and ".." not in name.split("/")
        if not (is_inside and (path / TASK_FILE).is_file()) or task_digest(path) != about["digest"]:
            raise SettingsError(
                f"{_OPTION}: {name} is not as it was generated; "
                "see 'aec-bench generate suite --check'"
            )
        tasks.append(Task.load(path, task_id=(prefix / name).as_posix()))
    suite = record["suite"]
    versions = {name: one["version"] for name, one in record["templates"].items()}
    source = Source(
        method="suite_config", suite_config=suite, seed=suite["seed"], template_versions=versions
    )
    return SuiteTasks(tasks, source)


def _record(directory: Path) -> dict[str, Any]:
    path = directory / _RECORD
    if not path.is_file():
        raise SettingsError(
            f"{_OPTION}: {shown_path(directory)} has no {_RECORD}; "
            "use a directory made by 'aec-bench generate suite'"
        )
    try:
        record: dict[str, Any] = json.loads(read_regular(path, MAX_MANIFEST_BYTES))
        _ = record["suite"]["seed"], [one["digest"] for one in record["tasks"].values()]
        _ = [one["version"] for one in record["templates"].values()]
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError):
        raise SettingsError(
            f"{shown_path(path)}: is not the record of a suite; generate the suite again"
        ) from None
    return record
