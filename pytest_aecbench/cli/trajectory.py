"""``aec-bench ledger show --trajectory``: the turns of one attempt."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

from pytest_aecbench.cli.console import print_problem, project_settings
from pytest_aecbench.errors import LedgerError, SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_aecbench.agents.trajectory import Entry
    from pytest_aecbench.ledger.record import TrialRecord

__all__ = ["print_trajectory"]


def print_trajectory(
    record: TrialRecord, *, turn: int | None = None, raw: bool = False, as_json: bool = False
) -> None:
    """Print the trajectory of an attempt, or the entries of one turn whole.

    Raises:
        SettingsError: there is no such turn, or no trajectory.

    """
    numbered = _numbered(_entries(_find(record)))
    if turn is not None:
        numbered = iter(_only(turn, numbered))
    if as_json:
        _print_document(record.trial_id, numbered)
    elif raw:
        for _, entry in numbered:
            typer.echo(_encoded(entry))
    else:
        _print_lines(numbered, whole=turn is not None)


def _find(record: TrialRecord) -> Path:
    from pytest_aecbench.agents.trajectory import FILE

    jobs_dir = record.outputs.jobs_dir
    path = project_settings().root / (jobs_dir or "") / "agent" / FILE
    if jobs_dir is None or not path.exists():
        where = f"{jobs_dir}/agent" if jobs_dir else "the project"
        raise SettingsError(
            f"TRIAL: {record.trial_id} has no trajectory in {where}; only agents that call a "
            "model keep one, such as tool_loop, and it lasts as long as the trial's files"
        )
    return path


def _entries(path: Path) -> Iterator[Entry]:
    from pytest_aecbench.agents.trajectory import read_trajectory

    try:
        yield from read_trajectory(path, lambda problem: print_problem(f"{problem}; skipped"))
    except OSError as error:
        raise LedgerError(f"{path}: {error.strerror or error}") from None


def _numbered(entries: Iterator[Entry]) -> Iterator[tuple[int, Entry]]:
    """Yield each entry with its turn; a turn ends where the next reply begins."""
    turn = 0
    for entry in entries:
        if entry.role == "assistant":
            turn = turn + 1 if entry.turn is None else entry.turn
        yield turn, entry


def _only(turn: int, numbered: Iterator[tuple[int, Entry]]) -> list[tuple[int, Entry]]:
    found, last = [], 0
    for number, entry in numbered:
        last = max(last, number)
        if number == turn:
            found.append((number, entry))
    if not found:
        raise SettingsError(
            f"--turn: {turn} is not a turn of this trajectory; use a number from 0, the task, "
            f"to {last}"
        )
    return found


def _print_lines(numbered: Iterator[tuple[int, Entry]], *, whole: bool) -> None:
    from pytest_aecbench.reports.trajectory import Style, entry_lines

    style = Style.of(sys.stdout)
    for turn, entry in numbered:
        more = f"; --turn {turn} shows them"
        shown = replace(style, max_lines=None) if whole else replace(style, more=more)
        for line in entry_lines(entry, shown):
            typer.echo(line)


def _print_document(trial_id: str, numbered: Iterator[tuple[int, Entry]]) -> None:
    """Print one JSON document, entry by entry, because a trajectory may be long."""
    typer.echo(f'{{"trial_id": {json.dumps(trial_id)}, "entries": [', nl=False)
    separator = ""
    for _, entry in numbered:
        typer.echo(f"{separator}\n{_encoded(entry)}", nl=False)
        separator = ","
    typer.echo("\n]}")


def _encoded(entry: Entry) -> str:
    # Escaped, because a terminal may take characters that JSON leaves alone for commands.
    return json.dumps(entry.to_json())
