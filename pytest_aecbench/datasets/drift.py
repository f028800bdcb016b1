"""Differences between two states of tasks: two manifests, or a manifest and the disk."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_aecbench.datasets.names import parse_ref
from pytest_aecbench.datasets.store import Datasets
from pytest_aecbench.errors import SettingsError
from pytest_aecbench.tasks.digest import FileDigest, file_digests, task_digest
from pytest_aecbench.tasks.task import is_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_aecbench.datasets.manifest import Manifest, TaskEntry

__all__ = ["DatasetInUse", "TaskChange", "differences", "drift", "take"]


@dataclass(frozen=True, slots=True)
class TaskChange:
    """The way a task differs: ``added``, ``removed`` or ``changed``, and then in which files."""

    task_id: str
    how: str
    files: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if not self.files:
            return f"{self.task_id}: {self.how}"
        return f"{self.task_id}: " + ", ".join(f"{name} {how}" for name, how in self.files.items())


def differences(before: Manifest, after: Manifest) -> list[TaskChange]:
    """Return the differences between two datasets, by task."""
    old = {task.task_id: task for task in before.tasks}
    new = {task.task_id: task for task in after.tasks}
    changes = []
    for task_id in sorted(old.keys() | new.keys()):
        if task_id not in new:
            changes.append(TaskChange(task_id, "removed"))
        elif task_id not in old:
            changes.append(TaskChange(task_id, "added"))
        elif old[task_id].content_hash != new[task_id].content_hash:
            files = dict(_compare(_digests(old[task_id]), _digests(new[task_id])))
            changes.append(TaskChange(task_id, "changed", files))
    return changes


def drift(manifest: Manifest, tasks_root: Path) -> list[TaskChange]:
    """Return the differences between the manifest and the tasks on disk."""
    changes = []
    for entry in manifest.tasks:
        directory = tasks_root / entry.task_id
        if not is_task(directory):
            changes.append(TaskChange(entry.task_id, "missing"))
        elif task_digest(directory) != entry.content_hash:
            files = dict(_compare(_digests(entry), file_digests(directory)))
            changes.append(TaskChange(entry.task_id, "changed", files))
    return changes


def _digests(entry: TaskEntry) -> dict[str, FileDigest]:
    return {name: FileDigest(entry.kind(name), sha256) for name, sha256 in entry.files.items()}


def _compare(
    old: Mapping[str, FileDigest], new: Mapping[str, FileDigest]
) -> Iterator[tuple[str, str]]:
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield name, "removed"
        elif name not in old:
            yield name, "added"
        elif old[name] != new[name]:
            yield name, "changed"


_LISTED = 5


@dataclass(frozen=True, slots=True)
class DatasetInUse:
    """A dataset and the hashes of its tasks; ``changes`` lists the tasks that differ from it."""

    name: str
    version: str
    content_hash: str
    tasks: dict[str, str] = field(repr=False)
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def drifted(self) -> bool:
        """True if a task is missing or differs."""
        return bool(self.changes)


def take(datasets_root: Path, tasks_root: Path, ref: str, *, allow_drift: bool) -> DatasetInUse:
    """Return the dataset, compared with the tasks.

    Raises:
        SettingsError: tasks are missing or differ, and ``allow_drift`` is false.

    """
    where = "--aec-dataset"
    manifest = Datasets(datasets_root).load(parse_ref(ref, where))
    changes = tuple(map(str, drift(manifest, tasks_root)))
    if changes and not allow_drift:
        more = [f"and {len(changes) - _LISTED} more"] if len(changes) > _LISTED else []
        raise SettingsError(
            f"{where}: the tasks differ from {ref}: {'; '.join([*changes[:_LISTED], *more])}; "
            "restore them, make a new version of the dataset, or pass --aec-allow-drift"
        )
    return DatasetInUse(
        manifest.name,
        manifest.version,
        manifest.content_hash,
        {task.task_id: task.content_hash for task in manifest.tasks},
        changes,
    )
