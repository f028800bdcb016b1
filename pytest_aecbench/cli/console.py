"""Output of the commands for people and for machines, and the project's settings."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.errors import SettingsError
from pytest_aecbench.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_aecbench.settings.model import Settings

__all__ = [
    "AsJson",
    "check_choices",
    "print_json",
    "print_problem",
    "print_table",
    "project_settings",
]

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def print_json(data: object) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)


def print_problem(problem: object) -> None:
    """Print why something is left out, and go on."""
    typer.echo(f"aec-bench: {problem}", err=True)


def check_choices(values: Iterable[str], valid: tuple[str, ...], where: str) -> None:
    """Raise SettingsError for a value that is not one of the valid ones."""
    for value in values:
        if value not in valid:
            choices = ", ".join(map(repr, valid))
            raise SettingsError(f"{where}: {value!r} is not valid; use one of {choices}")


def print_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table with columns as wide as their content; numbers are aligned right."""
    body = [list(row) for row in rows]
    cells = [list(head), *([printable(value) for value in row] for row in body)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = [isinstance(value, (int, float)) for value in body[0]] if body else [False] * len(head)
    for line in cells:
        padded = (
            cell.rjust(width) if to_the_right else cell.ljust(width)
            for cell, width, to_the_right in zip(line, widths, right, strict=True)
        )
        typer.echo("  ".join(padded).rstrip())


def project_settings() -> Settings:
    """Return the project's settings, without options of the command."""
    from pytest_aecbench.settings.layers import settings_at

    return settings_at(Path.cwd())
