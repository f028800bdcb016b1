"""Generated tasks on disk, from one template or from the plan of a suite."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.suites.draws import Key
from pytest_aecbench.suites.instance import task_files
from pytest_aecbench.suites.sampling import sample
from pytest_aecbench.suites.trees import digest_of, place, staging, write_files
from pytest_aecbench.tasks.digest import task_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
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
    digest: str
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
    progress: Callable[[], None] = lambda: None,
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
            digest = digest_of(files)
            is_new = _is_free(target / instance.name, digest)
            made.append(Made(instance.name, cell, index, digest, is_new))
            if write and is_new:
                scratch = scratch or stack.enter_context(staging(target))
                write_files(scratch / instance.name, files)
            progress()
        if scratch:
            made = [_placed(one, scratch, target) for one in made]
    return made


def _placed(one: Made, scratch: Path, target: Path) -> Made:
    """Move a new task to its place; another process may have made it in the meantime."""
    if one.is_new and not place(scratch / one.name, target / one.name):
        return replace(one, is_new=_is_free(target / one.name, one.digest))
    return one


def _is_free(path: Path, digest: str) -> bool:
    if not os.path.lexists(path):
        return True
    if not path.is_dir() or task_digest(path) != digest:
        raise SettingsError(
            f"{shown_path(path)}: exists and differs from what would be generated; move it away"
        )
    return False
