"""Checks that take nothing but reading: the task's files and its prompt."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from pytest_aecbench.checks import Problem
from pytest_aecbench.errors import TaskError
from pytest_aecbench.ledger.checks import GROUPS
from pytest_aecbench.tasks.task import Task

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.checks.rehearsal import Rehearsal

__all__ = ["instruction", "structure"]

_PLACEHOLDER = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{\{|\}\}", re.DOTALL)
# How prompts say how near an answer must be.
_TOLERANCE = re.compile(
    r"±|\+/-|toleran|within|exact|round|nearest|decimal|significant|precis|accura", re.IGNORECASE
)


def structure(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Read the whole directory: everything is there, valid, and means something."""
    directory = rehearsal.directory
    try:
        task = Task.load(directory)
        _ = task.digest
    except TaskError as error:
        for line in str(error).splitlines():
            what, _, right = line.rpartition("; ")
            yield Problem(what or line, right or "put it right")
        return
    for warning in task.warnings:
        what, _, right = warning.rpartition("; ")
        yield Problem(what, right, key=warning.split(": ")[1])
    for entry in task.config.metadata.check_allow:
        if not any(entry == name or entry.startswith(f"{name}:") for name in GROUPS["all"]):
            yield Problem(
                f"metadata.check_allow: {entry!r} names no check",
                "write NAME or NAME:WHAT with the name of a check",
            )
    for link in _links_outside(directory):
        yield Problem(
            f"{link} is a link that leads out of the task",
            "put a file there: a task is copied without what lies around it",
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
    """Read the prompt: it is finished, and says where the answer goes and how near it must be."""
    task = rehearsal.task
    text = task.instruction
    for match in dict.fromkeys(_PLACEHOLDER.findall(text)):
        yield Problem(
            f"instruction.md: {match[:60]!r} is left of a template",
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
            "instruction.md says nothing of tolerances",
            "say how near each answer must be, or that it must be exact, with units and rounding",
            key="tolerances",
        )
