"""From tasks on disk to the entries of a manifest."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from pytest_aecbench.datasets.manifest import TaskEntry
from pytest_aecbench.datasets.paths import problem_with
from pytest_aecbench.errors import SettingsError, TaskError
from pytest_aecbench.task import Task, file_digests, find_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Selection", "entry_of"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which tasks are asked for; an empty condition holds for every task, and all must hold."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    difficulties: tuple[str, ...] = ()
    lifecycles: tuple[str, ...] = ()

    def tasks(self, tasks_root: Path) -> Iterator[Task]:
        """Yield the tasks below the root that are asked for; one that cannot be read is an error.

        A task that the patterns leave out may be as broken as it likes.
        """
        try:
            for task_id, path in find_tasks(tasks_root):
                if self._names(task_id):
                    task = Task.load(path, task_id=task_id)
                    if self._admits(task):
                        yield task
        except OSError as error:
            raise SettingsError(f"{error.filename}: cannot be read, {error.strerror}") from None

    def _names(self, task_id: str) -> bool:
        if any(fnmatchcase(task_id, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(fnmatchcase(task_id, p) for p in self.include)

    def _admits(self, task: Task) -> bool:
        return (
            (not self.domains or task.domain in self.domains)
            and (not self.difficulties or task.difficulty in self.difficulties)
            and (not self.lifecycles or task.config.metadata.lifecycle in self.lifecycles)
        )


def entry_of(task: Task, task_path: str) -> TaskEntry:
    """Describe the task in its present state."""
    digests = file_digests(task.path)
    for name, (kind, _) in digests.items():
        where = f"{task.task_id}: {name!r}"
        if kind not in ("file", "program"):
            raise TaskError(f"{where} is no regular file; put a copy of what is meant there")
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
