"""The checks ``structure`` and ``instruction``, which only read the task's files and its prompt."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import TYPE_CHECKING

from pytest_aecbench.checks import Problem
from pytest_aecbench.errors import TaskError
from pytest_aecbench.ledger.checks import GROUPS
from pytest_aecbench.tasks.scaffold import PLACEHOLDERS
from pytest_aecbench.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.checks.rehearsal import Rehearsal

__all__ = ["instruction", "structure"]

_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{\{|\}\}", re.DOTALL)
_UNFINISHED = re.compile(r"\b(?:TODO|FIXME|TBD|XXX)\b|\b[Ll]orem ipsum\b")
# The words with which prompts state tolerances.
_TOLERANCE = re.compile(
    r"±|\+/-|toleran|within|exact|round|nearest|decimal|significant|precis|accura", re.IGNORECASE
)


def structure(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield the missing, invalid and meaningless parts of the task's directory."""
    directory = rehearsal.directory
    try:
        task = Task.load(directory)
        _ = task.digest
    except TaskError as error:
        for line in str(error).splitlines():
            what, _, right = line.rpartition("; ")
            yield Problem(what or line, right or "correct it")
        return
    for warning in task.warnings:
        what, _, right = warning.rpartition("; ")
        yield Problem(what, right, key=warning.split(": ")[1])
    for entry in task.config.metadata.check_allow:
        if not any(entry == name or entry.startswith(f"{name}:") for name in GROUPS["all"]):
            yield Problem(
                f"metadata.check_allow: {entry!r} is not the name of a check",
                "write NAME or NAME:WHAT with the name of a check",
            )
    for link in _links_outside(directory):
        yield Problem(
            f"{link} is a link that leads out of the task",
            "replace it with a copy of its target, because a task is copied alone",
            key=str(link),
        )


def _links_outside(directory: Path) -> Iterator[Path]:
    home = directory.resolve()
    for parent, directories, files in os.walk(home):
        for name in (*directories, *files):
            path = home.joinpath(parent, name)
            if path.is_symlink() and not path.resolve().is_relative_to(home):
                yield path.relative_to(home)


def instruction(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Yield unfinished parts of prompt and solution, a missing output path, missing tolerances."""
    task = rehearsal.task
    text = task.instruction
    yield from _placeholders(rehearsal.directory)
    for match in dict.fromkeys(_UNFINISHED.findall(text)):
        yield Problem(
            f"instruction.md: {match!r} says that it is not finished",
            "write what is missing, and remove the note",
            key=match,
        )
    for match in dict.fromkeys(_PLACEHOLDER.findall(text)):
        yield Problem(
            f"instruction.md: {match[:60]!r} is left over from a template",
            "render the template, or write the value",
            key=match,
        )
    roots = "|".join(re.escape(root) for root in dict.fromkeys(("/workspace", str(task.workdir))))
    if not re.search(rf"(?:{roots.rstrip('/')})/\w", text):
        yield Problem(
            f"instruction.md names no output file; {task.output_path} is only assumed",
            f"name the file to write, such as `{task.output_path}`",
            key="output",
        )
    if not _TOLERANCE.search(text):
        yield Problem(
            "instruction.md does not mention tolerances",
            "say how near each answer must be, or that it must be exact, with units and rounding",
            key="tolerances",
        )


def _placeholders(directory: Path) -> Iterator[Problem]:
    """Yield what ``aec-bench task new`` left for the author to write."""
    for name, (text, right) in PLACEHOLDERS.items():
        path = directory / name
        with suppress(OSError):
            if text in path.read_text(encoding="utf-8", errors="replace"):
                yield Problem(f"{name}: {text!r} is left over from 'task new'", right, key=name)
