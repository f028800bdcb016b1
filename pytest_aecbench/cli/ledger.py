"""``aec-bench ledger``: list, show and export the records of trials."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pytest_aecbench.cli.console import (
    AsJson,
    check_choices,
    print_json,
    print_table,
    project_settings,
)
from pytest_aecbench.cli.filters import Filters, with_filters
from pytest_aecbench.cli.trajectory import print_trajectory
from pytest_aecbench.errors import LedgerError, SettingsError
from pytest_aecbench.host.files import output_file, shown_path
from pytest_aecbench.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.record import TrialRecord

__all__ = ["app"]

app = typer.Typer(help="Experiments and the records of their trials.", no_args_is_help=True)

_FORMATS = ("csv", "jsonl", "parquet")
_KEY_WIDTH = 36


@app.command("list")
@with_filters()
def list_records(
    filters: Filters,
    trials: Annotated[
        bool, typer.Option("--trials", help="Print a line per attempt, not per experiment.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List experiments, or with --trials the attempts of their trials, the oldest first.

    Example: aec-bench ledger list --trials --outcome error --since 7d
    """
    records = filters.entries()
    rows = list(_trial_rows(records) if trials else _experiment_rows(records))
    if as_json:
        print_json(rows)
    elif rows:
        print_table(list(rows[0]), (list(row.values()) for row in rows))
    else:
        typer.echo(f"nothing in {shown_path(project_settings().ledger_root)}")


def _experiment_rows(records: Iterable[Entry]) -> Iterator[dict[str, object]]:
    from pytest_aecbench.ledger.query import outcome_of

    experiments: dict[str, list[Entry]] = {}
    for record in records:
        experiments.setdefault(record.experiment_id, []).append(record)
    for experiment_id, attempts in experiments.items():
        outcomes = [outcome_of(record) for record in attempts]
        yield {
            "experiment": experiment_id,
            "started": f"{attempts[0].timing.started_at:%Y-%m-%d %H:%M}",
            "attempts": len(attempts),
            "passed": outcomes.count("passed"),
            "failed": outcomes.count("failed"),
            "error": outcomes.count("error"),
            "agents": ", ".join(sorted({record.agent.name for record in attempts})),
        }


def _trial_rows(records: Iterable[Entry]) -> Iterator[dict[str, object]]:
    from pytest_aecbench.ledger.query import outcome_of

    for record in records:
        error, reward = record.evaluation.error, record.evaluation.reward
        yield {
            "trial": record.trial_id,
            "started": f"{record.timing.started_at:%Y-%m-%d %H:%M}",
            "outcome": outcome_of(record) if error is None else f"error ({error.cause})",
            "reward": "-" if reward is None else f"{reward:.4g}",
            "name": f"{record.task.task_id}[{record.agent.name}-{record.repetition}]",
            "experiment": record.experiment_id,
        }


@app.command()
def show(
    trial: Annotated[str, typer.Argument(help="A trial's id, or the beginning of one.")],
    trajectory: Annotated[
        bool, typer.Option("--trajectory", help="Show what the agent did, turn by turn.")
    ] = False,
    turn: Annotated[
        int | None, typer.Option(min=0, help="Only this turn, whole; 0 is the task.")
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Print the entries as JSON lines.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show everything about one attempt of a trial, and the paths of its files.

    Example: aec-bench ledger show 3f0c9a52 --trajectory --turn 2
    """
    record, path = _find(trial)
    if trajectory or raw or turn is not None:
        print_trajectory(record, turn=turn, raw=raw, as_json=as_json)
        return
    if as_json:
        print_json(record.model_dump(mode="json"))
        return
    settings = project_settings()
    for key, value in _flat(record.model_dump(mode="json", exclude={"outputs"})):
        _print_pair(key, value)
    outputs = record.outputs
    _print_pair("record", shown_path(path))
    if outputs.output_path:
        _print_pair("output", outputs.output_path)
    for file in outputs.files:
        gone = "" if (settings.root / (outputs.jobs_dir or "") / file.path).exists() else ", gone"
        where = f"{outputs.jobs_dir}/{file.path}"
        _print_pair("file", f"{where} ({file.size} bytes{gone})")
    for line in (outputs.output_excerpt or "").splitlines():
        typer.echo(f"  {printable(line)}")


def _print_pair(key: str, value: object) -> None:
    typer.echo(f"{printable(key):<{_KEY_WIDTH}} {printable(value)}")


def _find(prefix: str) -> tuple[TrialRecord, Path]:
    from pytest_aecbench.host.files import read_regular
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.ledger.store import MAX_RECORD_BYTES, Ledger

    root = project_settings().ledger_root
    found = [
        path
        for experiment in Ledger(root).experiments()
        for path in sorted((root / experiment).glob("*.json"))
        if path.stem.startswith(prefix) and not path.name.startswith(".")
    ]
    if not prefix or not found:
        raise SettingsError(
            f"TRIAL: trial {prefix!r} not found in {shown_path(root)}; "
            "'aec-bench ledger list --trials' lists them"
        )
    if len(found) > 1:
        names = ", ".join(path.stem for path in found[:5])
        raise SettingsError(f"TRIAL: {prefix!r} begins {len(found)} ids; use more of one: {names}")
    try:
        return TrialRecord.from_json(read_regular(found[0], MAX_RECORD_BYTES)), found[0]
    except (LedgerError, OSError) as error:
        reason = getattr(error, "strerror", None) or error
        raise LedgerError(f"{shown_path(found[0])}: {reason}") from None


def _flat(data: dict[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield each value that is not empty, with its dotted key."""
    for key, value in data.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list) and value:
            yield f"{prefix}{key}", json.dumps(value, ensure_ascii=False)
        elif value not in (None, []):
            yield f"{prefix}{key}", value


@app.command("export")
@with_filters()
def export_records(
    filters: Filters,
    output_format: Annotated[
        str, typer.Option("--format", help="jsonl (whole records), csv or parquet (a row each).")
    ] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file (default: the terminal).")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Also a column for each part of the rewards.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
) -> None:
    """Write records for other programs, the oldest first.

    Example: aec-bench ledger export --experiment nightly --format csv -o nightly.csv
    """
    from pytest_aecbench.reports.tables import write_csv

    check_choices([output_format], _FORMATS, "--format")
    chosen = "jsonl" if as_json else output_format
    if chosen == "jsonl":
        if details:
            raise SettingsError("--details: jsonl has them; use --format csv or parquet with it")
        lines = (f"{record.model_dump_json()}\n" for record in filters.records())
        if output is None:
            sys.stdout.writelines(lines)
        else:
            with output_file(output) as file:
                file.writelines(line.encode() for line in lines)
    elif chosen == "parquet":
        if output is None:
            raise SettingsError("--format: parquet is not text; name a file with --output")
        filters.found().to_parquet(output, details=details)
    elif output is None:
        write_csv(sys.stdout, filters.entries(), details=details)
    else:
        filters.found().to_csv(output, details=details)
