"""``aec-bench ledger``: list, show and export the records of trials."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

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
from pytest_aecbench.host.files import shown_path
from pytest_aecbench.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.record import TrialRecord

__all__ = ["app"]

app = typer.Typer(help="Experiments and the records of their trials.", no_args_is_help=True)

_FORMATS = ("csv", "jsonl")
_KEY_WIDTH = 36
_COLUMNS = (
    "experiment_id",
    "trial_id",
    "trial_key",
    "run_id",
    "task_id",
    "task_digest",
    "domain",
    "difficulty",
    "visibility",
    "dataset",
    "dataset_drifted",
    "agent",
    "harness",
    "model",
    "repetition",
    "attempt",
    "backend",
    "outcome",
    "validity",
    "reward",
    "threshold",
    "passed",
    "error_cause",
    "agent_status",
    "started_at",
    "finished_at",
    "duration_sec",
    "tokens_in",
    "tokens_out",
    "tokens_cache_read",
    "tokens_cache_write",
    "tokens_reasoning",
    "calls",
    "cached_calls",
    "usd",
    "price_source",
    "agent_end",
    "turns",
)


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
        str, typer.Option("--format", help="jsonl (whole records) or csv (a row for each).")
    ] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file (default: the terminal).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format jsonl.")] = False,
) -> None:
    """Write records for other programs, the oldest first.

    Example: aec-bench ledger export --experiment nightly --format csv -o nightly.csv
    """
    check_choices([output_format], _FORMATS, "--format")
    as_csv = output_format == "csv" and not as_json
    if output is None:
        _write(sys.stdout, filters, as_csv=as_csv)
        return
    try:
        with output.open("w", encoding="utf-8", newline="") as text:
            _write(text, filters, as_csv=as_csv)
    except OSError as error:
        raise SettingsError(f"{output}: cannot be written, {error.strerror}") from None


def _write(file: IO[str], filters: Filters, *, as_csv: bool) -> None:
    if as_csv:
        writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(_csv_row, filters.entries()))
    else:
        file.writelines(f"{record.model_dump_json()}\n" for record in filters.records())


def _csv_row(record: Entry) -> dict[str, object]:
    from pytest_aecbench.ledger.query import outcome_of

    task, agent, timing = record.task, record.agent, record.timing
    evaluation, dataset = record.evaluation, record.dataset
    return {
        **{name: getattr(record, name) for name in ("experiment_id", "trial_id", "trial_key")},
        **{name: getattr(record, name) for name in ("run_id", "repetition", "attempt")},
        **record.cost._asdict(),
        "task_id": task.task_id,
        "task_digest": task.digest,
        "domain": task.domain,
        "difficulty": task.difficulty,
        "visibility": task.visibility,
        "dataset": f"{dataset.name}@{dataset.version}" if dataset else None,
        "dataset_drifted": dataset.drifted if dataset else None,
        "agent": agent.name,
        "harness": agent.harness,
        "model": agent.model,
        "backend": record.environment.backend,
        "outcome": outcome_of(record),
        "validity": evaluation.validity,
        "reward": evaluation.reward,
        "threshold": evaluation.threshold,
        "passed": evaluation.passed,
        "error_cause": evaluation.error.cause if evaluation.error else None,
        "agent_status": record.agent_result.status if record.agent_result else None,
        "agent_end": record.agent_result.end if record.agent_result else None,
        "turns": record.agent_result.turns if record.agent_result else None,
        "started_at": timing.started_at.isoformat(),
        "finished_at": timing.finished_at.isoformat(),
        "duration_sec": (timing.finished_at - timing.started_at).total_seconds(),
    }
