"""Exported attempts as BigQuery loads them: lines of JSON or Parquet, with the schema of a table.

Both have the columns of every export, and the parts of each reward in ``details``. Lines of JSON
also have the whole record. BigQuery loads its type JSON from lines of JSON, not from Parquet.
"""

from __future__ import annotations

import json
from math import isfinite
from typing import IO, TYPE_CHECKING, Any

from pytest_aecbench.errors import LedgerError
from pytest_aecbench.reports.columns import EXPORTED
from pytest_aecbench.reports.tables import arrow_table, rows, to_parquet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.ledger.sheet import Sheet
    from pytest_aecbench.reports.columns import Kind

__all__ = ["schema", "write_json_lines", "write_parquet"]

_TYPES: dict[Kind, str] = {
    "boolean": "BOOLEAN",
    "category": "STRING",
    "integer": "INTEGER",
    "number": "FLOAT",
    "text": "STRING",
    "time": "TIMESTAMP",
}
_EXACT = range(-(2**53) + 1, 2**53)  # the integers that every reader of JSON keeps
_INT64 = range(-(2**63), 2**63)


def schema(file_format: str) -> list[dict[str, str]]:
    """Return the schema of the table that ``jsonl`` or ``parquet`` is loaded into."""
    types = {column.name: _TYPES[column.kind] for column in EXPORTED}
    if file_format == "jsonl":
        types |= {"details": "JSON", "record": "JSON"}
    else:
        types |= {"details": "STRING"}
    return [{"name": name, "type": kind, "mode": "NULLABLE"} for name, kind in types.items()]


def write_json_lines(
    file: IO[bytes], entries: Sequence[Entry], records: Iterable[TrialRecord]
) -> None:
    """Write an object for each attempt, whose record is the one at the same place.

    Raises:
        LedgerError: an integer has more than 64 bits.

    """
    for entry, row, record in zip(entries, rows(entries, details=False), records, strict=True):
        values = {name: _plain(value, name, entry) for name, value in row.items()}
        values["details"] = _finite(entry.evaluation.details)
        text = json.dumps(values, ensure_ascii=False)
        file.write(f'{text[:-1]}, "record": {record.model_dump_json()}}}\n'.encode())


def _plain(value: Any, name: str, entry: Entry) -> object:
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, int) and value not in _EXACT:
        if value not in _INT64:
            raise LedgerError(
                f"{entry.experiment_id}/{entry.trial_id}.json: {name} {value} has more than 64 "
                "bits; export as csv, or delete the record"
            )
        return str(value)
    return value


def _finite(details: Mapping[str, float]) -> dict[str, float | None]:
    """Return parts of a reward without numbers that JSON does not have."""
    return {name: value if isfinite(value) else None for name, value in details.items()}


def write_parquet(file: IO[bytes], sheet: Sheet) -> None:
    """Write a file of Parquet; for what is raised see ``arrow_table``."""
    table = arrow_table(sheet, details=False)
    details = [json.dumps(_finite(json.loads(text))) for text in sheet.column("details_json")]
    to_parquet(file, table.append_column("details", [details]))
