"""Import a dataset from an archive: check everything first, then write all of it or nothing."""

from __future__ import annotations

import os
import re
import shutil
from contextlib import ExitStack, contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, NamedTuple

from pytest_aecbench.datasets.archive import read_archive
from pytest_aecbench.datasets.create import entry_of
from pytest_aecbench.datasets.drift import drift
from pytest_aecbench.datasets.names import DatasetRef
from pytest_aecbench.datasets.store import MANIFEST_FILE, Datasets
from pytest_aecbench.errors import SettingsError, TaskError
from pytest_aecbench.host.files import open_regular, shown_path
from pytest_aecbench.tasks.task import Task, is_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_aecbench.datasets.manifest import Manifest, TaskEntry

__all__ = ["Imported", "import_dataset"]


class Imported(NamedTuple):
    """The result of an import: the dataset, and the tasks that are new."""

    manifest: Manifest
    new_tasks: tuple[str, ...]


def import_dataset(archive: Path, datasets: Datasets, tasks_root: Path) -> Imported:
    """Import the archive's dataset and those of its tasks that do not exist, all or nothing.

    The whole archive is checked before anything is written. Then the new tasks are written beside
    their places and moved there; the manifest, which makes them a dataset, comes last.
    """
    try:
        opened = open_regular(archive)
    except OSError as error:
        raise SettingsError(f"{archive}: cannot be read, {error.strerror}") from None
    with opened as file:
        manifest, data = read_archive(file, archive, lambda task, path: nullcontext())
        ref = DatasetRef(manifest.name, manifest.version)
        is_known = ref.version in datasets.versions(ref.name)
        if is_known and datasets.read(ref) != data:
            raise SettingsError(f"{ref}: exists already and differs; a dataset never changes")
        new = _new_tasks(manifest, tasks_root)
        with ExitStack() as undo, _staging(undo, tasks_root) as staging:
            if new:
                file.seek(0)
                read_archive(file, archive, lambda task, path: _sink(staging, new, task, path))
            for entry in new.values():
                _check_staged(staging, entry, archive)
            for entry in new.values():
                _place(undo, staging, tasks_root, entry.task_id)
            if not is_known:
                datasets.add(manifest, data)
            undo.pop_all()
    return Imported(manifest, tuple(new))


def _new_tasks(manifest: Manifest, tasks_root: Path) -> dict[str, TaskEntry]:
    """Return the tasks that do not exist; raise SettingsError for one that differs."""
    changes = {change.task_id: change for change in drift(manifest, tasks_root)}
    new = {task.task_id: task for task in manifest.tasks if task.task_id in changes}
    for task_id in new:
        directory = tasks_root
        for part in task_id.split("/"):
            directory /= part
            if not os.path.lexists(directory):
                break
            if is_task(directory):
                said = changes[task_id] if directory == tasks_root / task_id else "is a task"
                raise SettingsError(f"{shown_path(directory)}: {said}; move it away")
            if directory.is_symlink() or not directory.is_dir():
                raise SettingsError(f"{shown_path(directory)}: is not a directory; move it away")
        else:
            raise SettingsError(f"{shown_path(directory)}: exists and is not a task; move it away")
    return new


@contextmanager
def _staging(undo: ExitStack, tasks_root: Path) -> Iterator[Path]:
    """Yield a directory on the tasks' file system that pytest does not collect."""
    staging = tasks_root / f".import-{os.urandom(8).hex()}"
    try:
        _make_parents(undo, staging)
        yield staging
    except OSError as error:
        raise SettingsError(f"{tasks_root}: cannot be written, {error.strerror}") from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _sink(
    staging: Path, new: Mapping[str, TaskEntry], task: TaskEntry, path: str
) -> Iterator[IO[bytes] | None]:
    if task.task_id not in new:
        yield None
        return
    target = staging / task.task_id / path
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o777 if task.kind(path) == "program" else 0o666
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
    except OSError as error:
        raise SettingsError(f"{target}: cannot be written, {error.strerror}") from None


def _check_staged(staging: Path, entry: TaskEntry, archive: Path) -> None:
    """Raise SettingsError for files with the right hashes that are not the described task."""
    try:
        task = Task.load(staging / entry.task_id, task_id=entry.task_id)
        if entry_of(task, entry.task_path) != entry:
            raise TaskError(f"{entry.task_id}: differs from {MANIFEST_FILE}")
    except TaskError as error:
        (first, *_) = re.sub(rf"[^ ]*{staging.name}/", "", str(error)).splitlines()
        raise SettingsError(f"{archive}: {first}") from None


def _place(undo: ExitStack, staging: Path, tasks_root: Path, task_id: str) -> None:
    """Move the task to its place, and register its removal with ``undo``."""
    target = tasks_root / task_id
    _make_parents(undo, target)
    (staging / task_id).rename(target)
    undo.callback(shutil.rmtree, target)


def _make_parents(undo: ExitStack, path: Path) -> None:
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir()
        undo.callback(parent.rmdir)
