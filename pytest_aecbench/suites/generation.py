"""Generated tasks on disk, from one template or from the plan of a suite."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.suites.draws import Key
from pytest_aecbench.suites.instance import task_files
from pytest_aecbench.suites.sampling import sample
from pytest_aecbench.suites.trees import digest_of, place, staging, write_files
from pytest_aecbench.tasks.digest import task_digest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_aecbench.suites.prompt import Cell
    from pytest_aecbench.suites.template import Template

__all__ = ["Made", "generate_tasks", "key_of"]


@dataclass(frozen=True, slots=True)
class Made:
    """A generated task; ``is_new`` unless the same one was there."""

    name: str
    cell: Cell
    index: int
    is_new: bool


def key_of(template: Template, seed: int, split: str, index: int) -> Key:
    """Return the key of an instance's first attempt."""
    return Key(template.id, template.version.partition(".")[0], seed, split, index)


def generate_tasks(
    template: Template,
    cells: Sequence[Cell],
    count: int,
    seed: int,
    start: int,
    target: Path,
    *,
    write: bool = True,
) -> list[Made]:
    """Write tasks of one template below ``target``; cells take turns.

    A task that is there already stays; if one differs, nothing is written.
    """
    taken: set[str] = set()
    made: list[Made] = []
    with ExitStack() as stack:
        scratch = None
        for index in range(start, start + count):
            cell = cells[(index - start) % len(cells)]
            instance = sample(template, key_of(template, seed, "", index), cell, taken)
            files = task_files(instance)
            made.append(Made(instance.name, cell, index, _is_free(target / instance.name, files)))
            if write and made[-1].is_new:
                scratch = scratch or stack.enter_context(staging(target))
                write_files(scratch / instance.name, files)
        for one in made:
            if scratch and one.is_new:
                place(scratch / one.name, target / one.name)
    return made


def _is_free(path: Path, files: dict[str, str]) -> bool:
    if not os.path.lexists(path):
        return True
    if not path.is_dir() or task_digest(path) != digest_of(files):
        raise SettingsError(
            f"{path}: exists and differs from what would be generated; move it away"
        )
    return False
