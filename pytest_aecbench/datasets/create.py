"""Turn tasks on disk into the entries of a manifest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_aecbench.datasets.manifest import TaskEntry
from pytest_aecbench.datasets.names import problem_with
from pytest_aecbench.errors import SettingsError, TaskError
from pytest_aecbench.tasks.digest import file_digests
from pytest_aecbench.tasks.task import Task, find_tasks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from pytest_aecbench.tasks.selection import Selection

__all__ = ["check_soundness", "entry_of", "selected_tasks"]


def selected_tasks(selection: Selection, tasks_root: Path) -> Iterator[Task]:
    """Yield the selected tasks below the root; raise an error for one that cannot be read.

    Tasks that the patterns leave out may be broken.
    """
    try:
        for task_id, path in find_tasks(tasks_root):
            if selection.names(task_id):
                task = Task.load(path, task_id=task_id)
                if selection.takes(task):
                    yield task
    except OSError as error:
        raise SettingsError(f"{error.filename}: cannot be read, {error.strerror}") from None


def check_soundness(tasks: Iterable[Task], ledger_root: Path) -> None:
    """Raise SettingsError unless the ledger has passed checks of exactly these files."""
    from pytest_aecbench.ledger.checks import checked

    for task in tasks:
        found = checked(ledger_root, task.digest)
        if found is None or not found.sound:
            why = "was not checked" if found is None else "did not pass its checks"
            raise SettingsError(
                f"{task.task_id}: {why} in this state; run 'aec-bench task validate {task.path}'"
            )


def entry_of(task: Task, task_path: str) -> TaskEntry:
    """Return the entry for the task in its present state."""
    if problem := problem_with(task.task_id):
        raise TaskError(f"{task.task_id!r}: {problem}; rename it")
    digests = file_digests(task.path)
    for name, (kind, _) in digests.items():
        where = f"{task.task_id}: {name!r}"
        if kind not in ("file", "program"):
            raise TaskError(f"{where} is not a regular file; replace it with a copy of its target")
        if problem := problem_with(name):
            raise TaskError(f"{where} {problem}; rename it")
    return TaskEntry(
        task_id=task.task_id,
        task_path=task_path,
        content_hash=task.digest,
        domain=task.domain,
        difficulty=task.difficulty,
        tags=task.tags,
        visibility=task.config.metadata.visibility,
        files={name: digest.sha256 for name, digest in digests.items()},
        programs=tuple(name for name, digest in digests.items() if digest.kind == "program"),
    )
