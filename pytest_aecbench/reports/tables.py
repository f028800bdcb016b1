"""Exported attempts as tables: rows, CSV, pandas, Arrow and Parquet, all of the same columns.

An unknown value is None, an empty cell of CSV, and NA or null in the others; it is never 0.
"""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta, timezone
from importlib import import_module
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from pytest_aecbench.errors import LedgerError, SettingsError
from pytest_aecbench.ledger.entry import Own
from pytest_aecbench.ledger.store import no_garbage_collection
from pytest_aecbench.reports.columns import EXPORTED

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas
    import pyarrow

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.ledger.sheet import Sheet
    from pytest_aecbench.reports.columns import Exported, Kind

__all__ = ["arrow_table", "data_frame", "rows", "to_parquet", "write_csv", "write_parquet"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_INT64 = range(-(2**63), 2**63)
_PARTS = "details."  # begins the name of a column that has a part of rewards
_EXTRAS = {"pandas": "pandas", "pyarrow": "arrow", "pyarrow.parquet": "arrow"}


def rows(entries: Iterable[Entry], *, details: bool) -> Iterator[dict[str, Any]]:
    """Yield each attempt as values by column, with the parts of its reward if ``details``."""
    for entry in entries:
        row = {column.name: column.value(entry) for column in EXPORTED}
        for name in _TIMES:
            row[name] = _EPOCH + timedelta(microseconds=row[name])
        if details:
            row.update((_PARTS + name, value) for name, value in entry.evaluation.details.items())
        yield row


_TIMES = tuple(column.name for column in EXPORTED if column.kind == "time")


def write_csv(file: IO[str], entries: Sequence[Entry], *, details: bool) -> None:
    """Write a row for each attempt, below a row of names."""
    texts = {entry.evaluation.details_json for entry in entries} if details else set()
    earned = sorted(set(chain.from_iterable(map(json.loads, texts))))
    parts = [_PARTS + name for name in earned]
    writer = csv.DictWriter(
        file, [*(column.name for column in EXPORTED), *parts], lineterminator="\n"
    )
    writer.writeheader()
    for row in rows(entries, details=details):
        writer.writerow({**row, **{name: row[name].isoformat() for name in _TIMES}})


def data_frame(sheet: Sheet, *, details: bool) -> pandas.DataFrame:
    """Return the attempts as a data frame of pandas.

    Raises:
        SettingsError: pandas is not installed.
        LedgerError: a number has more than 64 bits.

    """
    pandas = _library("pandas")
    import numpy

    makers: dict[Kind, Callable[[list[Any]], Any]] = {
        "boolean": lambda values: pandas.array(values, dtype="boolean"),
        "category": pandas.Categorical,
        "integer": lambda values: pandas.array(values, dtype="Int64"),
        "number": lambda values: numpy.array(values, dtype="float64"),
        "text": lambda values: pandas.array(values, dtype="string"),
        "time": lambda values: pandas.DatetimeIndex(
            numpy.array(values, dtype="datetime64[us]")
        ).tz_localize("UTC"),
    }
    columns = _made(sheet, makers, numpy.asarray, details=details)
    return pandas.DataFrame(columns, copy=False)


def arrow_table(sheet: Sheet, *, details: bool) -> pyarrow.Table:
    """Return the attempts as a table of Arrow.

    Raises:
        SettingsError: pyarrow is not installed.
        LedgerError: a number has more than 64 bits.

    """
    pyarrow = _library("pyarrow")
    types: dict[Kind, Any] = {
        "boolean": pyarrow.bool_(),
        "category": pyarrow.dictionary(pyarrow.int32(), pyarrow.string()),
        "integer": pyarrow.int64(),
        "number": pyarrow.float64(),
        "text": pyarrow.string(),
        "time": pyarrow.timestamp("us", tz="UTC"),
    }

    def maker(of: Any) -> Callable[[list[Any]], Any]:
        return lambda values: pyarrow.array(values, type=of)

    makers = {kind: maker(of) for kind, of in types.items()}

    def numbers(rows_of: array[int]) -> Any:
        buffers = [None, pyarrow.py_buffer(rows_of)]
        return pyarrow.Array.from_buffers(pyarrow.int64(), len(rows_of), buffers)

    return pyarrow.table(_made(sheet, makers, numbers, details=details))


def write_parquet(file: IO[bytes], sheet: Sheet, *, details: bool) -> None:
    """Write the attempts as a file of Parquet; for what is raised see ``arrow_table``."""
    to_parquet(file, arrow_table(sheet, details=details))


def to_parquet(file: IO[bytes], table: pyarrow.Table) -> None:
    """Write a table of Arrow as a file of Parquet."""
    _library("pyarrow.parquet").write_table(table, file)


def _made(
    sheet: Sheet,
    makers: Mapping[Kind, Callable[[list[Any]], Any]],
    numbers: Callable[[array[int]], Any],
    *,
    details: bool,
) -> dict[str, Any]:
    """Return a library's columns by name.

    ``makers`` make one of values, by kind, and ``numbers`` one of the numbers of values.
    """
    made = {}
    with no_garbage_collection():
        for column in EXPORTED:
            values, rows_of = _values(sheet, column)
            try:
                found = makers[column.kind](values)
            except (ArithmeticError, TypeError, ValueError):
                _check_integers(sheet, column.name, values)
                raise
            made[column.name] = found if rows_of is None else found.take(numbers(rows_of))
        if details:
            earned, rows_of = sheet.of_each(
                ("details_json",), lambda entry: entry.evaluation.details
            )
            for name in sorted(set(chain.from_iterable(earned))):
                found = makers["number"]([parts.get(name) for parts in earned])
                made[_PARTS + name] = found.take(numbers(rows_of))
    return made


def _values(sheet: Sheet, column: Exported) -> tuple[list[Any], array[int] | None]:
    """Return a column's values, and which of them each row has if not each its own."""
    if column.from_stored is not None:
        return list(map(column.from_stored, *map(sheet.column, column.of))), None
    if len(column.of) == 1 and column.of[0] in _OWN:
        return sheet.column(column.of[0]), None
    return sheet.of_each(column.of, column.value)


_OWN = frozenset(("trial_id", *Own._fields))


def _check_integers(sheet: Sheet, name: str, values: Iterable[object]) -> None:
    for number, value in enumerate(values):
        if isinstance(value, int) and value not in _INT64:
            entry = sheet.entries[number]
            raise LedgerError(
                f"{entry.experiment_id}/{entry.trial_id}.json: {name} {value} has more than 64 "
                "bits; export as csv or jsonl, or delete the record"
            ) from None


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == package
        problem = "is not installed" if is_missing else f"cannot be imported, {error}"
        right = f"pip install 'pytest-aecbench[{_EXTRAS[name]}]'"
        raise SettingsError(f"{package}: {problem}; {right}") from None
