"""Exported attempts as tables: rows, CSV, pandas, Arrow and Parquet, all of the same columns.

An unknown value is None, an empty cell of CSV, and NA or null in the others; it is never 0.
"""

from __future__ import annotations

import csv
from datetime import datetime, timedelta, timezone
from functools import cache
from importlib import import_module
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

from pytest_aecbench.errors import LedgerError, SettingsError
from pytest_aecbench.reports.columns import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pandas
    import pyarrow

    from pytest_aecbench.ledger.entry import Entry
    from pytest_aecbench.reports.columns import Kind

__all__ = ["arrow_table", "data_frame", "rows", "write_csv", "write_parquet"]

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
    parts = [_PARTS + name for name in _parts_of_rewards(entries)] if details else []
    writer = csv.DictWriter(
        file, [*(column.name for column in EXPORTED), *parts], lineterminator="\n"
    )
    writer.writeheader()
    for row in rows(entries, details=details):
        writer.writerow({**row, **{name: row[name].isoformat() for name in _TIMES}})


def data_frame(entries: Sequence[Entry], *, details: bool) -> pandas.DataFrame:
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
    return pandas.DataFrame(_made(entries, makers, details=details), copy=False)


def arrow_table(entries: Sequence[Entry], *, details: bool) -> pyarrow.Table:
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
    return pyarrow.table(_made(entries, makers, details=details))


def write_parquet(file: IO[bytes], entries: Sequence[Entry], *, details: bool) -> None:
    """Write the attempts as a file of Parquet; for what is raised see ``arrow_table``."""
    parquet = _library("pyarrow.parquet")
    parquet.write_table(arrow_table(entries, details=details), file)


def _made(
    entries: Sequence[Entry],
    makers: Mapping[Kind, Callable[[list[Any]], Any]],
    *,
    details: bool,
) -> dict[str, Any]:
    """Return a library's columns by name; ``makers`` make one of values, by kind."""
    parts = _parts_of_rewards(entries) if details else {}
    columns = chain(
        ((one.name, one.kind, list(map(one.value, entries))) for one in EXPORTED),
        ((_PARTS + name, "number", _spread(found, len(entries))) for name, found in parts.items()),
    )
    made = {}
    for name, kind, values in columns:
        try:
            made[name] = makers[kind](values)
        except (ArithmeticError, TypeError, ValueError):
            _check_integers(entries, name, values)
            raise
    return made


def _check_integers(entries: Sequence[Entry], name: str, values: Iterable[object]) -> None:
    for entry, value in zip(entries, values, strict=True):
        if isinstance(value, int) and value not in _INT64:
            raise LedgerError(
                f"{entry.experiment_id}/{entry.trial_id}.json: {name} {value} has more than 64 "
                "bits; export as csv or jsonl, or delete the record"
            ) from None


def _parts_of_rewards(entries: Iterable[Entry]) -> dict[str, list[tuple[int, float]]]:
    """Return the parts of rewards by name, sorted, each as numbers of rows and values.

    Tasks have parts of their own, so that most attempts lack most parts.
    """
    read = cache(lambda entry: entry.details)  # thousands of attempts earned the same
    found: dict[str, list[tuple[int, float]]] = {}
    for number, entry in enumerate(entries):
        for name, value in read(entry.evaluation).items():
            found.setdefault(name, []).append((number, value))
    return dict(sorted(found.items()))


def _spread(found: Iterable[tuple[int, float]], count: int) -> list[float | None]:
    values: list[float | None] = [None] * count
    for number, value in found:
        values[number] = value
    return values


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        is_missing = isinstance(error, ModuleNotFoundError) and error.name == package
        problem = "is not installed" if is_missing else f"cannot be imported, {error}"
        right = f"pip install 'pytest-aecbench[{_EXTRAS[name]}]'"
        raise SettingsError(f"{package}: {problem}; {right}") from None
