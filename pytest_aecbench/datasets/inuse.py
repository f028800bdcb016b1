"""The dataset that a run is confined to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_aecbench.datasets.drift import drift
from pytest_aecbench.datasets.names import parse_ref
from pytest_aecbench.datasets.store import Datasets
from pytest_aecbench.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["DatasetInUse", "take"]

_LISTED = 5


@dataclass(frozen=True, slots=True)
class DatasetInUse:
    """A dataset and the hashes of its tasks; ``changes`` says which are not as they should be."""

    name: str
    version: str
    content_hash: str
    tasks: dict[str, str] = field(repr=False)
    changes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def drifted(self) -> bool:
        """Whether some task is missing or differs."""
        return bool(self.changes)


def take(datasets_root: Path, tasks_root: Path, ref: str, *, allow_drift: bool) -> DatasetInUse:
    """Read the dataset and compare it with the tasks.

    Raises:
        SettingsError: a task is missing or differs, in a line each, and that is not allowed.

    """
    where = "--aec-dataset"
    manifest = Datasets(datasets_root).load(parse_ref(ref, where))
    changes = tuple(map(str, drift(manifest, tasks_root)))
    if changes and not allow_drift:
        more = [f"and {len(changes) - _LISTED} more"] if len(changes) > _LISTED else []
        raise SettingsError(
            f"{where}: the tasks are not those of {ref}: {'; '.join([*changes[:_LISTED], *more])}; "
            "put them back as they were, make a new version of the dataset, or --aec-allow-drift"
        )
    return DatasetInUse(
        manifest.name,
        manifest.version,
        manifest.content_hash,
        {task.task_id: task.content_hash for task in manifest.tasks},
        changes,
    )
