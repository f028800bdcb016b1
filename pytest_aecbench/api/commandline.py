"""The pytest command line that a run amounts to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["pytest_command"]

TASKS = "tasks"


def pytest_command(
    tasks: Iterable[str | Path],
    options: Mapping[str, object],
    *,
    workers: int | None = None,
    extra: Iterable[str] = (),
    directory: Path | None = None,
) -> list[str]:
    """Return what runs pytest on ``tasks``, by default on all in the project at ``directory``.

    Tasks are paths or ids. ``options`` are ours, without their ``--aec-``; None and False leave
    one out, a list repeats it.
    """
    directory = directory or Path()
    command = [sys.executable, "-m", "pytest"]
    command += [_path(directory, str(task)) for task in tasks] or _all_tasks(directory)
    for name, value in options.items():
        if value is True:
            command.append(f"--aec-{name}")
        elif value is not None and value is not False:
            values = value if isinstance(value, (list, tuple)) else [value]
            command += [f"--aec-{name}={one}" for one in values]
    if workers is not None:
        command.append(f"-n{workers}")
    return [*command, *extra]


def _path(directory: Path, task: str) -> str:
    path = Path(TASKS, task)
    return str(path) if task and (directory / path).is_dir() else task


def _all_tasks(directory: Path) -> list[str]:
    # Where tasks are elsewhere, pytest's own testpaths say where.
    return [TASKS] if (directory / TASKS).is_dir() else []
