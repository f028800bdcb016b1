"""Taking in a dataset from an archive: nothing that differs from what it claims, all or nothing."""

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
from pytest_aecbench.host.files import open_regular
from pytest_aecbench.tasks.task import Task, is_task

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from pytest_aecbench.datasets.manifest import Manifest, TaskEntry

__all__ = ["Imported", "import_dataset"]


class Imported(NamedTuple):
    """What an import came to: the dataset, and the tasks that were not there before."""

    manifest: Manifest
    new_tasks: tuple[str, ...]


def import_dataset(archive: Path, datasets: Datasets, tasks_root: Path) -> Imported:
    """Take in the archive's dataset and those of its tasks that are not there, all or nothing.

    The whole archive is read and checked before anything is written. Then the new tasks are written
    beside their places and moved there, and the manifest, which makes them a dataset, comes last.
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
            raise SettingsError(f"{ref}: is there already and differs; a dataset never changes")
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
    """Return the tasks that are not there; one that is there and differs is an error."""
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
                raise SettingsError(f"{directory}: {said}; move what is there away")
            if directory.is_symlink() or not directory.is_dir():
                raise SettingsError(f"{directory}: is no directory; move what is there away")
        else:
            raise SettingsError(f"{directory}: is there and is no task; move it away")
    return new


@contextmanager
def _staging(undo: ExitStack, tasks_root: Path) -> Iterator[Path]:
    """Give a place on the filesystem of the tasks that pytest does not look into."""
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
    """Refuse what has the right hashes and still is no task, or not the one that is described."""
    try:
        task = Task.load(staging / entry.task_id, task_id=entry.task_id)
        if entry_of(task, entry.task_path) != entry:
            raise TaskError(f"{entry.task_id}: is not what {MANIFEST_FILE} says of it")
    except TaskError as error:
        (first, *_) = re.sub(rf"[^ ]*{staging.name}/", "", str(error)).splitlines()
        raise SettingsError(f"{archive}: {first}") from None


def _place(undo: ExitStack, staging: Path, tasks_root: Path, task_id: str) -> None:
    """Move the task to its place, and take note of how to take it away again."""
    target = tasks_root / task_id
    _make_parents(undo, target)
    (staging / task_id).rename(target)
    undo.callback(shutil.rmtree, target)


def _make_parents(undo: ExitStack, path: Path) -> None:
    missing = [parent for parent in path.parents if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir()
        undo.callback(parent.rmdir)
