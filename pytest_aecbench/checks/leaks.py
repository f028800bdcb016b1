"""The check ``leaks``: no expected value is in a text that the agent can read.

The expected values are those in the solution's output. A number leaks if a visible text has it to
at least four significant digits (six in a text full of numbers, where four would match by chance).
Any value leaks if it follows its own name, as in an example of the output. Yes or no never leaks.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_aecbench.checks import NotApplicableError, Problem
from pytest_aecbench.tasks.revealed import NUMBER, Expected, found

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.checks.rehearsal import Rehearsal
    from pytest_aecbench.tasks.task import Task

__all__ = ["leaks"]

_MAX_BYTES = 1 << 20


def leaks(rehearsal: Rehearsal) -> Iterator[Problem]:
    """Solve the task, then search for the answer in everything that the agent gets."""
    rehearsal.execute()
    expected = _expected(_output(rehearsal))
    for where, text in _visible(rehearsal.task):
        for one, token in found(text, expected):
            yield Problem(
                f"{where}: {token} is the expected {one.name}",
                "remove it from the texts for the agent; if it is there on purpose, write "
                f'metadata.check_allow = ["leaks:{token}"] in task.toml',
                key=token,
            )


def _output(rehearsal: Rehearsal) -> str:
    """Return the output file that the solution wrote."""
    from pytest_aecbench.trials import stages

    trial, below = rehearsal.trial, rehearsal.task.output_below_workdir()
    stages.collect(trial, rehearsal.sandbox)
    path = trial.workspace_dir / below if below else None
    if path is None or path.is_symlink() or not path.is_file():
        raise NotApplicableError(f"the solution wrote no {rehearsal.task.output_path}")
    return path.read_text(encoding="utf-8", errors="replace")


def _expected(output: str) -> list[Expected]:
    """Return the values of the answer's JSON, else the numbers in its text."""
    values: list[Expected] = []
    try:
        for line in _documents(output):
            values += _leaves(json.loads(line))
    except (ValueError, RecursionError):
        return [Expected("value", float(number)) for number in NUMBER.findall(output)]
    return values


def _documents(output: str) -> list[str]:
    try:
        json.loads(output)
    except ValueError:
        return [line for line in output.splitlines() if line.strip()]
    return [output]


def _leaves(value: object, name: str = "value") -> Iterator[Expected]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, str(key))
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, name)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield Expected(name, float(value))
    elif isinstance(value, str) and value:
        yield Expected(name, value)


def _visible(task: Task) -> Iterator[tuple[str, str]]:
    """Yield the texts that an agent can read: prompt, image sources, tools, variables."""
    yield "instruction.md", task.instruction
    for directory in ("environment", "tools"):
        for path in sorted((task.path / directory).rglob("*")):
            if path.is_file() and path.stat().st_size <= _MAX_BYTES:
                yield path.relative_to(task.path).as_posix(), _text(path)
    for name, value in task.config.environment.env.items():
        yield f"environment.env.{name}", value


def _text(path: Path) -> str:
    data = path.read_bytes()
    return "" if b"\0" in data else data.decode("utf-8", "replace")
