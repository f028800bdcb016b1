"""The selection of tasks for an experiment or a dataset: those that every rule allows."""

from __future__ import annotations

from dataclasses import astuple, dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_aecbench.tasks.plain import Described

__all__ = ["Selection"]


@dataclass(frozen=True, slots=True)
class Selection:
    """Rules on tasks; an empty one allows all. In a pattern ``*`` stands for anything."""

    include_patterns: tuple[str, ...] = ()
    exclude_patterns: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    difficulties: tuple[str, ...] = ()
    lifecycle: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(astuple(self))

    def names(self, task_id: str) -> bool:
        """Return whether the patterns allow the task's id; the task is not read."""
        included = not self.include_patterns or _matches(task_id, self.include_patterns)
        return included and not _matches(task_id, self.exclude_patterns)

    def takes(self, task: Described) -> bool:
        """Return whether all rules allow the task."""
        return (
            self.names(task.task_id)
            and (not self.domains or task.domain in self.domains)
            and (not self.difficulties or task.difficulty in self.difficulties)
            and (not self.lifecycle or task.lifecycle in self.lifecycle)
        )


def _matches(task_id: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(task_id, pattern) for pattern in patterns)
