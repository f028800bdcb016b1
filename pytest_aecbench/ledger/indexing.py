"""Bring the index of a ledger up to date with its files."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pytest_aecbench.ledger.entry import pack
from pytest_aecbench.ledger.query import outcome_of
from pytest_aecbench.ledger.store import LedgerProblem, read_record
from pytest_aecbench.text import is_utf8

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from pytest_aecbench.ledger.entry import Packed
    from pytest_aecbench.ledger.record import TrialRecord
    from pytest_aecbench.ledger.store import Ledger

__all__ = ["modified_ns", "refresh"]

_BATCH = 1000
# A directory that changed so recently may change once more without a new time of change.
_SETTLED_NS = 2 * 10**9
_Stamp = tuple[int, int]  # time of change in nanoseconds, and size
_COLUMNS = (
    *("experiment", "name", "seq", "mtime_ns", "size", "problem", "own", "details", "task"),
    *("agent", "shared", "task_id", "agent_name", "outcome", "started", "finished", "spent"),
)
# Another process may have kept the same meanwhile, which is then not a change.
_KEEP = f"""
INSERT INTO records ({", ".join(_COLUMNS)}) VALUES ({", ".join("?" * len(_COLUMNS))})
ON CONFLICT DO UPDATE SET gone = 0, {", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)}
WHERE gone OR mtime_ns != excluded.mtime_ns OR size != excluded.size
"""  # noqa: S608  (only names)
_FORGET = """
UPDATE records SET gone = 1, seq = ?, problem = NULL, own = NULL, details = NULL, spent = NULL
WHERE experiment = ? AND name = ? AND NOT gone
"""


def refresh(
    connection: sqlite3.Connection,
    ledger: Ledger,
    experiments: Iterable[str],
    *,
    quick: bool = False,
    most: int | None = None,
    may_go_on: Callable[[], bool] = lambda: True,
) -> list[LedgerProblem]:
    """Read what is new or changed and forget what is gone; return problems that may pass.

    ``quick`` passes over a directory to which nothing was added and from which nothing was removed,
    without looking for files that were changed. At most ``most`` files are read, and after some
    files ``may_go_on`` is asked whether to read more.
    """
    unkept: list[LedgerProblem] = []
    writer = _Writer(connection)
    for experiment in experiments:
        if most is not None and most <= 0:
            break
        directory = ledger.root / experiment
        before_ns = modified_ns(directory)
        if quick and before_ns and before_ns == _seen_ns(connection, experiment):
            continue
        known = _known(connection, experiment)
        stamps = {}
        for entry in ledger.files(experiment):
            stamp = _stamp(entry)
            # A ledger may have many files, so the known ones that are still there are forgotten.
            if known.pop(entry.name, None) != stamp:
                stamps[entry.name] = stamp
        stale = read = sorted(stamps)
        if most is not None:
            read = sorted(stale, key=stamps.__getitem__, reverse=True)[:most]  # the newest
            most -= len(read)
        # Another process may know files that came after they were listed here.
        gone = [name for name in known if not os.path.lexists(directory / name)]
        writer.forget(experiment, gone)
        done, goes_on = 0, True
        while goes_on and done < len(read):
            batch = read[done : done + _BATCH]
            found = [(name, stamps[name], read_record(directory, name)) for name in batch]
            unkept += writer.keep(experiment, found)
            done += len(batch)
            goes_on = may_go_on()
        is_settled = before_ns < time.time_ns() - _SETTLED_NS and done == len(stale)
        writer.see(experiment, before_ns, is_settled=is_settled and not unkept)
        if not goes_on:
            break
    return unkept


def modified_ns(path: Path) -> int:
    """Return when a directory was changed; 0 if it is not there."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def _seen_ns(connection: sqlite3.Connection, experiment: str) -> int | None:
    query = "SELECT mtime_ns FROM experiments WHERE name = ?"
    row = connection.execute(query, (experiment,)).fetchone()
    return row and int(row[0])


def _known(connection: sqlite3.Connection, experiment: str) -> dict[str, _Stamp]:
    query = "SELECT name, mtime_ns, size FROM records WHERE experiment = ? AND NOT gone"
    return {name: (at, size) for name, at, size in connection.execute(query, (experiment,))}


def _stamp(entry: os.DirEntry[str]) -> _Stamp:
    """Return what tells a file from a changed one."""
    try:
        found = entry.stat()
    except OSError:
        return 0, -1
    return found.st_mtime_ns, found.st_size


class _Writer:
    """Writes in short transactions, because several processes may do so at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._numbers: dict[str, int] = {}

    def keep(
        self,
        experiment: str,
        found: Sequence[tuple[str, _Stamp, TrialRecord | LedgerProblem]],
    ) -> list[LedgerProblem]:
        """Keep what was read; return the problems that are not kept."""
        rows, texts, unkept = [], [], []
        with _Transaction(self._connection) as seq:
            for number, (name, stamp, one) in enumerate(found, start=seq + 1):
                if not isinstance(one, LedgerProblem):
                    packed = pack(one)
                    values: tuple[Any, ...] = (None, *self._figures(one, packed))
                    texts.append((experiment, name, packed.more))
                elif one.is_lasting and is_utf8(name):
                    values = (one.reason, *(None,) * 11)
                else:
                    unkept.append(one)
                    continue
                rows.append((experiment, name, number, *stamp, *values))
            self._connection.executemany(_KEEP, rows)
            self._connection.executemany("REPLACE INTO more VALUES (?, ?, ?)", texts)
        return unkept

    def forget(self, experiment: str, names: Sequence[str]) -> None:
        """Remember that files are gone."""
        if names:
            with _Transaction(self._connection) as seq:
                numbered = enumerate(names, start=seq + 1)
                rows = [(number, experiment, name) for number, name in numbered]
                self._connection.executemany(_FORGET, rows)
                query = "DELETE FROM more WHERE experiment = ? AND name = ?"
                self._connection.executemany(query, [(experiment, name) for name in names])

    def see(self, experiment: str, mtime_ns: int, *, is_settled: bool) -> None:
        """Remember the state of a directory that was looked through."""
        at = mtime_ns if is_settled else 0
        if at and at == _seen_ns(self._connection, experiment):
            return
        self._connection.execute("REPLACE INTO experiments VALUES (?, ?)", (experiment, at))

    def _figures(self, record: TrialRecord, packed: Packed) -> tuple[Any, ...]:
        is_work = record.scored and record.evaluates is None
        return (
            packed.own,
            packed.details,
            *map(self._number, (packed.task, packed.agent, packed.shared)),
            record.task.task_id,
            record.agent.name,
            outcome_of(record),
            record.timing.started_at.timestamp(),
            record.timing.finished_at.timestamp(),
            record.timing.spent_sec if is_work else None,
        )

    def _number(self, part: str) -> int:
        if (known := self._numbers.get(part)) is not None:
            return known
        execute = self._connection.execute
        added = execute("INSERT OR IGNORE INTO parts (data) VALUES (?)", (part,))
        number = added.lastrowid
        if not added.rowcount:
            (number,) = execute("SELECT id FROM parts WHERE data = ?", (part,)).fetchone()
        assert number is not None
        self._numbers[part] = number
        return number


class _Transaction:
    """All or nothing of what is written within; gives the last number of a change."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> int:
        self._connection.execute("BEGIN IMMEDIATE")
        (seq,) = self._connection.execute("SELECT coalesce(max(seq), 0) FROM records").fetchone()
        return int(seq)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:  # a full disk has ended it already
            self._connection.execute("ROLLBACK")
